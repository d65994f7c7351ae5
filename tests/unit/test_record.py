from dataclasses import replace

import pytest

from catalog.model.record import record


@record
class Point:
    x: int
    y: int = 0


def test_records_of_equal_values_are_one_key() -> None:
    assert {Point(x=1): "here"}[replace(Point(x=2), x=1)] == "here"


def test_a_record_has_no_attributes_but_its_own() -> None:
    with pytest.raises(AttributeError):
        Point(x=1).z = 3  # type: ignore[attr-defined]
