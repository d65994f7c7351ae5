"""Reads the facts that a doctor checks about a node's database and server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from catalog.store.connections import Connection
from catalog.store.queries import Queries

Facts = Mapping[str, Any]
_queries = Queries("healthfacts")


async def read_server(connection: Connection) -> Facts:
    """The settings of the server: see `server` in `sql/healthfacts.sql`."""
    found: Facts = await connection.fetchrow(_queries.server)
    return found


async def read_clock(connection: Connection) -> datetime:
    found: datetime = await connection.fetchval(_queries.clock)
    return found


async def long_transactions(connection: Connection, least_seconds: float) -> Sequence[Facts]:
    """The oldest transactions with an id, in all databases of the server."""
    found: Sequence[Facts] = await connection.fetch(_queries.transactions, least_seconds)
    return found


async def read_node(connection: Connection) -> Facts | None:
    """The identity of the node, and the position of its gate."""
    found: Facts | None = await connection.fetchrow(_queries.node)
    return found


async def read_sinks(connection: Connection, most: int) -> Sequence[Facts]:
    """The sinks of up to `most` subscriptions."""
    found: Sequence[Facts] = await connection.fetch(_queries.sinks, most)
    return found
