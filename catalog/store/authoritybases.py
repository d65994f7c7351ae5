"""Reads the base URLs of the authorities of replicas."""

from __future__ import annotations

from collections.abc import Collection

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("authoritybases")


async def read_bases(connection: Connection, authorities: Collection[str]) -> dict[str, str]:
    """Read the base URLs of the given authorities that links or handovers of this node lead to."""
    rows = await connection.fetch(_queries.read, list(authorities))
    return {row["authority"]: row["base"] for row in rows}
