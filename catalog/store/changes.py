"""The change log: changes, positions and texts of positions, the bounds and the retention."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, Self

import orjson

from catalog.model.caller import PublishedAuthor
from catalog.model.change import Change
from catalog.model.errors import InvalidAttribute
from catalog.model.timestamps import format_time, parse_time
from catalog.model.tracecontext import TraceContext
from catalog.store.clockpoints import aged
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("changes")
_LAST_SEQ = 2**63 - 1
_POSITION = re.compile(r"([0-9]+)\.([0-9]+)")
_MOST_WRITES = 10_000


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A position in the change log of a node. Later positions are greater."""

    txid: int
    seq: int

    def __str__(self) -> str:
        """Format as text of fixed width, so that texts sort as positions do."""
        return f"{self.txid:019d}.{self.seq:019d}"

    @classmethod
    def end_of(cls, txid: int) -> Position:
        """The position after every change of a transaction."""
        return cls(txid, _LAST_SEQ)

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parse the text that `str` returns.

        Raises:
            ValueError: `text` is not a position.
        """
        found = _POSITION.fullmatch(text)
        if found is None or max(numbers := [int(number) for number in found.groups()]) > _LAST_SEQ:
            raise ValueError(f"{text!r} is not a position in a change log")
        return cls(*numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedChange:
    """A change with its log position, time, interaction, trace and published author."""

    position: Position
    interaction: str
    at: datetime
    change: Change
    trace: TraceContext | None = None
    author: PublishedAuthor | None = None


def trace_attributes(logged: LoggedChange) -> Mapping[str, str]:
    """The attributes of an event that carry the trace of its change (distributed-tracing.md)."""
    return {} if logged.trace is None else logged.trace.headers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The changes that stay in the log: changes within `age` and among the last `count`.

    Ages are measured times: see `catalog/store/clockpoints.py`.

    Changes that a subscription has yet to deliver stay within `held_age` and `held_count`. The
    contents that changes replaced stay with the changes, up to `content_bytes` in all.
    """

    age: timedelta
    count: int
    held_age: timedelta
    held_count: int
    content_bytes: int = 1024**3


