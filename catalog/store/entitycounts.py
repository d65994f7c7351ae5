"""Counts the groups and resources of a catalog by type, authority and format, in bounded time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("entitycounts")
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
