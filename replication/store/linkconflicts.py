"""Stores the conflicts of links: the copies that were not applied, with the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.model.entity import Origin
from catalog.store.database import Connection
from catalog.store.entities import columns_of
from catalog.store.queries import Queries

MOST_CONFLICTS = 10_000
"""A link with so many conflicts stores no further conflicts."""
_queries = Queries("linkconflicts", package=__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConflict:
    """A copy that was not applied, with the reason."""

    origin: Origin
    xid: str
    epoch: int
    verdict: str
    detail: str
    at: datetime


async def add(connection: Connection, link: str, conflicts: Sequence[LinkConflict]) -> None:
    """Store conflicts, as far as the limit allows."""
    await connection.execute(
        _queries.add,
        link,
        *columns_of(c.origin for c in conflicts),
        [c.xid for c in conflicts],
        [c.epoch for c in conflicts],
        [c.verdict for c in conflicts],
        [c.detail for c in conflicts],
        max(c.at for c in conflicts),
        MOST_CONFLICTS,
    )


async def settle(connection: Connection, origins: Sequence[Origin]) -> None:
    """Delete the conflicts of origins that are no longer in conflict in this catalog."""
    await connection.execute(_queries.settle, *columns_of(origins))


async def forget(connection: Connection, link: str) -> None:
    """Delete every conflict of a link."""
    await connection.execute(_queries.forget, link)


async def drop(connection: Connection, link: str, origins: Sequence[Origin]) -> None:
    """Delete the conflicts of a link about the given origins."""
    await connection.execute(_queries.drop, link, *columns_of(origins))


async def load(
    connection: Connection, link: str, after: Origin | None, limit: int
) -> list[LinkConflict]:
    """Read up to `limit` conflicts of a link after an origin; `None` stands for the beginning."""
    authority, origin = (None, None) if after is None else (after.authority, after.xid)
    rows = await connection.fetch(_queries.load, link, authority, origin, limit)
    return [
        LinkConflict(
            origin=Origin(row["authority"], row["origin"]),
            xid=row["xid"],
            epoch=row["epoch"],
            verdict=row["verdict"],
            detail=row["detail"],
            at=row["at"],
        )
        for row in rows
    ]
