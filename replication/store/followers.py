"""Stores how far the followers of this node have come, as the followers report."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from catalog.operations.followers import KEPT_DAYS, MOST_FOLLOWERS, Follower
from catalog.store.changes import LogCursor, Position
from catalog.store.database import Connection
from catalog.store.queries import Queries, from_json

_queries = Queries("followers", package=__package__)


Place = tuple[Follower, Position]
"""A follower, and the position in the log of this node up to which it has everything."""


def id_of(report: Follower) -> str:
    """Tells apart the reports of several callers, and of several links of a follower."""
    told = orjson.dumps([report.authority, report.identity, report.selection.model_dump()])
    return hashlib.sha256(told).hexdigest()[:32]


async def save(connection: Connection, reports: Mapping[str, Place]) -> None:
    """Store reports by their ids in one statement, and drop the oldest beyond the bounds."""
    named = [each for each, _ in reports.values()]
    positions = [position for _, position in reports.values()]
    await connection.execute(
        _queries.save,
        list(reports),
        [each.authority for each in named],
        [each.identity for each in named],
        [each.card and each.card.model_dump_json(exclude_defaults=True) for each in named],
        [each.selection.model_dump_json() for each in named],
        [each.txid for each in positions],
        [each.seq for each in positions],
        [each.seenat for each in named],
        MOST_FOLLOWERS,
        KEPT_DAYS,
    )


async def load(connection: Connection, *, with_lag: bool = False) -> list[Place]:
    """Read the reports; with their lags, the farthest behind first."""
    rows = await connection.fetch(_queries.lags if with_lag else _queries.positions)
    return [_place_from(dict(row)) for row in rows]


def _place_from(row: dict[str, Any]) -> Place:
    position = Position(row["txid"], row["seq"])
    told = row | {"card": from_json(row["card"]), "selection": from_json(row["selection"])}
    told["position"] = str(LogCursor.at(row["instance"], position))
    return Follower.model_validate(told), position


async def find_change(
    connection: Connection, xids: Sequence[str], epoch: int, after: Position
) -> Position | None:
    """The position of the last change of entities, or the first one with an epoch or a later one.

    Args:
        xids: one xid, or with an epoch of 0 several.
        epoch: the epoch; 0 for the last change of all.
        after: a position before the change.
    """
    row = await connection.fetchrow(
        _queries.change_of if epoch else _queries.last_change_of,
        *(after.txid, after.seq, list(xids)),
        *([epoch] if epoch else []),
    )
    return None if row is None else Position(row["txid"], row["seq"])


async def first_missing(
    connection: Connection, xid: str, positions: Sequence[Position]
) -> list[tuple[int | None, datetime] | None]:
    """What those who have a log up to positions lack of an entity.

    Returns:
        for each position the epoch before the first change of the entity after it, `None` before
        the entity was made, and the time of that change; `None` if the change is far away.
    """
    rows = await connection.fetch(
        _queries.first_missing, xid, [each.txid for each in positions], [p.seq for p in positions]
    )
    return [None if row["at"] is None else (row["before"], row["at"]) for row in rows]
