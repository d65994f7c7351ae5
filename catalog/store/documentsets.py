"""Keeps sets: which entities the documents have that are applied under one name."""

from __future__ import annotations

from collections.abc import Collection

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("sets")


async def members_of(connection: Connection, name: str) -> list[str]:
    """The xids of what a set has and is still there; none of a set that is unknown."""
    return [row["xid"] for row in await connection.fetch(_queries.members, name)]


async def claimed_by_others(
    connection: Connection, name: str, xids: Collection[str]
) -> frozenset[str]:
    """Those of `xids` that another set than `name` has, too."""
    rows = await connection.fetch(_queries.claimed_by_others, name, list(xids))
    return frozenset(row["xid"] for row in rows)


async def add_members(connection: Connection, name: str, xids: Collection[str]) -> None:
    """Let a set have more entities, which exist."""
    await connection.execute(_queries.add, name, list(xids))


async def keep_members(connection: Connection, name: str, xids: Collection[str]) -> None:
    """Let a set have none but these of its entities."""
    await connection.execute(_queries.keep_only, name, list(xids))
