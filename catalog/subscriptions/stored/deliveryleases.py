"""Shares out the subscriptions of a node among the processes that deliver.

Subscriptions are divided into shards, and a process leases shards for a few seconds at a time. A
process that hangs or has died loses the leases to the remaining processes.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Collection
from datetime import timedelta

from catalog.store.database import Connection
from catalog.store.queries import Queries

SHARDS = 64
_queries = Queries("deliveryleases")


def shard_of(id: str) -> int:
    """The shard of a subscription, from 0."""
    return zlib.crc32(id.encode()) % SHARDS


async def renew_leases(
    connection: Connection, process: uuid.UUID, lease: timedelta
) -> tuple[list[int], int]:
    """Renew the leases of a process, and lease free shards up to its share.

    Args:
        connection: a connection outside of a transaction. The leases end when the connection ends.
        process: an id that the process chose for itself.
        lease: the time for which the leases are renewed.

    Returns:
        the shards that the process holds for the time of `lease`, in order, and its share: the
        largest number of shards to hold. The process releases surplus shards once it has stopped
        delivering for them.
    """
    async with connection.transaction():
        # Two processes that claim at the same time would see the same shards as free.
        await connection.execute(_queries.lock)
        await connection.execute(_queries.appear, process, lease)
        await connection.execute(_queries.forget)
        processes = int(await connection.fetchval(_queries.count_processes))
        # Rounded up, so that the shares of the processes together cover every shard.
        share = -(-SHARDS // processes)
        rows = await connection.fetch(_queries.claim, process, share)
    return [row["shard"] for row in rows], share


async def release_leases(
    connection: Connection, process: uuid.UUID, shards: Collection[int]
) -> None:
    """Release shards for which the process no longer delivers."""
    await connection.execute(_queries.release, process, list(shards))


async def end_leases(connection: Connection, process: uuid.UUID) -> None:
    """Release every shard of a process that no longer delivers."""
    await connection.execute(_queries.leave, process)
