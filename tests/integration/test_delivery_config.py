"""Deliveries begin, end and count as the `config` of their subscriptions says."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from aiohttp import web
from cloudevents.core.v1.event import CloudEvent

from catalog.context import Context
from catalog.operations.subscriptions import SubscriptionConfig
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition as Definition
from catalog.subscriptions.stored.subscriptions import move_cursor, replace
from tests.integration.conftest import Node, start_node
from tests.integration.test_dispatcher import (
    AT,
    Sink,
    VirtualTime,
    context,
    delivering,
    eventually,
    log,
    read,
    refusing,
    sink,
    subscribe,
    xids,
)

__all__ = ["context", "sink"]


async def test_a_subscription_from_the_earliest_gets_the_whole_log(
    context: Context, sink: Sink
) -> None:
    await log(context, "a", "b")
    await subscribe(context, sink.url, config=SubscriptionConfig(start="earliest"))
    async with delivering(context):
        await log(context, "c")
        await sink.received(3)
    assert sink.subjects == xids("a", "b", "c")


async def test_what_happens_before_the_start_is_not_delivered(context: Context, sink: Sink) -> None:
    """Logged at `AT`, which is before the start, and then at the start."""
    early = SubscriptionConfig(startsat=AT + timedelta(microseconds=1))
    subscription = await subscribe(context, sink.url, config=early)
    async with delivering(context):
        await log(context, "a", "b")
        await eventually(context, subscription, lambda s: s.lag == 0)
    definition = Definition(sink=sink.url, config=SubscriptionConfig(startsat=AT))
    async with context.database.transaction() as connection:
        await replace(connection, subscription.id, definition)
    async with delivering(context):
        await log(context, "c")
        await sink.received(1)
    assert sink.subjects == xids("c")


async def test_with_a_place_to_begin_at_everything_waits_for_the_start(
    context: Context, sink: Sink
) -> None:
    virtual = VirtualTime()
    config = SubscriptionConfig(start="earliest", startsat=AT + timedelta(hours=30))
    await log(context, "a")
    await subscribe(context, sink.url, config=config)
    async with delivering(context, virtual.timing):
        await sink.received(1)
    assert virtual.time >= AT + timedelta(hours=30)
    assert sink.subjects == xids("a")


async def test_a_subscription_expires_with_its_cursor_where_it_was(
    context: Context, sink: Sink
) -> None:
    virtual = VirtualTime()
    config = SubscriptionConfig(expiresat=AT + timedelta(hours=1))
    subscription = await subscribe(context, sink.url, config=config)
    async with delivering(context, virtual.timing):
        await log(context, "a")
        await eventually(context, subscription, lambda s: s.delivered == 1)
        virtual.time = AT + timedelta(hours=2)
        expired = await eventually(context, subscription, lambda s: s.state == "expired")
        await log(context, "b")
    assert sink.subjects == xids("a")
    assert expired.reason == "its time is over"
    assert (await read(context, subscription)).lag == 1


async def test_a_subscription_ends_after_as_many_events_as_it_wanted(
    context: Context, sink: Sink
) -> None:
    subscription = await subscribe(context, sink.url, config=SubscriptionConfig(maxevents=3))
    async with delivering(context):
        await log(context, "a", "b")
        await eventually(context, subscription, lambda s: s.delivered == 2)
    async with delivering(context):
        await log(context, "c", "d", "e")
        ended = await eventually(context, subscription, lambda s: s.state == "ended")
    assert sink.subjects == xids("a", "b", "c")
    assert (ended.delivered, ended.reason) == (
        3,
        "3 events were delivered, as many as it wanted",
    )


async def test_a_command_moves_the_cursor_back_whatever_has_been_delivered(
    context: Context, sink: Sink
) -> None:
    """What the delivery that ends has reached and not saved yet does not undo the command."""
    subscription = await subscribe(context, sink.url)
    async with delivering(context):
        for times in range(1, 4):
            await log(context, f"g{times}")
            await sink.received(times * (times + 1) // 2)
            if times < 3:
                async with context.database.transaction() as connection:
                    await move_cursor(connection, subscription.id, subscription.cursor)
                await sink.received(times * (times + 1) // 2 + times)
        await eventually(context, subscription, lambda s: s.lag == 0)
    assert sink.subjects == xids("g1", "g1", "g2", "g1", "g2", "g3")


async def test_what_is_there_comes_first_as_created_events_and_then_what_changes(
    node: Node,
) -> None:
    for name in ("b", "a"):
        await node.put(f"/messagegroups/{name}/messages/m", {"description": name})
    await node.changes()  # what is in the log is not told a second time
    context = node.context
    async with Sink() as sink:
        config = SubscriptionConfig(initialevents=True)
        subscription = await subscribe(context, sink.url, config=config)
        async with delivering(context):
            await sink.received(6)
            await node.put("/messagegroups/a", {"description": "changed"})
            await eventually(context, subscription, lambda s: s.initial is None and s.lag == 0)
        # A restart repeats nothing.
        async with delivering(context):
            await node.put("/messagegroups/b", {"description": "changed"})
            await eventually(context, subscription, lambda s: s.lag == 0)
    created = [each for each in sink.events if each.get_type().endswith(".created")]
    expected = [
        f"/messagegroups/{group}{rest}"
        for group in ("a", "b")
        for rest in ("", "/messages/m", "/messages/m/versions/1")
    ]
    assert [each.get_subject() for each in created] == expected
    assert sink.events[:6] == created
    assert len({each.get_id() for each in created}) == 6
    assert len(sink.events) > 6


async def test_initial_events_go_on_where_they_were_after_a_restart(
    node: Node,
) -> None:
    for number in range(150):
        await node.put(f"/messagegroups/g{number:03}", {})
    await node.changes()  # what is in the log is not told a second time
    context = node.context
    expected = [f"/messagegroups/g{number:03}" for number in range(150)]
    is_restarted = asyncio.Event()
    async with Sink() as sink:

        async def answer(_: CloudEvent) -> web.Response:
            if len(sink.subjects) > 60:
                await is_restarted.wait()
            return web.Response(status=204)

        sink.answer = answer
        subscription = await subscribe(
            context, sink.url, config=SubscriptionConfig(initialevents=True)
        )
        async with delivering(context):
            await eventually(context, subscription, lambda s: bool(s.initial))
        is_restarted.set()
        async with delivering(context):
            await sink.received(150)
            await eventually(context, subscription, lambda s: s.initial is None)
    assert list(dict.fromkeys(sink.subjects)) == expected


async def test_the_status_tells_of_success_and_failure(context: Context, sink: Sink) -> None:
    virtual = VirtualTime()
    sink.answer = refusing(10**6, 503)
    subscription = await subscribe(context, sink.url)
    async with delivering(context, virtual.timing):
        await log(context, "a")
        failing = await eventually(context, subscription, lambda s: s.failures >= 3)
        assert failing.failingsince is not None
        assert failing.failedat is not None
        assert failing.nextattemptat is not None
        assert failing.failingsince < failing.failedat < failing.nextattemptat
        sink.answer = refusing(0, 503)
        fine = await eventually(context, subscription, lambda s: s.delivered == 1)
    assert (fine.failures, fine.error, fine.failingsince, fine.nextattemptat) == (0, *[None] * 3)
    assert fine.failedattempts >= 3
    assert fine.failedcause == "the sink answered 503"


async def test_a_sink_that_never_answers_is_given_up_in_time(database_url: str, sink: Sink) -> None:
    answered = asyncio.Event()

    async def hang(_: CloudEvent) -> web.Response:
        await answered.wait()
        return web.Response(status=204)

    sink.answer = hang
    async with start_node(
        database_url, allow_private_addresses=True, delivery_timeout_seconds=0.2
    ) as node:
        subscription = await subscribe(node.context, sink.url)
        async with delivering(node.context):
            await node.put("/messagegroups/a", {})
            failing = await eventually(node.context, subscription, lambda s: s.failures > 0)
        answered.set()
    assert failing.error == "the sink did not answer in time"
