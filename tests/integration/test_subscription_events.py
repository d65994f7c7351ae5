"""Subscribers are told what becomes of subscriptions."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from catalog.context import Context
from catalog.store.changes import Position, Retention
from catalog.subscriptions.delivery.retention import drop_once, passed_time_for, retention_from
from catalog.subscriptions.stored.subscriptionlog import read_subscription_log
from catalog.subscriptions.stored.subscriptions import (
    SubscriptionDefinition,
    change_state,
    create,
    delete,
    get,
    replace,
)
from tests.integration.test_dispatcher import (
    SOURCE,
    Sink,
    VirtualTime,
    context,
    delivering,
    eventually,
    log,
    refusing,
    sink,
    subscribe,
)

__all__ = ["context", "sink"]
TYPES = ("concord.subscription.failing", "concord.subscription.recovered")


def told(sink: Sink) -> list[tuple[str, str | None]]:
    return [(each.get_type().rpartition(".")[2], each.get_subject()) for each in sink.events]


async def actions(context: Context) -> list[tuple[str, str]]:
    async with context.database.acquire() as connection:
        rows = await connection.fetch(
            "SELECT action, subscription FROM subscription_events ORDER BY txid, seq"
        )
    return [(row["action"], row["subscription"]) for row in rows]


@pytest.mark.parametrize("asked", [{"source": f"{SOURCE}/subscriptions"}, {"types": TYPES}])
async def test_a_subscriber_is_told_that_another_fails_and_recovers(
    context: Context, sink: Sink, asked: dict[str, Any]
) -> None:
    async with Sink() as failing, delivering(context, VirtualTime().timing):
        await subscribe(context, sink.url, **asked)
        accept, failing.answer = failing.answer, refusing(10**6, 503)
        watched = await subscribe(context, f"{failing.url}?token=t0ken")
        await log(context, "a")
        # A failure that is over before it is saved is not told.
        await eventually(context, watched, lambda s: s.failures > 0)
        failing.answer = accept
        await failing.received(1)
        await eventually(context, watched, lambda s: s.delivered == 1 and s.failures == 0)
        await sink.received(2 if "types" in asked else 3)
    path = f"/subscriptions/{watched.id}"
    started = [] if "types" in asked else [("started", path)]
    assert told(sink) == [*started, ("failing", path), ("recovered", path)]
    event = sink.events[-2]
    assert event.get_source() == f"{SOURCE}/subscriptions"
    data = event.get_data()
    assert isinstance(data, dict)
    assert data["id"] == watched.id
    assert data["cause"] == "the sink answered 503"
    assert "t0ken" not in str(data)
    assert "127.0.0.1" not in str(data)


async def test_those_who_are_told_of_failures_cause_none(context: Context, sink: Sink) -> None:
    """Two that watch each other, and fail at each event, would tell of more with each one."""
    async with Sink() as other, delivering(context, VirtualTime().timing):
        for each in (sink, other):
            each.answer = refusing(2, 503)
            await subscribe(context, each.url, source=f"{SOURCE}/subscriptions")
        last = await subscribe(context, "http://127.0.0.1:9/")
        async with context.database.transaction() as connection:
            await delete(connection, last.id)
        for each in (sink, other):
            await each.asked(4)
    found = [action for action, _ in await actions(context)]
    assert set(found) == {"started", "ended"}


async def test_the_life_of_a_subscription_is_told(context: Context, sink: Sink) -> None:
    watcher = await subscribe(context, sink.url, source=f"{SOURCE}/subscriptions")
    watched = await subscribe(context, "http://127.0.0.1:9/")
    async with context.database.transaction() as connection:
        await change_state(connection, watched.id, "paused", of=("active",))
        await change_state(connection, watched.id, "active", of=("paused",))
        definition = SubscriptionDefinition(sink="http://127.0.0.1:9/", types=("x",))
        await replace(connection, watched.id, definition)
        await change_state(connection, watched.id, "ended", of=("active",))
        await delete(connection, watched.id)
    async with delivering(context):
        await sink.received(5)
        await eventually(context, watcher, lambda s: s.lag == 0)
    assert [action for action, _ in told(sink)] == ["started", *["updated"] * 3, "ended"]
    assert {subject for _, subject in told(sink)} == {f"/subscriptions/{watched.id}"}


async def test_a_pending_subscription_starts_when_its_state_says_so(context: Context) -> None:
    async with context.database.transaction() as connection:
        definition = SubscriptionDefinition(sink="http://127.0.0.1:9/")
        await create(connection, "s", definition, state="pending", reason="no consent yet")
        assert await actions(context) == []
        found = await get(connection, "s")
        assert found is not None
        assert (found.state, found.reason) == ("pending", "no consent yet")
        await change_state(connection, "s", "active", of=("pending",))
    assert await actions(context) == [("started", "s")]


async def test_the_log_of_subscriptions_is_bounded(context: Context) -> None:
    for _ in range(5):
        await subscribe(context, "http://127.0.0.1:9/")
    kept = retention_from(context.settings)
    await drop_once(context.database, kept, passed_time_for(context.settings))
    assert len(await actions(context)) == 5
    few = Retention(age=timedelta(days=1), count=2, held_age=timedelta(days=1), held_count=2)
    before = await actions(context)
    async with asyncio.timeout(20):
        while await actions(context) != before[3:]:
            await drop_once(context.database, few, passed_time_for(context.settings))
            await asyncio.sleep(0.01)  # open transactions of other tests hold back what is dropped
    async with context.database.acquire() as connection:
        row = await connection.fetchrow("SELECT * FROM node")
        begin = Position(row["dropped_subscription_txid"], row["dropped_subscription_seq"])
        assert len(await read_subscription_log(connection, begin, 10)) == 2
