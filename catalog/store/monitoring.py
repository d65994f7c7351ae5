"""Reads the figures that monitor a node, the facts that a doctor checks, and counts of entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from catalog.store.connections import Connection
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


async def read_server(connection: Connection) -> Row:
    """The settings of the server: see `server` in `sql/monitoring.sql`."""
    return await connection.fetchrow(_queries.server)


async def read_clock(connection: Connection) -> datetime:
    return await connection.fetchval(_queries.clock)


async def long_transactions(connection: Connection, least_seconds: float) -> Sequence[Row]:
    """The oldest transactions with an id, in all databases of the server."""
    return await connection.fetch(_queries.transactions, least_seconds)


async def read_node(connection: Connection) -> Row | None:
    """The identity of the node, and the position of its gate."""
    return await connection.fetchrow(_queries.node)


async def read_sinks(connection: Connection, most: int) -> Sequence[Row]:
    """The sinks of up to `most` subscriptions."""
    return await connection.fetch(_queries.sinks, most)


MOST_PAGES = 2048
"""The pages of the database in a sample: some 40,000 entities, or 16 MiB."""
_MOST_ROWS = 40_000
_WHOLE = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedEntities:
    """The numbers of groups and resources by value of an attribute, and in all.

    `basis` says what was counted: all, a sample from which the numbers are estimated, or the first
    ones.
    """

    basis: Literal["all", "sample", "first"]
    number: int
    by_type: Counter[str]
    by_authority: Counter[str]
    by_format: Counter[str]


async def count_all(connection: Connection, *, most_pages: int = MOST_PAGES) -> CountedEntities:
    """Count everything, or estimate the numbers from a sample if there are more pages."""
    share = await connection.fetchval(_queries.share_of_sample, most_pages)
    rows = await connection.fetch(_queries.sample, share)
    return _counted(rows, "all" if share == _WHOLE else "sample", _WHOLE / share)


async def count_seen(connection: Connection) -> CountedEntities:
    """Count what a restricted caller sees, 40,000 at most."""
    rows = await connection.fetch(_queries.count_first, _MOST_ROWS)
    is_whole = sum(row["number"] for row in rows) < _MOST_ROWS
    return _counted(rows, "all" if is_whole else "first", 1.0)


def _counted(
    rows: Sequence[Any], basis: Literal["all", "sample", "first"], factor: float
) -> CountedEntities:
    totals: dict[str, Counter[str]] = {name: Counter() for name in ("type", "authority", "format")}
    for row in rows:
        for name, counts in totals.items():
            if row[name] is not None:
                counts[row[name]] += round(row["number"] * factor)
    return CountedEntities(
        basis=basis,
        number=totals["type"].total(),
        by_type=totals["type"],
        by_authority=totals["authority"],
        by_format=totals["format"],
    )
