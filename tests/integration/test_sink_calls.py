"""Each request to a sink counts against its rate and has its own time, however large a batch is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from aiohttp import web
from cloudevents.core.v1.event import CloudEvent

from catalog.context import Context
from catalog.model.sinkterms import SinkConsent
from catalog.operations.subscriptions import BatchLimits, SubscriptionConfig
from catalog.subscriptions.delivery.progress import ProgressWriter
from catalog.subscriptions.delivery.sinkcalls import DeliverySlots, SinkCalls
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import Delivered, SinkRefused, Sinks
from catalog.subscriptions.stored.deliveryattempts import page_attempts
from tests.integration.batchsink import BatchSink
from tests.integration.test_dispatcher import AT, VirtualTime, context, subscribe

__all__ = ["context"]
EVENTS = [
    OutgoingEvent(CloudEvent({"id": str(number), "source": "/s", "type": "t"}, "x" * 1000))
    for number in range(6)
]
TWO = 5 * len(EVENTS[0].structured) // 2


@pytest.fixture
async def sink() -> AsyncIterator[BatchSink]:
    async with BatchSink() as sink:
        yield sink


@pytest.fixture
async def sinks(context: Context) -> AsyncIterator[Sinks]:
    async with Sinks(context.settings) as sinks:
        yield sinks


async def calls_of(
    context: Context,
    sinks: Sinks,
    sink: BatchSink,
    progress: ProgressWriter,
    virtual: VirtualTime,
    *,
    timeout_seconds: float = 10,
) -> SinkCalls:
    """Calls of requests with two events each, of which 60 in a minute are allowed."""
    subscription = await subscribe(
        context,
        sink.url,
        settings={"contentmode": "batched"},
        config=SubscriptionConfig(batch=BatchLimits(bytes=TWO)),
    )
    return SinkCalls(
        replace(subscription, consent=SinkConsent(at=AT, origin="concord", rate=60)),
        sinks.open(subscription),
        slots=DeliverySlots(10, per_host=10),
        progress=progress,
        timing=virtual.timing,
        timeout_seconds=timeout_seconds,
    )


def ids(batch: Sequence[CloudEvent]) -> list[str]:
    return [each.get_id() for each in batch]


async def test_each_request_counts_against_the_rate(
    context: Context, sinks: Sinks, sink: BatchSink
) -> None:
    virtual = VirtualTime()
    times: list[datetime] = []

    async def answer(_: Sequence[CloudEvent]) -> web.Response:
        times.append(virtual.now())
        return web.Response(status=200)

    sink.answer_batch = answer
    progress = ProgressWriter(context.database, most_attempts=10)
    calls = await calls_of(context, sinks, sink, progress, virtual)
    left = EVENTS
    while left:
        accepted, last = await calls.send(left)
        assert last == Delivered(detail="200")
        left = left[accepted:]
    assert [ids(batch) for batch in sink.batches] == [["0", "1"], ["2", "3"], ["4", "5"]]
    assert all(later - earlier >= timedelta(seconds=1) for earlier, later in pairwise(times))


async def test_what_one_request_delivered_does_not_come_again_when_the_next_is_late(
    context: Context, sinks: Sinks, sink: BatchSink
) -> None:
    released = asyncio.Event()

    async def answer(batch: Sequence[CloudEvent]) -> web.Response:
        if "2" in ids(batch):
            await released.wait()
        return web.Response(status=200)

    sink.answer_batch = answer
    progress = ProgressWriter(context.database, most_attempts=10)
    calls = await calls_of(context, sinks, sink, progress, VirtualTime(), timeout_seconds=0.3)
    accepted, _ = await calls.send(EVENTS)
    assert accepted == 2
    accepted, last = await calls.send(EVENTS[2:])
    released.set()
    assert accepted == 0
    assert isinstance(last, SinkRefused)
    assert "in time" in last.reason


async def test_an_attempt_tells_how_many_events_were_delivered(
    context: Context, sinks: Sinks, sink: BatchSink
) -> None:
    progress = ProgressWriter(context.database, most_attempts=10)
    calls = await calls_of(context, sinks, sink, progress, VirtualTime())
    await calls.send(EVENTS)
    await progress.save_once()
    async with context.database.acquire() as connection:
        [id] = await connection.fetchrow("SELECT id FROM subscriptions")
        [attempt] = await page_attempts(connection, id, 2**62, 10)
    assert (attempt.outcome, attempt.events) == ("delivered", 2)
