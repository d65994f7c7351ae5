"""Shares out the subscriptions of a node among the processes that deliver.

Subscriptions are in shards, and a process leases shards for a few seconds at a time. A process
that hangs or has died loses its leases to the others.
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
    """Renew a process's leases, and add free ones up to its share.

    Args:
        connection: outside of a transaction. The leases end with it, too.
        process: made up by the process.
        lease: the time for which the leases are renewed.

    Returns:
        the shards that it has for the time of `lease`, in their order, and its share: the most
        that it should have. It releases those beyond, once it no longer delivers for them.
    """
    async with connection.transaction():
        await connection.execute(_queries.lock)
        await connection.execute(_queries.appear, process, lease)
        await connection.execute(_queries.forget)
        processes = int(await connection.fetchval(_queries.count_processes))
        share = -(-SHARDS // processes)
        rows = await connection.fetch(_queries.claim, process, share)
    return [row["shard"] for row in rows], share


async def release_leases(
    connection: Connection, process: uuid.UUID, shards: Collection[int]
) -> None:
    """Give shards back, for which the process no longer delivers."""
    await connection.execute(_queries.release, process, list(shards))


async def end_leases(connection: Connection, process: uuid.UUID) -> None:
    """Give back all shards of a process that no longer delivers."""
    await connection.execute(_queries.leave, process)
