"""Changes the course of subscriptions' deliveries at the command of their owners."""

from __future__ import annotations

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("subscriptioncommands")


async def wake(connection: Connection, id: str) -> None:
    """Have the delivery of a subscription begin anew from its row."""
    await connection.execute(_queries.wake, id)
    await connection.execute(_queries.announce, id)
