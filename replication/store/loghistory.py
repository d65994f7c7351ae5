"""Tells whether the change log still continues from a cursor, or went back to an earlier state.

A database that is restored as files, or a standby that lacks the last changes, is the same instance
with a different past. Each cursor has a checksum of the change at its position, and names the last
start of the node before the cursor was issued. A log that lacks either is not the log that the
reader of the cursor has read.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import Any

from catalog.store.changes import CHECKSUM_DIGITS, LogCursor, Position
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("loghistory", package=__package__)
_NO_CHANGE = "0" * CHECKSUM_DIGITS
_NO_INCARNATION = "0" * 8


async def read_incarnation(connection: Connection) -> uuid.UUID:
    """The last start of the node that the database has noted."""
    return await connection.fetchval(_queries.last_incarnation)


async def read_incarnations(connection: Connection) -> frozenset[uuid.UUID]:
    """Every start of the node that the database still has."""
    return frozenset(row["id"] for row in await connection.fetch(_queries.incarnations))


async def read_cursor(connection: Connection, instance: uuid.UUID, position: Position) -> LogCursor:
    """The cursor of a position up to which every change can be read.

    The cursor stands on the last change at or before the position: a later position may be assigned
    again if the server ends before it has stored the assignment.

    Args:
        instance: the instance of this node.
    """
    row = await connection.fetchrow(_queries.place, position.txid, position.seq)
    assert row is not None, "there is one node"
    if row["txid"] is None:
        place, checksum = Position(row["dropped_txid"], row["dropped_seq"]), _NO_CHANGE
    else:
        place, checksum = Position(row["txid"], row["seq"]), _checksum(row)
    return LogCursor(instance.hex[:8], place, checksum, row["incarnation"] or _NO_INCARNATION)


async def why_lost(connection: Connection, cursor: LogCursor) -> str:
    """A sentence that says why the log is not the log in which a cursor was issued.

    Such a log was restored to an earlier state: the reader of the cursor has read changes that the
    log has no more. "" if the log still has the change at the cursor, or has dropped the change
    for its age, after which nothing can be compared.

    Args:
        cursor: a cursor that this instance issued.
    """
    place = cursor.position
    row = await connection.fetchrow(_queries.past, place.txid, place.seq, cursor.incarnation)
    assert row is not None, "there is one node"
    if place.txid > row["now_txid"]:
        return "the log ends before it"
    # A cursor without a checksum can only be compared with the end of the log.
    if not cursor.checksum:
        return ""
    if row["is_left"] or (row["is_listed"] and not row["is_known"]):
        return "the log went back to a time before it, and went on from there"
    if place <= Position(row["dropped_txid"], row["dropped_seq"]):
        return ""
    is_there = row["txid"] is not None and place == Position(row["txid"], row["seq"])
    is_same = is_there and _checksum(row) == cursor.checksum
    return "" if is_same else "the log has another change there"


def _checksum(change: Mapping[str, Any]) -> str:
    """The beginning of SHA-256 over a change."""
    fields = ("txid", "seq", "interaction", "xid", "epoch")
    parts = [str(change[name]) for name in fields]
    text = " ".join([*parts, change["at"].isoformat(), change["digest"].hex()])
    return hashlib.sha256(text.encode()).hexdigest()[:CHECKSUM_DIGITS]
