"""Reads where the authorities of replicas can be reached."""

from __future__ import annotations

from collections.abc import Collection

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("authoritybases")


async def read_bases(connection: Connection, authorities: Collection[str]) -> dict[str, str]:
    """Read the base URLs of those authorities that links of this node lead to."""
    rows = await connection.fetch(_queries.read, list(authorities))
    return {row["authority"]: row["base"] for row in rows}
