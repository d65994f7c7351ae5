"""Reads the figures that monitor a node: sizes, subscriptions, links, reconciliations."""

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
    """The figures of a node from its database, as rows of `sql/monitoring.sql`.

    Subscriptions and links are counted by state; the ones furthest behind also have a row each.
    """

    log: Row
    totals: Row
    subscriptions: Sequence[Row]
    slowest_subscriptions: Sequence[Row]
    links: Sequence[Row]
    worst_links: Sequence[Row]
    link_credentials: Sequence[Row]
    reconciliations: Sequence[Row]
    differences: Sequence[Row]


async def read_figures(connection: Connection, *, most: int) -> StoredFigures:
    """Read all figures, and a row each for up to `most` subscriptions and up to `most` links."""
    log = await connection.fetchrow(_queries.log)
    totals = await connection.fetchrow(_queries.totals)
    assert log is not None, "there is one node"
    assert totals is not None, "its migration wrote it"
    return StoredFigures(
        log=log,
        totals=totals,
        subscriptions=await connection.fetch(_queries.subscriptions),
        slowest_subscriptions=await connection.fetch(_queries.slowest_subscriptions, most),
        links=await connection.fetch(_queries.link_states),
        worst_links=await connection.fetch(_queries.worst_links, most),
        link_credentials=await connection.fetch(_queries.link_credentials, most),
        reconciliations=await connection.fetch(_queries.reconciliations),
        differences=await connection.fetch(_queries.differences),
    )


async def ping(connection: Connection) -> None:
    """Return if the database answers."""
    await connection.fetchval(_queries.ping)
