"""What a sink does not take becomes a dead letter, and can be delivered again."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import pytest
from aiohttp import web
from cloudevents.core.v1.event import CloudEvent

from catalog.context import Context
from catalog.operations.subscriptions import RetryLimits, SubscriptionConfig
from catalog.subscriptions.stored.deadletters import (
    DeadLetter,
    clear_dead_letters,
    mark_due,
    page_dead_letters,
)
from catalog.subscriptions.stored.deliveryattempts import page_attempts
from catalog.subscriptions.stored.subscriptions import Subscription, wake
from tests.integration.conftest import start_node
from tests.integration.test_dispatcher import (
    AT,
    Answer,
    Sink,
    VirtualTime,
    context,
    delivering,
    eventually,
    log,
    sink,
    subscribe,
    xids,
)

__all__ = ["context", "sink"]
ONCE = RetryLimits(attempts=1)


def refusing_subjects(subjects: Collection[str]) -> Answer:
    """Refuse events of some subjects for now; the collection may change meanwhile."""

    async def answer(event: CloudEvent) -> web.Response:
        return web.Response(status=503 if event.get_subject() in subjects else 204)

    return answer


async def letters_of(context: Context, subscription: Subscription) -> list[DeadLetter]:
    async with context.database.acquire() as connection:
        return await page_dead_letters(connection, subscription.id, 0, 1000)


async def redeliver(context: Context, subscription: Subscription) -> None:
    async with context.database.transaction() as connection:
        await mark_due(connection, subscription.id)
        await wake(connection, subscription.id)


async def test_an_event_is_tried_as_often_as_was_asked_and_kept(
    context: Context, sink: Sink
) -> None:
    sink.answer = refusing_subjects({"/gs/b"})
    config = SubscriptionConfig(retry=RetryLimits(attempts=3))
    subscription = await subscribe(context, sink.url, config=config)
    async with delivering(context, VirtualTime().timing):
        await log(context, "a", "b", "c")
        await sink.received(2)
        shown = await eventually(context, subscription, lambda s: s.delivered == 2)
    [letter] = await letters_of(context, subscription)
    assert sink.subjects == xids("a", "c")
    assert len(sink.requests) == 5
    assert (letter.subject, letter.attempts, letter.state) == ("/gs/b", 3, "dead")
    assert letter.reason == "the sink answered 503"
    assert (shown.failed, shown.failedattempts, shown.failures) == (1, 3, 0)


async def test_an_event_is_tried_as_long_as_was_asked(context: Context, sink: Sink) -> None:
    virtual = VirtualTime()
    sink.answer = refusing_subjects({"/gs/a"})
    config = SubscriptionConfig(retry=RetryLimits(seconds=100_000))
    subscription = await subscribe(context, sink.url, config=config)
    async with delivering(context, virtual.timing):
        await log(context, "a", "b")
        await sink.received(1)
        await eventually(context, subscription, lambda s: s.failed == 1)
    [letter] = await letters_of(context, subscription)
    assert letter.at >= AT + timedelta(seconds=100_000)
    assert letter.attempts > 100
    assert sink.subjects == xids("b")


async def test_attempts_count_across_restarts(database_url: str, sink: Sink) -> None:
    sink.answer = refusing_subjects({"/gs/a"})
    async with start_node(database_url, allow_private_addresses=True) as node:
        context = node.context
        config = SubscriptionConfig(retry=RetryLimits(attempts=2))
        subscription = await subscribe(context, sink.url, config=config)
        # The first attempt of each run comes at once; the next one would come much later.
        async with delivering(context):
            await log(context, "a")
            await eventually(context, subscription, lambda s: s.tried == 1)
        async with delivering(context):
            await eventually(context, subscription, lambda s: s.failed == 1)
    assert len(sink.requests) == 2


@pytest.mark.parametrize("order", ["wait", "continue"])
async def test_later_events_of_the_subject_wait_or_continue_as_asked(
    context: Context, sink: Sink, order: str
) -> None:
    refused = {"/gs/a"}
    sink.answer = refusing_subjects(refused)
    config = SubscriptionConfig(retry=ONCE, order="wait" if order == "wait" else "continue")
    subscription = await subscribe(context, sink.url, config=config)
    async with delivering(context, VirtualTime().timing):
        await log(context, "a")
        await eventually(context, subscription, lambda s: s.failed == 1)
        refused.clear()
        await log(context, "b", "a", "c", "a")
        await eventually(context, subscription, lambda s: s.lag == 0)
        states = [each.state for each in await letters_of(context, subscription)]
        if order == "wait":
            assert states == ["dead", "waiting", "waiting"]
            assert sink.subjects == xids("b", "c")
        else:
            assert states == ["dead"]
            assert sink.subjects == xids("b", "a", "c", "a")
        before = len(sink.events)
        await redeliver(context, subscription)
        await sink.received(5)
        assert sink.subjects[before:] == xids(*["a"] * (5 - before))
        await log(context, "a")
        await sink.received(6)
        await eventually(context, subscription, lambda s: s.delivered == 6)
    assert await letters_of(context, subscription) == []
    sequences = [e.get_extension("sequence") for e in sink.events if e.get_subject() == "/gs/a"]
    assert (sequences == sorted(sequences)) == (order == "wait")


async def test_what_fails_again_is_dead_again_with_one_attempt_more(
    context: Context, sink: Sink
) -> None:
    sink.answer = refusing_subjects({"/gs/a"})
    config = SubscriptionConfig(retry=ONCE, order="wait")
    subscription = await subscribe(context, sink.url, config=config)
    async with delivering(context, VirtualTime().timing):
        await log(context, "a", "a", "b")
        await sink.received(1)
        await redeliver(context, subscription)
        await sink.asked(3)
        await eventually(context, subscription, lambda s: s.failedattempts == 2)
        letters = await letters_of(context, subscription)
    assert [(each.state, each.attempts) for each in letters] == [("dead", 2), ("waiting", 0)]


async def test_events_that_waited_for_a_deleted_one_are_delivered(
    context: Context, sink: Sink
) -> None:
    refused = {"/gs/a"}
    sink.answer = refusing_subjects(refused)
    config = SubscriptionConfig(retry=ONCE, order="wait")
    subscription = await subscribe(context, sink.url, config=config)
    async with delivering(context, VirtualTime().timing):
        await log(context, "a")
        await eventually(context, subscription, lambda s: s.failed == 1)
        refused.clear()
        async with context.database.transaction() as connection:
            # The delivery is not told, and goes on as if it were there.
            await clear_dead_letters(connection, subscription.id)
        await log(context, "a", "a")
        await sink.received(2)
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.subjects == xids("a", "a")
    assert await letters_of(context, subscription) == []


async def test_a_subscription_with_too_many_dead_letters_waits_and_says_so(
    database_url: str, sink: Sink
) -> None:
    refused = {*xids("a", "b", "c")}
    sink.answer = refusing_subjects(refused)
    settings = {"allow_private_addresses": True, "dead_letters": 2}
    async with start_node(database_url, **settings) as node:
        context = node.context
        subscription = await subscribe(context, sink.url, config=SubscriptionConfig(retry=ONCE))
        async with delivering(context, VirtualTime().timing):
            await log(context, "a", "b", "c", "d")
            waiting = await eventually(
                context, subscription, lambda s: "dead letters" in (s.error or "")
            )
            assert (waiting.failed, waiting.lag, sink.events) == (2, 2, [])
            async with context.database.transaction() as connection:
                await clear_dead_letters(connection, subscription.id)
            await sink.received(1)
        assert sink.subjects == xids("d")
        [letter] = await letters_of(context, subscription)
        assert letter.subject == "/gs/c"


async def test_attempts_are_recorded_failures_always_and_successes_now_and_then(
    context: Context, sink: Sink
) -> None:
    sink.answer = refusing_subjects({"/gs/c"})
    subscription = await subscribe(context, sink.url, config=SubscriptionConfig(retry=ONCE))
    async with delivering(context):
        await log(context, "a", "b", "c", "d")
        await sink.received(3)
    async with context.database.acquire() as connection:
        attempts = await page_attempts(connection, subscription.id, 2**62, 100)
    found = [(each.outcome, each.reason, each.events) for each in reversed(attempts)]
    assert found == [
        ("delivered", "204", 1),
        ("refused", "the sink answered 503", 1),
        ("delivered", "204", 1),
    ]