class ChangesDropped(Exception):
    """The log begins after the position that a reader continues from, at `begin`."""

    def __init__(self, begin: Position) -> None:
        super().__init__(f"the change log begins after {begin}")
        self.begin = begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The bounds of the log: the log begins after `dropped`, and can be read up to `now`.

    The catalog `is_complete` unless the node has yet to recover entities of its own.
    """

    now: Position
    dropped: Position
    is_complete: bool

    def reaches(self, cursor: Position) -> bool:
        """Whether a reader that continues from `cursor` misses no change."""
        return self.dropped <= cursor <= self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """The changes after a position, in log order, with the bounds of the log at the same time.

    A change is shown only when no earlier change can still appear, so the position of the last
    change of a page is a cursor that skips no change. `newest` is the position of the last
    committed change, shown or not; position 0 if the log is empty.
    """

    head: Head
    newest: Position
    changes: Sequence[LoggedChange]


async def read_page(connection: Connection, after: Position, limit: int) -> LogPage:
    """Read up to `limit` changes after a position.

    If `head` does not reach the position, the page lacks changes that are no longer in the log.
    """
    rows = await connection.fetch(_queries.page, after.txid, after.seq, limit)
    return LogPage(
        head=_head_from(rows[0]),
        newest=Position(rows[0]["newest_txid"] or 0, rows[0]["newest_seq"] or 0),
        changes=_changes_from(rows),
    )


async def read_changes(
    connection: Connection, after: Position, limit: int
) -> Sequence[LoggedChange]:
    """Read up to `limit` changes after a position, in the order of a `LogPage`.

    Raises:
        ChangesDropped: changes after the position are no longer in the log.
    """
    page = await read_page(connection, after, limit)
    if after < page.head.dropped:
        raise ChangesDropped(page.head.dropped)
    return page.changes


async def position_before(connection: Connection, number: int) -> Position:
    """The position before the newest `number` changes, or the beginning of the log."""
    row = await connection.fetchrow(_queries.before_newest, number)
    if row is not None:
        return Position(row["txid"], row["seq"])
    return (await read_head(connection)).dropped


def change_from(row: Mapping[str, Any]) -> Change:
    deprecation = row.get("deprecation")
    return Change(
        xid=row["xid"],
        kind=row["kind"],
        action=row["action"],
        authority=row["authority"],
        origin=row["origin"],
        epoch=row["epoch"],
        digest=row["digest"],
        changed=tuple(row["changed"]),
        deprecation=None if deprecation is None else tuple(deprecation),
    )


def _changes_from(rows: Sequence[Mapping[str, Any]]) -> list[LoggedChange]:
    return [
        LoggedChange(
            position=Position(row["txid"], row["seq"]),
            interaction=row["interaction"],
            at=row["at"],
            author=row["author"] and PublishedAuthor.read(orjson.loads(row["author"])),
            trace=row["traceparent"] and TraceContext.parse(row["traceparent"], row["tracestate"]),
            change=change_from(row),
        )
        for row in rows
        if row["txid"] is not None
    ]


async def drop_oldest(connection: Connection, retention: Retention, *, limit: int) -> int:
    """Delete up to `limit` of the oldest changes that need not be kept; return their number.

    The same transaction moves the beginning of the log for readers. Tombstones stay.
    """
    dropped: int | None = await connection.fetchval(
        _queries.drop_oldest,
        (await aged(connection, retention.age)).txid,
        retention.count,
        (await aged(connection, retention.held_age)).txid,
        retention.held_count,
        limit,
    )
    return dropped or 0


async def read_head(connection: Connection) -> Head:
    """Read the bounds of the log.

    In a snapshot, `now` is the snapshot's cursor: the snapshot contains everything up to `now`.
    """
    row = await connection.fetchrow(_queries.head)
    assert row is not None, "there is one node"
    return _head_from(row)


def _head_from(row: Mapping[str, Any]) -> Head:
    return Head(
        # Every transaction up to here has ended, so no change before it can still appear.
        now=Position.end_of(row["now_txid"]),
        dropped=Position(row["dropped_txid"], row["dropped_seq"]),
        is_complete=row["gate"] == "open",
    )


async def read_newest(connection: Connection) -> Position:
    """The position of the last change that the connection sees, or position 0 without changes."""
    row = await connection.fetchrow(_queries.newest)
    return Position(0, 0) if row is None else Position(row["txid"], row["seq"])


class RecentWrite(NamedTuple):
    """A write of an entity."""

    xid: str
    kind: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recent:
    """The writes before `snapshot`; `None` if too many, or partly gone from the log."""

    snapshot: str
    written: Sequence[RecentWrite] | None


async def read_written(connection: Connection, since: str | None) -> Recent:
    """Read the writes that were committed between the snapshot `since` and now.

    The writes of transactions that were open at `since` are included, at any position of the log.
    """
    # A transaction that was open at `since` may commit entries before entries that were read. The
    # first part of a snapshot is the oldest transaction that was open at the time.
    first = int(since.partition(":")[0]) if since is not None else 0
    rows = await connection.fetch(_queries.written, since, first, _MOST_WRITES + 1)
    is_logged = rows[0]["dropped_txid"] < first
    is_complete = since is not None and is_logged and len(rows) <= _MOST_WRITES
    written = [
        RecentWrite(row["xid"], row["kind"], row["action"])
        for row in rows
        if row["xid"] is not None
    ]
    return Recent(snapshot=rows[0]["snapshot"], written=written if is_complete else None)


LogName = Literal["changes", "subscriptions", "audit"]
"""The log of changes, the log of the lives of subscriptions, or the audit."""
MOST_DISORDER = timedelta(minutes=10)
"""The most by which an entry may be earlier than a previous entry.

Clocks differ, and time passes between the decision on a change and its transaction.
"""
# The three tables have the same columns for positions and times, and the names are constants.
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
    # Readers continue after a position, so the position is one before that of the entry.
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
        incarnation: the first 8 digits of the id of the node's start that gave out the cursor.
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
