"""Several processes of a node share out its deliveries by leases."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from datetime import timedelta
from functools import partial

from catalog.context import Context
from catalog.operations.subscriptions import SubscriptionConfig
from catalog.store.database import Connection
from catalog.subscriptions.delivery.dispatcher import (
    SHARDS,
    end_leases,
    release_leases,
    renew_leases,
    shard_of,
)
from catalog.subscriptions.stored.subscriptions import (
    Progress,
    expire,
    lock_subscription,
    save_progress,
)
from tests.integration.test_dispatcher import (
    AT,
    Sink,
    context,
    delivering,
    eventually,
    log,
    opened,
    sink,
    subscribe,
    xids,
)

__all__ = ["context", "sink"]

LEASE = timedelta(seconds=60)
ALL = [*range(SHARDS)]


async def shards_by_process(context: Context) -> Counter[uuid.UUID]:
    async with context.database.acquire() as connection:
        rows = await connection.fetch("SELECT process FROM delivery_leases WHERE process NOTNULL")
    return Counter(row["process"] for row in rows)


async def shared_evenly(context: Context, processes: int) -> None:
    async with asyncio.timeout(20):
        while True:
            found = await shards_by_process(context)
            if len(found) == processes and max(found.values()) - min(found.values()) <= processes:
                return
            await asyncio.sleep(0.02)  # between two looks


async def test_each_subscription_has_one_process_and_each_process_its_share(
    database_url: str, context: Context, sink: Sink
) -> None:
    subscriptions = [await subscribe(context, sink.url) for _ in range(40)]
    assert len({shard_of(each.id) for each in subscriptions}) > 20
    async with opened(database_url) as second, delivering(context), delivering(second):
        await shared_evenly(context, 2)
        for each in subscriptions:
            await eventually(context, each, lambda s: s.lag == 0)
        # Nothing changes hands any more, so nothing is delivered twice.
        await log(context, "a", "b")
        await sink.received(80)
        for each in subscriptions:
            await eventually(context, each, lambda s: s.delivered == 2)
    assert Counter(sink.subjects) == Counter(xids("a", "b") * 40)


async def test_a_process_that_stops_gives_all_its_shards_back(
    database_url: str, context: Context, sink: Sink
) -> None:
    subscriptions = [await subscribe(context, sink.url) for _ in range(20)]
    async with delivering(context):
        async with opened(database_url) as second, delivering(second):
            await shared_evenly(context, 2)
        await shared_evenly(context, 1)
        await log(context, "a")
        for each in subscriptions:
            await eventually(context, each, lambda s: s.delivered == 1)


async def test_a_process_whose_connection_ended_has_lost_its_shards_at_once(
    database_url: str, context: Context
) -> None:
    one, two = uuid.uuid4(), uuid.uuid4()
    async with opened(database_url) as dying, dying.database.acquire() as connection:
        assert await renew_leases(connection, one, LEASE) == (ALL, SHARDS)
    async with context.database.acquire() as connection:
        await _leases_all(connection, two)
        await end_leases(connection, two)


async def test_a_process_that_was_not_heard_of_in_time_has_lost_its_shards(
    context: Context,
) -> None:
    frozen, other = uuid.uuid4(), uuid.uuid4()
    async with (
        context.database.acquire() as first,
        context.database.acquire() as second,
    ):
        assert await renew_leases(first, frozen, timedelta(seconds=0.1)) == (ALL, SHARDS)
        await _leases_all(second, other)
        # It gets its share again when the other gives it up.
        assert await renew_leases(first, frozen, LEASE) == ([], SHARDS // 2)
        leased, share = await renew_leases(second, other, LEASE)
        await release_leases(second, other, leased[share:])
        assert await renew_leases(first, frozen, LEASE) == (leased[share:], share)
        for each in (frozen, other):
            await end_leases(first, each)


async def test_rows_are_locked_in_the_order_of_their_ids(context: Context, sink: Sink) -> None:
    """Two processes that save or expire the same subscriptions do not wait for each other."""
    over = SubscriptionConfig(expiresat=AT)
    found = [await subscribe(context, sink.url, config=over) for _ in range(3)]
    first, *others = sorted(found, key=lambda each: each.id)
    later_first = [
        Progress(id=each.id, revision=each.revision, course=0, cursor=each.cursor)
        for each in (*reversed(others), first)
    ]
    pool = context.database
    for change in (partial(save_progress, progress=later_first), partial(expire, now=AT)):
        async with pool.acquire() as holding, pool.acquire() as waiting, pool.acquire() as other:
            async with holding.transaction():
                assert await lock_subscription(holding, first.id)
                task = asyncio.create_task(change(waiting))
                await _waits(other, waiting)
                async with asyncio.timeout(10), other.transaction():
                    for each in others:
                        assert await lock_subscription(other, each.id)
            await task


async def _waits(connection: Connection, blocked: Connection) -> None:
    """Wait until another connection waits for a lock."""
    async with asyncio.timeout(10):
        while not await connection.fetchval(
            "SELECT cardinality(pg_blocking_pids($1))", blocked.get_server_pid()
        ):
            await asyncio.sleep(0.02)  # between two looks


async def _leases_all(connection: Connection, process: uuid.UUID) -> None:
    """Wait until the server has noticed the end of the other process."""
    async with asyncio.timeout(10):
        while await renew_leases(connection, process, LEASE) != (ALL, SHARDS):
            await asyncio.sleep(0.02)  # between two attempts
