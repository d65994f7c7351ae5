"""Stores sets: the entities in the documents that are applied under the same name."""

from __future__ import annotations

from collections.abc import Collection

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("applysets")


async def members_of(connection: Connection, name: str) -> list[str]:
    """Read the xids of a set's entities that still exist; none for an unknown set."""
    return [row["xid"] for row in await connection.fetch(_queries.members, name)]


async def claimed_by_others(
    connection: Connection, name: str, xids: Collection[str]
) -> frozenset[str]:
    """The `xids` that belong to a set with a name other than `name`."""
    rows = await connection.fetch(_queries.claimed_by_others, name, list(xids))
    return frozenset(row["xid"] for row in rows)


async def add_members(connection: Connection, name: str, xids: Collection[str]) -> None:
    """Add existing entities to a set."""
    await connection.execute(_queries.add, name, list(xids))


async def keep_members(connection: Connection, name: str, xids: Collection[str]) -> None:
    """Remove all entities from a set except `xids`."""
    await connection.execute(_queries.keep_only, name, list(xids))
