"""Batches wait as long as is wanted, and a batch that is refused costs no event its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, Literal

import pytest
from aiohttp import web
from cloudevents.core.v1.event import CloudEvent

from catalog.context import Context
from catalog.operations.subscriptions import BatchLimits, RetryLimits, SubscriptionConfig
from catalog.subscriptions.stored.deadletters import page_dead_letters
from catalog.subscriptions.stored.subscriptions import Subscription
from tests.integration.batchsink import BatchSink, names_of, refusing_batches_with
from tests.integration.steppedtime import SteppedTime
from tests.integration.test_dispatcher import (
    AT,
    Sink,
    VirtualTime,
    context,
    delivering,
    eventually,
    log,
    subscribe,
)

__all__ = ["context"]
WAIT = 7.0
Order = Literal["wait", "continue"]


@pytest.fixture
async def sink() -> AsyncIterator[BatchSink]:
    async with BatchSink() as sink:
        yield sink


async def subscribe_to_batches(
    context: Context,
    sink: BatchSink,
    count: int = 10,
    *,
    bytes: int = 1024 * 1024,
    wait: float = 0.0,
    order: Order = "continue",
    retry: RetryLimits | None = None,
    **definition: Any,
) -> Subscription:
    batch = BatchLimits(count=count, bytes=bytes, wait=wait)
    return await subscribe(
        context,
        sink.url,
        settings={"contentmode": "batched"},
        config=SubscriptionConfig(batch=batch, order=order, retry=retry),
        **definition,
    )


async def letters_of(context: Context, subscription: Subscription) -> list[tuple[str, str]]:
    """Subject and state of each dead letter."""
    async with context.database.acquire() as connection:
        letters = await page_dead_letters(connection, subscription.id, 0, 1000)
    return [(each.subject, each.state) for each in letters]


async def test_a_batch_takes_along_what_comes_until_its_first_event_is_old_enough(
    context: Context, sink: BatchSink
) -> None:
    time = SteppedTime(AT)
    subscription = await subscribe_to_batches(context, sink, wait=WAIT)
    async with delivering(context, time.timing):
        await log(context, "a")
        await time.sleeps_until(WAIT)
        await time.move_to(3)
        await log(context, "b")
        await time.sleeps_until(WAIT, times=2)
        await time.move_to(WAIT - 0.001)
        await log(context, "c")
        # What is left to wait is one of the short sleeps, which last their time.
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.names == ["abc"]
    assert time.time < AT + timedelta(seconds=WAIT)


async def test_a_batch_goes_with_what_it_has_when_its_time_is_over(
    context: Context, sink: BatchSink
) -> None:
    time = SteppedTime(AT)
    subscription = await subscribe_to_batches(context, sink, wait=WAIT)
    async with delivering(context, time.timing):
        await log(context, "a")
        await time.sleeps_until(WAIT)
        await log(context, "b")
        await time.sleeps_until(WAIT, times=2)
        assert sink.batches == []
        await time.move_to(WAIT)
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.names == ["ab"]


async def test_a_batch_that_is_whole_goes_at_once(context: Context, sink: BatchSink) -> None:
    time = SteppedTime(AT)
    await subscribe_to_batches(context, sink, 3, wait=WAIT)
    async with delivering(context, time.timing):
        await log(context, "a", "b")
        await time.sleeps_until(WAIT)
        await log(context, "c")
        await sink.received(3)
    assert sink.names == ["abc"]


async def test_a_batch_goes_at_once_when_the_next_event_does_not_fit(
    context: Context, sink: BatchSink
) -> None:
    time = SteppedTime(AT)
    async with BatchSink() as witness, delivering(context, time.timing):
        await subscribe_to_batches(context, witness, 1)
        await log(context, "z")
        await witness.received(1)
        await subscribe_to_batches(context, sink, bytes=witness.sizes[0] * 5 // 2, wait=WAIT)
        await log(context, "a", "b")
        await time.sleeps_until(WAIT)
        await log(context, "c")
        await sink.received(2)
        await time.sleeps_until(WAIT, times=2)
    assert sink.names == ["ab"]


async def test_what_is_left_after_a_whole_batch_waits_for_more(
    context: Context, sink: BatchSink
) -> None:
    time = SteppedTime(AT)
    subscription = await subscribe_to_batches(context, sink, 3, wait=WAIT)
    await log(context, "a", "b", "c", "d")
    async with delivering(context, time.timing):
        await time.sleeps_until(WAIT)
        assert sink.names == ["abc"]
        await log(context, "e")
        await time.sleeps_until(WAIT, times=2)
        await time.move_to(WAIT)
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.names == ["abc", "de"]


async def test_events_that_are_far_apart_in_the_log_are_one_batch(
    context: Context, sink: BatchSink
) -> None:
    time = SteppedTime(AT)
    subscription = await subscribe_to_batches(
        context, sink, 12, wait=WAIT, filters=({"suffix": {"subject": "0"}},)
    )
    await log(context, *(f"{number:03}" for number in range(150)))
    async with delivering(context, time.timing):
        await time.sleeps_until(WAIT)
        await time.move_to(WAIT)
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert [len(batch) for batch in sink.batches] == [12, 3]
    assert names_of(sink.events) == [f"{number:03}" for number in range(0, 150, 10)]


async def test_a_restart_does_not_begin_the_wait_again(context: Context, sink: BatchSink) -> None:
    time = SteppedTime(AT)
    subscription = await subscribe_to_batches(context, sink, wait=WAIT)
    async with delivering(context, time.timing):
        await log(context, "a")
        await time.sleeps_until(WAIT)
    await time.move_to(4)
    async with delivering(context, time.timing):
        await time.sleeps_until(WAIT, times=2)
        await time.move_to(WAIT)
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.names == ["a"]


async def test_a_clock_that_was_set_back_makes_no_batch_wait_longer(
    context: Context, sink: BatchSink
) -> None:
    """However many events come meanwhile."""
    time = SteppedTime(AT - timedelta(hours=1))
    subscription = await subscribe_to_batches(context, sink, wait=WAIT)
    async with delivering(context, time.timing):
        await log(context, "a")
        await time.sleeps_until(WAIT)
        await time.move_to(3)
        await log(context, "b")
        await time.sleeps_until(WAIT, times=2)
        await time.move_to(WAIT)
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.names == ["ab"]


@pytest.mark.parametrize("order", ["wait", "continue"])
async def test_the_bad_event_of_a_batch_is_found_and_its_neighbours_arrive_once(
    context: Context, sink: BatchSink, order: Order
) -> None:
    sink.answer_batch = refusing_batches_with("x", 400)
    subscription = await subscribe_to_batches(context, sink, order=order)
    await log(context, *"abxcxd")
    async with delivering(context, VirtualTime().timing):
        done = await eventually(context, subscription, lambda s: s.lag == 0)
        letters = await letters_of(context, subscription)
    is_tried_again = order == "continue"
    assert sink.names == ["abxcxd", *("abxcxd" if is_tried_again else "abxcd")]
    assert names_of(sink.events) == [*"abcd"]
    assert letters == [("/gs/x", "dead"), ("/gs/x", "dead" if is_tried_again else "waiting")]
    assert (done.delivered, done.failed, done.failures) == (4, 2, 0)


@pytest.mark.parametrize("order", ["wait", "continue"])
async def test_only_the_events_of_the_bad_batch_are_sent_singly(
    context: Context, sink: BatchSink, order: Order
) -> None:
    logged = asyncio.Event()

    async def answer(batch: Sequence[CloudEvent]) -> web.Response:
        if names_of(batch) == ["c"]:
            await logged.wait()
        return web.Response(status=400 if "x" in names_of(batch) else 200)

    sink.answer_batch = answer
    subscription = await subscribe_to_batches(context, sink, order=order)
    await log(context, *"axxc")
    async with Sink() as witness, delivering(context, VirtualTime().timing):
        await subscribe(context, witness.url)
        async with asyncio.timeout(15), sink.grown:
            await sink.grown.wait_for(lambda: "c" in sink.names)
        await log(context, *"def")
        await witness.received(3)  # whoever reads the log has them now
        logged.set()
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.names[-2:] == ["c", "def"]
    assert names_of(sink.events) == [*"acdef"]


@pytest.mark.parametrize("order", ["wait", "continue"])
@pytest.mark.parametrize("attempts", [None, 2])
async def test_a_batch_that_is_refused_for_now_comes_again_in_its_order(
    context: Context, sink: BatchSink, order: Order, attempts: int | None
) -> None:
    async def answer(_: Sequence[CloudEvent]) -> web.Response:
        return web.Response(status=503 if len(sink.batches) == 1 else 200)

    sink.answer_batch = answer
    retry = None if attempts is None else RetryLimits(attempts=attempts)
    subscription = await subscribe_to_batches(context, sink, order=order, retry=retry)
    await log(context, *"abacb")
    async with delivering(context, VirtualTime().timing):
        done = await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.names == ["abacb", "a", "bacb"]
    assert names_of(sink.events) == [*"abacb"]
    assert (done.delivered, done.failed, done.failedattempts, done.failures) == (5, 0, 1, 0)


async def test_an_event_is_given_up_only_after_it_was_sent_alone(
    context: Context, sink: BatchSink
) -> None:
    """A sink that fails because of one event of a batch blames nobody."""
    sink.answer_batch = refusing_batches_with("x", 500)
    subscription = await subscribe_to_batches(context, sink, retry=RetryLimits(attempts=1))
    await log(context, *"abxc")
    async with delivering(context, VirtualTime().timing):
        done = await eventually(context, subscription, lambda s: s.lag == 0)
        letters = await letters_of(context, subscription)
    assert names_of(sink.events) == [*"abc"]
    assert letters == [("/gs/x", "dead")]
    assert (done.delivered, done.failed, done.failures) == (3, 1, 0)


async def test_a_batch_whose_answer_a_restart_missed_comes_again_once(
    context: Context, sink: BatchSink
) -> None:
    stopped = asyncio.Event()

    async def answer(_: Sequence[CloudEvent]) -> web.Response:
        if len(sink.batches) == 1:
            await stopped.wait()
        return web.Response(status=200)

    sink.answer_batch = answer
    subscription = await subscribe_to_batches(context, sink)
    await log(context, *"abc")
    async with delivering(context):
        await sink.asked(1)
    stopped.set()
    async with delivering(context):
        await eventually(context, subscription, lambda s: s.delivered == 3)
        await log(context, "d")
        await eventually(context, subscription, lambda s: s.delivered == 4)
    async with delivering(context):
        await log(context, "e")
        done = await eventually(context, subscription, lambda s: s.delivered == 5)
    assert sink.names == ["abc", "abc", "d", "e"]
    assert (done.lag, done.failed, done.failedattempts) == (0, 0, 0)
