"""Pause, resume and replay over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from catalog.operations.subscriptions import State
from catalog.store.changes import Position
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from catalog.subscriptions.stored.subscriptions import Subscription, get
from tests.integration.conftest import Node, fresh_node
from tests.integration.federation import execute
from tests.integration.test_subscriptions_life import (
    AnsweringSink,
    bury,
    definition,
    sink,
    subscribed,
)

__all__ = ["sink"]

node = fresh_node(
    allow_private_addresses=True, backoff_initial_seconds=1000, backoff_cap_seconds=1000
)


@pytest.fixture
async def delivering(node: Node) -> AsyncIterator[Node]:
    """The same node, which delivers."""
    task = asyncio.create_task(run_deliveries(node.context))
    yield node
    task.cancel()
    await asyncio.wait([task])


async def stored(node: Node, path: str) -> Subscription:
    async with node.database.acquire() as connection:
        found = await get(connection, path.rpartition("/")[2])
    assert found is not None
    return found


PAUSE, RESUME, REPLAY = {"paused": True}, {"paused": False}, {"cursor": "earliest"}


async def change(node: Node, path: str, **changes: Any) -> Any:
    answer = await node.send("PATCH", path, changes)
    assert answer.status == 200, answer.body
    return answer.json


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)  # between two looks


async def until_delivered(node: Node, path: str, count: int) -> None:
    async with asyncio.timeout(20):
        while (await stored(node, path)).delivered < count:
            await asyncio.sleep(0.02)  # between two looks


def subjects(sink: AnsweringSink) -> list[str]:
    return [headers["ce-subject"] for headers, _ in sink.events]


async def test_a_paused_subscription_gets_nothing_until_it_is_resumed(
    delivering: Node, sink: AnsweringSink
) -> None:
    node = delivering
    filters = [{"prefix": {"subject": "/messagegroups/"}}]
    path = await subscribed(node, sink.url, filters=filters)
    await node.put("/messagegroups/a")
    # A request that is under way when its subscription pauses is made again afterwards.
    await until_delivered(node, path, 1)
    shown = await change(node, path, paused=True, reason="the sink moves")
    assert (shown["status"]["state"], shown["status"]["reason"]) == ("paused", "the sink moves")
    # Once a later subscription is served, the process that delivers has seen the pause; and once
    # that has a later change, the process has seen all changes before.
    others = [{"prefix": {"subject": "/schemagroups/"}}]
    await subscribed(node, sink.url + "?other", filters=others)
    await node.put("/schemagroups/x")
    await until(lambda: subjects(sink)[1:] == ["/schemagroups/x"])
    for group in ("messagegroups/b", "messagegroups/c", "schemagroups/y"):
        await node.put(f"/{group}")
    await until(lambda: subjects(sink)[2:] == ["/schemagroups/y"])
    shown = await change(node, path, paused=False)
    assert shown["status"]["state"] == "active"
    assert "reason" not in shown["status"]
    await until(
        lambda: subjects(sink)[3:] == ["/messagegroups/b", "/messagegroups/c"],
    )


async def test_pausing_and_resuming_again_changes_nothing(node: Node) -> None:
    path = await subscribed(node)
    for body in (RESUME, PAUSE):
        first = await node.send("PATCH", path, body)
        again = await node.send("PATCH", path, body)
        assert (first.status, again.status) == (200, 200)
        assert first.headers["ETag"] == again.headers["ETag"]
        assert first.json["status"]["state"] == again.json["status"]["state"]


async def test_a_paused_subscription_that_is_replaced_stays_paused(node: Node) -> None:
    path = await subscribed(node)
    await change(node, path, paused=True)
    replaced = await node.put(path, definition(types=["x"]))
    assert replaced["status"]["state"] == "paused"


async def test_a_blocked_subscription_tries_again_at_once_when_it_is_resumed(
    delivering: Node, sink: AnsweringSink
) -> None:
    node = delivering
    sink.status = 503
    path = await subscribed(node, sink.url, filters=[{"exact": {"subject": "/messagegroups/a"}}])
    await node.put("/messagegroups/a")
    await eventually_failing(node, path)
    sink.status = 204
    shown = await change(node, path, paused=False)
    assert shown["status"]["state"] == "active"
    await until(lambda: subjects(sink) == ["/messagegroups/a"] * 2)


async def eventually_failing(node: Node, path: str) -> None:
    async with asyncio.timeout(20):
        while not (await node.get(path))["status"]["failures"]:
            await asyncio.sleep(0.02)  # between two looks at the status


async def test_a_replay_from_now_leaves_out_what_was_not_delivered(node: Node) -> None:
    path = await subscribed(node)
    await node.put("/messagegroups/a")
    await node.changes()
    assert (await node.get(path))["status"]["lag"] > 0
    assert (await change(node, path, cursor="now"))["status"]["lag"] == 0


async def test_a_paused_subscription_stays_paused_when_it_is_replayed(node: Node) -> None:
    path = await subscribed(node)
    await node.put("/messagegroups/a")
    await node.changes()
    await change(node, path, paused=True)
    shown = await change(node, path, cursor="earliest")
    assert shown["status"]["state"] == "paused"
    assert (await stored(node, path)).cursor == Position(0, 0)


OVER: list[State] = ["expired", "ended"]


@pytest.mark.parametrize(
    ("state", "body"),
    [
        ("pending", REPLAY),
        ("pending", REPLAY | PAUSE),
        *((state, each) for state in OVER for each in (PAUSE, RESUME, REPLAY)),
    ],
)
async def test_the_course_of_a_subscription_that_delivers_nothing_stays(
    node: Node, state: State, body: Any
) -> None:
    path = await subscribed(node)
    await execute(node, f"UPDATE subscriptions SET state = '{state}'")
    before = await stored(node, path)
    answer = await node.send("PATCH", path, body)
    assert (answer.status, answer.error) == (409, "conflict")
    assert state in answer.json["title"]
    assert "PUT" in answer.json["detail"]
    assert await stored(node, path) == before


async def test_nothing_is_sent_to_a_sink_that_has_not_agreed(
    node: Node, sink: AnsweringSink
) -> None:
    path = await subscribed(node, sink.url)
    await execute(node, "UPDATE subscriptions SET state = 'pending'")
    answer = await node.send("POST", f"{path}/test")
    assert (answer.status, answer.error) == (409, "conflict")
    assert sink.events == []
    # A definition that is put again while it is pending is accepted, and done later.
    assert (await node.send("PUT", path, definition(sink.url))).status == 202


@pytest.mark.parametrize("body", [PAUSE, RESUME, REPLAY])
async def test_a_change_under_another_tag_changes_nothing(node: Node, body: Any) -> None:
    path = await subscribed(node)
    before = await stored(node, path)
    answer = await node.send("PATCH", path, body, If_Match='"0"')
    assert (answer.status, answer.error) == (412, "precondition_failed")
    assert await stored(node, path) == before
    tag = (await node.send("GET", path)).headers["ETag"]
    assert (await node.send("PATCH", path, body, If_Match=tag)).status == 200


@pytest.mark.parametrize(
    "start",
    [
        7,
        "",
        "x",
        "earliest\u0000",
        "yesterday",
        "9" * 300,
        f"{2**63}.0",
        f"0.{2**63}",
        f"{2**63 - 1}.{2**63 - 1}",
        "2999-01-01T00:00:00Z" + "0" * 300,
        "0001-01-01T00:00:00Z",
        "-1.0",
        ["earliest"],
        {"position": "0.0"},
    ],
)
async def test_a_place_that_is_not_in_the_log_is_refused(node: Node, start: Any) -> None:
    await node.put("/messagegroups/a")
    await node.changes()
    await execute(node, "UPDATE node SET dropped_txid = (SELECT min(txid) FROM changes) - 1")
    path = await subscribed(node)
    before = await stored(node, path)
    answer = await node.send("PATCH", path, {"cursor": start, "paused": True})
    assert answer.status == 400, answer.body
    assert await stored(node, path) == before


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        7,
        {"from": "earliest"},
        {"paused": "true"},
        {"paused": 1},
        {"paused": True, "reason": "x" * 257},
        {"paused": True, "reason": 7},
        {"paused": True, "why": "x"},
        {"paused": True, "reason": "\u0000"},
        {"paused": False, "reason": "x"},
        {"reason": "x"},
        {"status": {"state": "paused"}},
    ],
)
async def test_a_change_that_is_none_is_refused(node: Node, body: Any) -> None:
    path = await subscribed(node)
    answer = await node.send("PATCH", path, body)
    assert answer.status == 400, answer.body
    assert (await stored(node, path)).state == "active"


async def test_a_subscription_moves_and_goes_on_by_one_change(node: Node) -> None:
    path = await subscribed(node)
    await node.put("/messagegroups/a")
    await node.changes()
    await change(node, path, paused=True)
    shown = await change(node, path, paused=False, cursor="earliest")
    assert shown["status"]["state"] == "active"
    assert (await stored(node, path)).cursor == Position(0, 0)


async def test_an_empty_change_changes_nothing(node: Node) -> None:
    path = await subscribed(node)
    before = await node.send("GET", path)
    same = await node.send("PATCH", path, {})
    assert (same.status, same.headers["ETag"]) == (200, before.headers["ETag"])


async def test_dead_letters_are_due_while_the_subscription_is_paused(node: Node) -> None:
    """They are delivered when it is resumed."""
    path = await subscribed(node)
    await bury(node, path, "a1")
    await change(node, path, paused=True)
    assert (await node.send("POST", f"{path}/deadletters/redeliver")).status == 202
