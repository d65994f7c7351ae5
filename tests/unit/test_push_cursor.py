"""A cursor leads back to its position for the link and the log that it was made for, only."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from catalog.store.changes import LogCursor, Position
from replication.sources.ownlog import read_push_cursor, write_push_cursor

_LAST = 2**63 - 1
_INSTANCES = st.uuids()
_LINKS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9\-._~]{0,127}", fullmatch=True)
_POSITIONS = st.builds(Position, st.integers(0, _LAST), st.integers(0, _LAST))


@given(_INSTANCES, _POSITIONS, _LINKS)
def test_a_cursor_leads_back_to_its_position(
    instance: uuid.UUID, position: Position, link: str
) -> None:
    cursor = write_push_cursor(instance, LogCursor.at(instance, position), link)
    assert read_push_cursor(instance, link, cursor) == LogCursor.at(instance, position)


@given(st.tuples(_INSTANCES, _LINKS), st.tuples(_INSTANCES, _LINKS), _POSITIONS)
def test_a_cursor_of_another_link_or_log_leads_nowhere(
    mine: tuple[uuid.UUID, str], other: tuple[uuid.UUID, str], position: Position
) -> None:
    cursor = write_push_cursor(other[0], LogCursor.at(other[0], position), other[1])
    assert (read_push_cursor(*mine, cursor) is None) == (mine != other)


@given(_INSTANCES, _LINKS, st.one_of(st.none(), st.text(), st.text("0123456789abcdef.@x")))
def test_a_text_that_is_no_cursor_leads_nowhere(
    instance: uuid.UUID, link: str, text: str | None
) -> None:
    assert read_push_cursor(instance, link, text) is None
    beyond = f"{instance.hex}.{_LAST + 1}.0@{link}"
    assert read_push_cursor(instance, link, beyond) is None
