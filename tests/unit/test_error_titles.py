"""The titles of errors, which are templates with placeholders."""

from __future__ import annotations

import pytest

from catalog.model.errors import InvalidAttribute


def test_a_title_has_the_values_of_its_placeholders() -> None:
    error = InvalidAttribute("/endpoints/e", name="usage", error_detail="it is a number")
    assert "usage" in error.title
    assert "it is a number" in error.title
    assert "<" not in error.title


def test_a_placeholder_without_a_value_is_a_fault_of_the_program() -> None:
    with pytest.raises(TypeError, match="InvalidAttribute needs error_detail"):
        InvalidAttribute("/endpoints/e", name="usage", error_details="it is a number")
