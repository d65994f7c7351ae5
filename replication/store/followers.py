"""Stores how far the followers of this node have come, as the followers report."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from catalog.operations.followers import KEPT_DAYS, MOST_FOLLOWERS, FollowedSelection
from catalog.store.changes import Position
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("followers", package=__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerReport:
    """The last report of a follower.

    Args:
        authority: the authority that the follower claims to be.
        identity: the caller that reported, in words.
        card: the card of the follower, ready for JSON.
        selection: the entities that the follower asks for.
        position: the follower has everything up to there.
        lag: the age in seconds of the oldest change after the position, if it was read.
    """

    authority: str
    identity: str
    card: dict[str, Any] | None
    selection: FollowedSelection
    position: Position
    seenat: datetime
    lag: float = 0.0

    @property
    def id(self) -> str:
        """Tells apart the reports of several callers, and of several links of a follower."""
        told = orjson.dumps([self.authority, self.identity, self.selection.model_dump()])
        return hashlib.sha256(told).hexdigest()[:32]


async def save(connection: Connection, reports: Collection[FollowerReport]) -> None:
    """Store reports in one statement, and drop the oldest beyond the bounds."""
    await connection.execute(
        _queries.save,
        [each.id for each in reports],
        [each.authority for each in reports],
        [each.identity for each in reports],
        [each.card and orjson.dumps(each.card).decode() for each in reports],
        [each.selection.model_dump_json() for each in reports],
        [each.position.txid for each in reports],
        [each.position.seq for each in reports],
        [each.seenat for each in reports],
        MOST_FOLLOWERS,
        KEPT_DAYS,
    )


async def load(connection: Connection, *, with_lag: bool = False) -> list[FollowerReport]:
    """Read the reports; with their lags, the farthest behind first."""
    rows = await connection.fetch(_queries.lags if with_lag else _queries.positions)
    return [
        FollowerReport(
            authority=row["authority"],
            identity=row["identity"],
            card=row["card"] and orjson.loads(row["card"]),
            selection=FollowedSelection.model_validate_json(row["selection"]),
            position=Position(row["txid"], row["seq"]),
            seenat=row["seenat"],
            lag=row["lag"] if with_lag else 0.0,
        )
        for row in rows
    ]


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
