"""Positions in a log, as cursors and as subscribers name them: a beginning, an end, a time."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from catalog.model.errors import InvalidAttribute
from catalog.model.timestamps import format_time, parse_time
from catalog.store.changes import Position
from catalog.store.database import Connection
from catalog.store.queries import Queries

LogName = Literal["changes", "subscriptions", "audit"]
"""The log of changes, the log of the lives of subscriptions, or the audit."""
MOST_DISORDER = timedelta(minutes=10)
"""The most by which an entry may be earlier than a previous entry.

Clocks differ, and time passes between the decision on a change and its transaction.
"""
_queries = Queries("logpositions")
ENTRY_SINCE: Mapping[LogName, str] = {
    "changes": _queries.change_since,
    "subscriptions": _queries.change_since.replace("FROM changes", "FROM subscription_events"),
    "audit": _queries.change_since.replace("FROM changes", "FROM audit"),
}
"""The statement that finds the first entry of a time or later, for each log."""


def check_position(text: str, subject: str, name: str = "config.from") -> None:
    """Check that a text, the attribute `name` of `subject`, can name a position.

    Raises:
        InvalidAttribute: the text is neither `now`, `earliest`, a position, nor a time.
    """
    if text not in ("now", "earliest") and _position_from(text) is None:
        try:
            parse_time(text)
        except ValueError:
            fault = 'it needs to be "now", "earliest", the sequence of an event, or a time'
            raise InvalidAttribute(subject, name=name, error_detail=fault) from None


async def find_position(
    connection: Connection,
    text: str,
    log: LogName = "changes",
    *,
    subject: str = "/subscriptions",
    name: str = "config.from",
) -> Position:
    """The position after which a reader continues that begins at the position `text`.

    Args:
        text: `now`, `earliest`, the position of the last event that the reader has read, or the
            time of the first event to read.

    Raises:
        InvalidAttribute: `text` is no position, or the log does not reach the position.
    """
    check_position(text, subject, name)
    bounds = await connection.fetchrow(_queries.bounds, log)
    now = Position.end_of(bounds["txid"])
    dropped = Position(bounds["dropped_txid"], bounds["dropped_seq"])
    if text in ("now", "earliest"):
        return now if text == "now" else dropped
    position = _position_from(text)
    if position is not None:
        is_within = dropped <= position <= now
    else:
        moment = parse_time(text)
        is_within = _has_all_since(moment, bounds)
        position = await _find_time(connection, moment, log) or now
    if not is_within:
        raise InvalidAttribute(subject, name=name, error_detail=_description(bounds))
    return position


def _position_from(text: str) -> Position | None:
    try:
        return Position.parse(text)
    except ValueError:
        return None


def _has_all_since(moment: datetime, bounds: Mapping[str, Any]) -> bool:
    """Whether a log has every entry from a time to now."""
    first = bounds["first_at"]
    is_whole = bounds["dropped_txid"] == 0
    return moment <= bounds["now"] and (is_whole or (first is not None and first <= moment))


async def _find_time(connection: Connection, moment: datetime, log: LogName) -> Position | None:
    """The position before the first entry of a time or later, as far as the log can be read."""
    row = await connection.fetchrow(ENTRY_SINCE[log], moment, MOST_DISORDER)
    return None if row is None else Position(row["txid"], row["seq"] - 1)


def _description(bounds: Mapping[str, Any]) -> str:
    """A sentence on the entries of a log."""
    now = Position.end_of(bounds["txid"])
    dropped = Position(bounds["dropped_txid"], bounds["dropped_seq"])
    first = bounds["first_at"]
    since = "" if first is None else f", the first from {format_time(first)}"
    return f"the log has the entries after {dropped} up to {now}{since}"


CHECKSUM_DIGITS = 12
_FORM = re.compile(
    r"([0-9a-f]{8})\.([0-9]{1,19}\.[0-9]{1,19})(?:\.([0-9a-f]{12})\.([0-9a-f]{8}))?", re.ASCII
)


@dataclass(frozen=True, slots=True, order=True)
class LogCursor:
    """A position in the log of a node, with the first 8 digits of the node's instance id.

    Only cursors of the same instance can be compared. Later cursors are greater, as are the texts.

    Args:
        checksum: the checksum of the change at the position, by which a log with another past is
            noticed; "" in a cursor that stands for a position alone.
        incarnation: the last start of the node when the cursor was given out, by the first 8 digits
            of its id.
    """

    instance: str
    position: Position
    checksum: str = field(default="", compare=False)
    incarnation: str = field(default="", compare=False)

    def __str__(self) -> str:
        text = f"{self.instance}.{self.position}"
        return f"{text}.{self.checksum}.{self.incarnation}" if self.checksum else text

    @classmethod
    def at(cls, instance: uuid.UUID, position: Position) -> Self:
        return cls(instance.hex[:8], position)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text that `str` returns.

        Raises:
            ValueError: `text` is not a cursor.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a position in the change log of a node")
        return cls(found[1], Position.parse(found[2]), found[3] or "", found[4] or "")

    def is_of(self, instance: uuid.UUID) -> bool:
        """Whether the cursor is a position in the log of an instance."""
        return self.instance == instance.hex[:8]
