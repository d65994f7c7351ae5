"""Whatever a sink answers, and whatever is done to a subscription and its process meanwhile, each
subject's events are delivered in the order of the log, or are dead letters."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import asyncpg
import orjson
import pytest_asyncio
from aiohttp import web
from cloudevents.core.v1.event import CloudEvent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.context import Context
from catalog.operations.subscriptions import BatchLimits, RetryLimits, SubscriptionConfig
from catalog.store.changes import Position, read_changes
from catalog.subscriptions.stored.deadletters import get_dead_letter, mark_due, page_dead_letters
from catalog.subscriptions.stored.subscriptions import Subscription, change_state, delete, wake
from tests.integration.batchsink import BatchSink
from tests.integration.test_dispatcher import (
    VirtualTime,
    delivering,
    eventually,
    log,
    opened,
    subscribe,
)

SUBJECTS = ("a", "b", "c")
FINAL, FOR_NOW, TAKEN = 400, 503, 204
# What of a row the process that delivers writes.
PROGRESS = (
    "txid, seq, delivered, failed, failedattempts, failures, failingsince, error, tried, triedsince"
)

Step = Literal["write", "restart", "crash", "pause", "resume", "redeliver", "settle"]


@dataclass(frozen=True)
class Script:
    """What happens to a subscription.

    Args:
        contentmode: whether an event, or a batch of them, is sent at a time.
        answers: what the sink answers to one request after the other; then it takes all events.
        steps: what is done meanwhile, `write` with the numbers of subjects.
    """

    contentmode: Literal["binary", "batched"]
    order: Literal["wait", "continue"]
    attempts: int | None
    answers: Sequence[int]
    steps: Sequence[tuple[Step, tuple[int, ...]]]


steps = st.one_of(
    st.tuples(st.just("write"), st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)),
    st.tuples(
        st.sampled_from(["restart", "crash", "pause", "resume", "redeliver", "settle"]),
        st.just(()),
    ),
)
scripts = st.builds(
    Script,
    contentmode=st.sampled_from(["binary", "batched"]),
    order=st.sampled_from(["wait", "continue"]),
    attempts=st.sampled_from([None, 1, 2]),
    answers=st.lists(st.sampled_from([TAKEN, TAKEN, FOR_NOW, FINAL]), max_size=24),
    steps=st.lists(steps, min_size=2, max_size=9),
)


@pytest_asyncio.fixture
async def url(shared_database_url: str) -> str:
    return shared_database_url


@dataclass
class Walk:
    """One script on its way: a subscription with a sink of its own."""

    url: str
    context: Context
    sink: BatchSink
    subscription: Subscription
    begin: Position
    is_running: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    was: asyncpg.Record | None = None

    async def start(self) -> None:
        """Deliver with connections of its own, as another process does."""
        enter = self.is_running.enter_async_context
        await enter(delivering(await enter(opened(self.url)), VirtualTime().timing))

    async def stop(self) -> None:
        await self.is_running.aclose()

    async def take(self, step: Step, subjects: tuple[int, ...]) -> None:
        match step:
            case "write":
                await log(self.context, *(SUBJECTS[number] for number in subjects))
            case "restart":
                await self.stop()
                await self.start()
            case "crash":
                await self.crash()
            case "pause":
                await self.set_state("paused", "active")
            case "resume":
                await self.set_state("active", "paused")
            case "redeliver":
                await self.redeliver()
            case "settle":
                self.was = await self.row()
                await asyncio.sleep(0.02)  # time in which any part of the work may be done

    async def crash(self) -> None:
        """Lose what was saved since an earlier moment, as if it had not been saved in time."""
        was = self.was or await self.row()
        await self.stop()
        async with self.context.database.acquire() as connection:
            names = PROGRESS.split(", ")
            assignments = ", ".join(f"{name} = ${at}" for at, name in enumerate(names, 2))
            await connection.execute(
                f"UPDATE subscriptions SET {assignments} WHERE id = $1",
                self.subscription.id,
                *was,
            )
        await self.start()

    async def set_state(self, state: Literal["paused", "active"], of: Any) -> None:
        async with self.context.database.transaction() as connection:
            await change_state(connection, self.subscription.id, state, of=(of,))

    async def redeliver(self) -> None:
        async with self.context.database.transaction() as connection:
            await mark_due(connection, self.subscription.id)
            await wake(connection, self.subscription.id)

    async def row(self) -> asyncpg.Record:
        async with self.context.database.acquire() as connection:
            return await connection.fetchrow(
                f"SELECT {PROGRESS} FROM subscriptions WHERE id = $1", self.subscription.id
            )

    async def finish(self) -> None:
        """Let all be done that can be done without a further command."""
        await self.set_state("active", "paused")
        await eventually(self.context, self.subscription, lambda s: s.lag == 0)
        async with asyncio.timeout(15):
            while any(letter[0] == "due" for letter in await self.letters()):
                await asyncio.sleep(0.01)  # between two looks
        await self.stop()

    async def letters(self) -> list[tuple[str, str, str]]:
        """State, subject and position of every dead letter, in their order."""
        async with self.context.database.acquire() as connection:
            page = await page_dead_letters(connection, self.subscription.id, 0, 10_000)
            whole = [
                await get_dead_letter(connection, self.subscription.id, each.number)
                for each in page
            ]
        found = [each for each in whole if each is not None]
        return [(each.state, each.subject, str(_field(each.event, "sequence"))) for each in found]

    async def logged(self) -> dict[str, list[str]]:
        async with self.context.database.acquire() as connection:
            changes = await read_changes(connection, self.begin, 10_000)
        found: dict[str, list[str]] = defaultdict(list)
        for each in changes:
            found[each.change.xid].append(str(each.position))
        return found


def _field(event: bytes, name: str) -> Any:
    return orjson.loads(event)[name]


@contextlib.asynccontextmanager
async def walking(url: str, script: Script) -> AsyncIterator[Walk]:
    retry = None if script.attempts is None else RetryLimits(attempts=script.attempts)
    config = SubscriptionConfig(order=script.order, retry=retry, batch=BatchLimits(count=4))
    answers = iter(script.answers)

    async def answer(_: Sequence[CloudEvent]) -> web.Response:
        return web.Response(status=next(answers, TAKEN))

    async with opened(url) as context, BatchSink() as sink:
        sink.answer_batch = answer
        settings = {"contentmode": script.contentmode}
        subscription = await subscribe(context, sink.url, config=config, settings=settings)
        walk = Walk(url, context, sink, subscription, subscription.cursor)
        await walk.start()
        try:
            yield walk
        finally:
            await walk.stop()
            async with context.database.transaction() as connection:
                await delete(connection, subscription.id)


async def check(url: str, script: Script) -> None:
    async with walking(url, script) as walk:
        for step, subjects in script.steps:
            await walk.take(step, subjects)
        await walk.finish()
        logged, letters = await walk.logged(), await walk.letters()
    has_redelivered = any(step == "redeliver" for step, _ in script.steps)
    for subject, positions in logged.items():
        delivered = [
            event.get_extension("sequence")
            for event in walk.sink.events
            if event.get_subject() == subject
        ]
        delivered = [*dict.fromkeys(delivered)]
        kept = [position for _, about, position in letters if about == subject]
        rest = [position for position in kept if position not in delivered]
        if script.order == "wait":
            assert [*delivered, *rest] == positions, (subject, kept)
        else:
            assert sorted([*delivered, *rest]) == positions, (subject, kept)
            if not has_redelivered:
                assert delivered == sorted(delivered), subject


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=scripts)
async def test_each_subject_is_delivered_in_order_or_kept(url: str, script: Script) -> None:
    await check(url, script)
