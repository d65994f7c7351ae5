"""Changes the delivery of subscriptions at the command of their owners."""

from __future__ import annotations

from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("subscriptioncommands")


async def lock_subscription(connection: Connection, id: str) -> bool:
    """Lock a subscription until the end of the transaction; return whether it exists."""
    return await connection.fetchval(_queries.lock, id) is not None


async def wake(connection: Connection, id: str) -> None:
    """Have the delivery of a subscription begin anew from its row."""
    await connection.execute(_queries.wake, id)
    await connection.execute(_queries.announce, id)


async def try_now(connection: Connection, id: str) -> None:
    """Have a subscription that waits after a failure try again at once."""
    await connection.execute(_queries.try_now, id)
    await connection.execute(_queries.announce, id)
