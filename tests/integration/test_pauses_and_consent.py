"""A pause outlasts the wait for the consent of a sink, and nothing comes to one without consent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.conftest import Answer, Node
from tests.integration.federation import execute
from tests.integration.test_sink_consent import (
    callback_of,
    consenting,
    definition,
    delivering,
    idle,
    open_node,
    sink_here,
    status_of,
    subscribe,
    until,
)
from tests.integration.webhooksink import WebHookSink

__all__ = ["idle"]


@pytest.fixture
async def node(idle: Node) -> AsyncIterator[Node]:
    async with delivering(idle):
        yield idle


PAUSE, RESUME = {"paused": True, "reason": "at night"}, {"paused": False}


async def change(node: Node, path: str, changes: Any, status: int = 200) -> Answer:
    answer = await node.send("PATCH", path, changes)
    assert answer.status == status, answer.body
    return answer


async def example(node: Node, path: str, status: int = 200) -> Answer:
    answer = await node.send("POST", f"{path}/test")
    assert answer.status == status, answer.body
    return answer


async def paused(node: Node, sink: WebHookSink) -> str:
    """The path of a subscription that is paused, and whose sink has consented."""
    path = await subscribe(node, sink)
    await until(node, path, "active")
    await change(node, path, PAUSE)
    return path


async def move(node: Node, path: str, sink: WebHookSink) -> None:
    """Move a subscription to a sink that has yet to consent."""
    answer = await node.send("PUT", path, definition(sink))
    assert answer.status == 202
    status = answer.json["status"]
    assert status["state"] == "pending"
    assert "waits for the sink's consent" in status["reason"]


async def test_a_paused_subscription_that_moves_is_paused_after_the_consent(node: Node) -> None:
    async with sink_here(consenting()) as former, sink_here() as sink:
        path = await paused(node, former)
        await move(node, path, sink)
        status = await status_of(node, path)
        assert status["reason"].endswith("; after the consent it is paused: at night")
        await sink.has(lambda sink: sink.asked)
        sink.on_options = consenting()
        status = await until(node, path, "paused")
        assert status["reason"] == "at night"
        await node.put("/messagegroups/g")
        # A subscription begins where the log can be read to, which may lie before this change.
        await node.changes()
        other = await subscribe(node, sink)
        await until(node, other, "active")
        await node.put("/messagegroups/h")
        await sink.has(lambda sink: sink.events)
        assert {each.headers["ce-subject"] for each in sink.events} == {"/messagegroups/h"}
        await change(node, path, RESUME)
        await sink.has(lambda sink: len(sink.events) == 3)
        assert sink.events[1].headers["ce-subject"] == "/messagegroups/g"


async def test_a_pause_outlasts_the_consent_by_a_callback(node: Node) -> None:
    async with sink_here(consenting()) as former, sink_here() as sink:
        path = await paused(node, former)
        await move(node, path, sink)
        await sink.has(lambda sink: sink.asked)
        assert (await node.send("POST", callback_of(sink))).status == 200
        assert (await status_of(node, path))["state"] == "paused"


async def test_a_pause_outlasts_several_moves(node: Node) -> None:
    """Also one back to the sink that has consented, and one to a sink that need not."""
    async with sink_here(consenting()) as former, sink_here() as sink, WebHookSink() as near:
        path = await paused(node, former)
        await move(node, path, sink)
        await move(node, path, former)
        await until(node, path, "paused", reason="at night")
        await move(node, path, sink)
        answer = await node.send("PUT", path, definition(near))
        assert (answer.status, answer.json["status"]["state"]) == (200, "paused")
        assert answer.json["status"]["reason"] == "at night"


async def test_one_that_waits_for_consent_can_be_paused_and_resumed(idle: Node) -> None:
    async with sink_here(consenting()) as sink:
        ids = [await subscribe(idle, sink) for _ in range(2)]
        for path in ids:
            tag = (await idle.send("GET", path)).headers["ETag"]
            answer = await change(idle, path, PAUSE, 202)
            assert answer.json["status"]["state"] == "pending"
            assert answer.json["status"]["reason"].endswith("it is paused: at night")
            assert answer.headers["ETag"] != tag
            again = await change(idle, path, PAUSE, 202)
            assert again.headers["ETag"] == answer.headers["ETag"]
        answer = await change(idle, ids[1], RESUME, 202)
        assert "paused" not in answer.json["status"]["reason"]
        again = await change(idle, ids[1], RESUME, 202)
        assert again.headers["ETag"] == answer.headers["ETag"]
        async with delivering(idle):
            await until(idle, ids[0], "paused", reason="at night")
            assert "reason" not in await until(idle, ids[1], "active")


async def test_a_pause_ends_with_its_subscription(database_url: str) -> None:
    """Whoever replaces one that ended for lack of consent begins anew."""
    async with open_node(database_url, consent_hours=0.5 / 3600) as node, sink_here() as sink:
        path = await subscribe(node, sink)
        await change(node, path, PAUSE, 202)
        async with delivering(node):
            await until(node, path, "ended")
            sink.on_options = consenting()
            await move(node, path, sink)
            await until(node, path, "active")


async def test_one_that_expires_while_it_waits_begins_anew_when_it_is_replaced(idle: Node) -> None:
    async with sink_here() as sink:
        path = await subscribe(idle, sink)
        await change(idle, path, PAUSE, 202)
        await execute(idle, "UPDATE subscriptions SET expiresat = now() - interval '1 second'")
        async with delivering(idle):
            await until(idle, path, "expired")
            sink.on_options = consenting()
            await move(idle, path, sink)
            await until(idle, path, "active")


async def test_a_pause_outlasts_the_end_of_validation(database_url: str) -> None:
    async with sink_here() as sink:
        async with open_node(database_url) as node:
            path = await subscribe(node, sink)
            await change(node, path, PAUSE, 202)
        async with open_node(database_url, validate_sinks=False) as node, delivering(node):
            await until(node, path, "paused", reason="at night")


@pytest.mark.parametrize("is_over", [False, True], ids=["pending", "ended"])
async def test_no_example_is_sent_to_a_sink_that_has_not_consented(
    database_url: str, is_over: bool
) -> None:
    hours = 0.5 / 3600 if is_over else 24
    async with (
        open_node(database_url, consent_hours=hours) as node,
        sink_here() as sink,
        delivering(node),
    ):
        path = await subscribe(node, sink)
        await until(node, path, "ended" if is_over else "pending")
        answer = await example(node, path, 409)
        assert answer.error == "conflict"
        assert answer.json["subject"] == path
        assert ("PUT" if is_over else "Wait") in answer.json["detail"]
        assert sink.events == []


async def test_no_example_is_sent_to_a_sink_that_a_subscription_has_moved_to(node: Node) -> None:
    """Also once it has expired while the consent was missing."""
    async with sink_here(consenting()) as former, sink_here() as sink:
        path = await paused(node, former)
        await example(node, path)
        assert len(former.events) == 1
        await move(node, path, sink)
        await example(node, path, 409)
        await execute(node, "UPDATE subscriptions SET expiresat = now() - interval '1 second'")
        await until(node, path, "expired")
        await example(node, path, 409)
        assert sink.events == []


async def test_an_example_is_sent_to_a_sink_that_has_consented_whatever_the_state(
    node: Node,
) -> None:
    async with sink_here(consenting()) as sink:
        path = await paused(node, sink)
        for _ in range(2):
            assert (await example(node, path)).json["outcome"] == "delivered"
            await execute(node, "UPDATE subscriptions SET expiresat = now() - interval '1 second'")
            await until(node, path, "expired")
        assert len(sink.events) == 2
