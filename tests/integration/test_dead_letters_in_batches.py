"""Dead letters are delivered again in batches, as the events of the log are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Literal

import pytest

from catalog.context import Context
from catalog.model.credentials import TokenCredential
from catalog.operations.subscriptions import BatchLimits, SubscriptionConfig
from catalog.subscriptions.stored.deadletters import DeadLetter, mark_due, page_dead_letters
from catalog.subscriptions.stored.sinkcredentials import save_credential
from catalog.subscriptions.stored.subscriptions import Subscription, wake
from tests.integration.batchsink import BatchSink, names_of, refusing_batches_with
from tests.integration.test_dispatcher import (
    AT,
    VirtualTime,
    context,
    delivering,
    eventually,
    log,
    subscribe,
)

__all__ = ["context"]
Order = Literal["wait", "continue"]


@pytest.fixture
async def sink() -> AsyncIterator[BatchSink]:
    async with BatchSink() as sink:
        yield sink


async def with_dead_letters(
    context: Context,
    sink: BatchSink,
    names: str,
    *,
    order: Order = "continue",
    batch: BatchLimits | None = None,
    maxevents: int | None = None,
) -> Subscription:
    """A subscription whose events up to now became dead letters, all to be delivered again."""
    sink.answer_batch = refusing_batches_with(names, 400)
    subscription = await subscribe(
        context,
        sink.url,
        settings={"contentmode": "batched"},
        config=SubscriptionConfig(order=order, batch=batch, maxevents=maxevents),
    )
    async with delivering(context, VirtualTime().timing):
        await log(context, *names)
        await eventually(context, subscription, lambda s: s.failed == len(names))
    async with context.database.transaction() as connection:
        await mark_due(connection, subscription.id)
        await wake(connection, subscription.id)
    sink.batches.clear()
    sink.sizes.clear()
    return subscription


async def letters_of(context: Context, subscription: Subscription) -> list[DeadLetter]:
    async with context.database.acquire() as connection:
        return await page_dead_letters(connection, subscription.id, 0, 1000)


async def states_of(context: Context, subscription: Subscription) -> list[tuple[str, str, int]]:
    """Group, state and attempts of each dead letter."""
    letters = await letters_of(context, subscription)
    return [(each.subject.removeprefix("/gs/"), each.state, each.attempts) for each in letters]


@pytest.mark.parametrize("order", ["wait", "continue"])
async def test_they_come_again_in_their_order_as_many_at_a_time_as_asked(
    context: Context, sink: BatchSink, order: Order
) -> None:
    subscription = await with_dead_letters(
        context, sink, "abcabca", order=order, batch=BatchLimits(count=3)
    )
    sink.answer_batch = refusing_batches_with("", 400)
    async with delivering(context, VirtualTime().timing):
        done = await eventually(context, subscription, lambda s: s.delivered == 7)
    assert sink.names == ["abc", "abc", "a"]
    assert await letters_of(context, subscription) == []
    assert (done.failed, done.failures) == (7, 0)


async def test_a_batch_of_them_has_no_more_bytes_than_asked(
    context: Context, sink: BatchSink
) -> None:
    subscription = await with_dead_letters(context, sink, "abc", batch=BatchLimits(bytes=1))
    sink.answer_batch = refusing_batches_with("", 400)
    async with delivering(context, VirtualTime().timing):
        await eventually(context, subscription, lambda s: s.delivered == 3)
    assert sink.names == ["a", "b", "c"]


@pytest.mark.parametrize("order", ["wait", "continue"])
async def test_the_bad_one_among_them_is_found_and_the_others_arrive_once(
    context: Context, sink: BatchSink, order: Order
) -> None:
    subscription = await with_dead_letters(context, sink, "axbxc", order=order)
    sink.answer_batch = refusing_batches_with("x", 400)
    async with delivering(context, VirtualTime().timing):
        await eventually(context, subscription, lambda s: s.delivered == 3)
        await log(context, "d")
        await eventually(context, subscription, lambda s: s.delivered == 4)
        states = await states_of(context, subscription)
    if order == "continue":
        assert sink.names == ["axbxc", *"axbxc", "d"]
        assert states == [("x", "dead", 2), ("x", "dead", 2)]
    else:
        assert sink.names == ["axbxc", *"axbc", "d"]
        assert states == [("x", "dead", 2), ("x", "waiting", 0)]
    assert names_of(sink.events) == [*"abcd"]


async def test_of_a_batch_that_is_refused_for_now_nothing_is_dead_for_its_neighbours(
    context: Context, sink: BatchSink
) -> None:
    subscription = await with_dead_letters(context, sink, "abxc")
    sink.answer_batch = refusing_batches_with("x", 503)
    async with delivering(context, VirtualTime().timing):
        await eventually(context, subscription, lambda s: s.delivered == 3)
        states = await states_of(context, subscription)
    assert names_of(sink.events) == [*"abc"]
    assert states == [("x", "dead", 2)]


async def test_they_come_again_no_further_than_as_many_as_are_wanted(
    context: Context, sink: BatchSink
) -> None:
    subscription = await with_dead_letters(context, sink, "abcd", maxevents=3)
    sink.answer_batch = refusing_batches_with("", 400)
    async with delivering(context, VirtualTime().timing):
        ended = await eventually(context, subscription, lambda s: s.state == "ended")
    assert (sink.names, ended.delivered) == (["abc"], 3)
    assert [state for _, state, _ in await states_of(context, subscription)] == ["due"]


async def test_they_wait_for_a_credential_and_for_a_sink_that_is_gone(
    context: Context, sink: BatchSink
) -> None:
    """Neither is an attempt: they are delivered when that is put right."""
    subscription = await with_dead_letters(context, sink, "ab")
    async with context.database.transaction() as connection:
        expired = TokenCredential(token="old", expiresat=AT - timedelta(seconds=1))
        await save_credential(connection, context.keys, subscription.id, expired)
    due = [("a", "due", 1), ("b", "due", 1)]
    async with delivering(context, VirtualTime().timing):
        await eventually(context, subscription, lambda s: s.failures > 1)
        assert (await states_of(context, subscription), sink.batches) == (due, [])
        sink.answer_batch = refusing_batches_with("ab", 410)
        async with context.database.transaction() as connection:
            valid = TokenCredential(token="new", expiresat=AT + timedelta(days=1000))
            await save_credential(connection, context.keys, subscription.id, valid)
            await wake(connection, subscription.id)
        await eventually(context, subscription, lambda s: s.state == "ended")
    # After a failure, events are sent one by one.
    assert (await states_of(context, subscription), sink.names) == (due, ["a"])
