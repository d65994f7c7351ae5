"""Positions in the logs of nodes keep their order and their instance as texts."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.store.changes import LogCursor, Position

_numbers = st.integers(0, 2**63 - 1)
positions = st.builds(Position, _numbers, _numbers)


@given(st.uuids(), positions)
def test_a_text_is_read_as_the_cursor_that_it_was(instance: uuid.UUID, position: Position) -> None:
    cursor = LogCursor.at(instance, position)
    assert LogCursor.parse(str(cursor)) == cursor
    assert cursor.is_of(instance)


@given(st.uuids(), positions, positions)
def test_texts_of_one_instance_have_the_order_of_positions(
    instance: uuid.UUID, one: Position, other: Position
) -> None:
    texts = [str(LogCursor.at(instance, position)) for position in (one, other)]
    assert (texts[0] < texts[1]) == (one < other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "1.2",
        "0123456.1.2",
        "0123456G.1.2",
        "01234567.1",
        "01234567.1.2.3",
        "01234567.1.99999999999999999999",
        "01234567.1.9999999999999999999",
        "01234567.\u0661.2",
        "01234567.1.2\n",
    ],
)
def test_other_texts_are_no_cursors(text: str) -> None:
    with pytest.raises(ValueError, match="is not a position"):
        LogCursor.parse(text)
