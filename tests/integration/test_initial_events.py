"""Initial events and what changes meanwhile: nothing is missed, and what is last comes last."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import pytest
from aiohttp import web
from cloudevents.core.v1.event import CloudEvent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.operations.subscriptions import SubscriptionConfig
from catalog.subscriptions.delivery import subscriptiondelivery
from catalog.subscriptions.stored.subscriptions import Subscription, delete
from tests.integration.batchsink import BatchSink
from tests.integration.conftest import Node
from tests.integration.test_dispatcher import VirtualTime, delivering, eventually, subscribe

ROOT = "/messagegroups/"
NUMBERS = st.integers(0, 7)
Step = Literal["put", "delete", "take", "restart"]

BEGINS = st.sets(NUMBERS)
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "delete", "take", "take", "restart"]), NUMBERS),
    max_size=14,
)
STATUSES = st.lists(st.sampled_from([204, 204, 204, 503]), max_size=8)
_numbers = itertools.count()


@dataclass(frozen=True)
class Here:
    """The node, whose text would be too long for the report of a failure."""

    node: Node = field(repr=False)


@pytest.fixture
def here(node: Node) -> Here:
    return Here(node)


@pytest.fixture
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entities are read three at a time."""
    monkeypatch.setattr(subscriptiondelivery, "_BATCH", 3)


def told(events: Sequence[CloudEvent]) -> list[tuple[str, str, str]]:
    """Subject, action and epoch of events."""
    return [
        (
            str(event.get_subject()),
            event.get_type().rpartition(".")[2],
            event.get_attributes()["epoch"],
        )
        for event in events
    ]


async def write(node: Node, path: str) -> None:
    await node.put(path, {"description": f"{next(_numbers)}"})


async def all_is_delivered(node: Node, subscription: Subscription) -> None:
    await eventually(node.context, subscription, lambda s: s.initial is None and s.lag == 0)


@pytest.mark.usefixtures("_small_pages")
async def test_only_what_changes_before_its_turn_is_told_again(node: Node) -> None:
    """Its change says the epoch that its creation has told already."""
    changed = asyncio.Event()

    async def answer(_: Sequence[CloudEvent]) -> web.Response:
        if len(sink.batches) == 5:
            await changed.wait()
        return web.Response(status=204)

    async with BatchSink() as sink:
        sink.answer_batch = answer
        for name in "abcdefghi":
            await write(node, ROOT + name)
        await node.changes()  # what is in the log is not told a second time
        config = SubscriptionConfig(initialevents=True)
        subscription = await subscribe(node.context, sink.url, config=config)
        async with delivering(node.context):
            await sink.asked(5)
            for name in ("b", "h", "aa", "hh"):
                await write(node, ROOT + name)
            for name in ("c", "i"):
                assert (await node.send("DELETE", ROOT + name)).status == 204
            changed.set()
            await all_is_delivered(node, subscription)
    found = [(subject.removeprefix(ROOT), *rest) for subject, *rest in told(sink.events)]
    groups = [each for each in found if each[0] not in ("/", "")]
    assert groups[:9] == [
        *((name, "created", "1") for name in "abcdefg"),
        ("h", "created", "2"),
        ("hh", "created", "1"),
    ]
    assert [each[:2] for each in groups[9:]] == [
        ("b", "updated"),
        ("h", "updated"),
        ("aa", "created"),
        ("hh", "created"),
        ("c", "deleted"),
        ("i", "deleted"),
    ]


@pytest.mark.usefixtures("_small_pages")
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(existing=BEGINS, steps=STEPS, statuses=STATUSES)
async def test_nothing_is_missed_and_the_last_event_of_a_subject_tells_its_last_epoch(
    here: Here, existing: set[int], steps: list[tuple[Step, int]], statuses: list[int]
) -> None:
    node = here.node
    prefix = f"{ROOT}r{next(_numbers)}-"
    answers, allowed = iter(statuses), asyncio.Semaphore(0)

    async def answer(_: Sequence[CloudEvent]) -> web.Response:
        await allowed.acquire()
        return web.Response(status=next(answers, 204))

    for number in existing:
        await write(node, f"{prefix}{number}")
    await node.changes()  # what is in the log is not told a second time
    async with BatchSink() as sink, contextlib.AsyncExitStack() as running:
        sink.answer_batch = answer
        subscription = await subscribe(
            node.context,
            sink.url,
            config=SubscriptionConfig(initialevents=True),
            filters=({"prefix": {"subject": prefix}},),
        )
        await running.enter_async_context(delivering(node.context, VirtualTime().timing))
        for step, number in steps:
            match step:
                case "put":
                    await write(node, f"{prefix}{number}")
                case "delete":
                    await node.send("DELETE", f"{prefix}{number}")
                case "take":
                    for _ in range(number):
                        allowed.release()
                    await asyncio.sleep(0.01)  # time in which any part of the work may be done
                case "restart":
                    await running.aclose()
                    timing = VirtualTime().timing
                    await running.enter_async_context(delivering(node.context, timing))
        for _ in range(1000):
            allowed.release()
        await all_is_delivered(node, subscription)
        await running.aclose()
        await check(node, subscription, sink, {f"{prefix}{number}" for number in existing})
    async with node.context.database.transaction() as connection:
        await delete(connection, subscription.id)


async def check(
    node: Node, subscription: Subscription, sink: BatchSink, existing: set[str]
) -> None:
    begin = subscription.cursor
    prefix = str(subscription.definition.filters[0]["prefix"]["subject"])
    logged = [
        each
        for each in await node.changes()
        if each.position > begin and each.change.xid.startswith(prefix)
    ]
    accepted = {(event.get_attributes()["sequence"], event.get_subject()) for event in sink.events}
    assert {(str(each.position), each.change.xid) for each in logged} <= accepted
    deleted = {each.change.xid for each in logged if each.change.action == "deleted"}
    assert {(str(begin), xid) for xid in existing - deleted} <= accepted
    # An event whose answer a restart missed has arrived nevertheless.
    last = {each[0]: each for each in told([event for batch in sink.batches for event in batch])}
    expected = {
        each.change.xid: (each.change.xid, each.change.action, str(each.change.epoch))
        for each in logged
    }
    for xid in existing - expected.keys():
        expected[xid] = (xid, "created", str((await node.get(xid))["epoch"]))
    assert last == expected
