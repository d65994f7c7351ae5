"""Reads the figures by which a node is watched: sizes, subscriptions, links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.store.database import Connection
from catalog.store.queries import Queries

Row = Mapping[str, Any]
_queries = Queries("monitoring")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFigures:
    """The figures of a node that its database tells, as rows of `sql/monitoring.sql`.

    Of subscriptions and links, those that are furthest behind are told one by one, and all of them
    by their states.
    """

    log: Row
    subscriptions: Sequence[Row]
    slowest_subscriptions: Sequence[Row]
    links: Sequence[Row]
    worst_links: Sequence[Row]


async def read_figures(connection: Connection, *, most: int) -> StoredFigures:
    """Read all figures, and those of up to `most` subscriptions and as many links."""
    log = await connection.fetchrow(_queries.log)
    assert log is not None, "there is one node"
    return StoredFigures(
        log=log,
        subscriptions=await connection.fetch(_queries.subscriptions),
        slowest_subscriptions=await connection.fetch(_queries.slowest_subscriptions, most),
        links=await connection.fetch(_queries.link_states),
        worst_links=await connection.fetch(_queries.worst_links, most),
    )


async def ping(connection: Connection) -> None:
    """Return if the database answers."""
    await connection.fetchval(_queries.ping)
