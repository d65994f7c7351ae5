"""Pause, resume and run of links over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.model.timestamps import parse_time
from catalog.store import links
from catalog.supervisor import LoopTiming
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    execute,
    link,
    link_is,
    running,
    start_member,
    write_some,
)

EU = "/replication/links/eu"


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """Two fresh nodes that do not know each other."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        # After a failure, a link waits for longer than any test takes.
        start_member(one, backoff_initial_seconds=1000, backoff_cap_seconds=1000) as target,
        start_member(two) as source,
    ):
        yield target, source


async def change(node: Node, **changes: Any) -> Any:
    answer = await node.send("PATCH", EU, changes)
    assert answer.status == 200, answer.body
    return answer.json


async def run(node: Node) -> Any:
    answer = await node.send("POST", f"{EU}/run")
    assert answer.status == 200, answer.body
    return answer.json


async def test_a_paused_link_brings_nothing_until_it_is_resumed(pair: tuple[Node, Node]) -> None:
    target, source = pair
    await write_some(source, "g")
    await link(target, source, id="eu")
    async with running(target):
        await eventually(lambda: carries(target, source))
        await link_is(target, "eu", "current")
        shown = await change(target, paused=True, reason="the source moves")
        assert (shown["state"], shown["reason"]) == ("paused", "the source moves")
        await source.put("/messagegroups/h")
        # Another link brings the change, so the process that runs the links has seen both.
        await link(target, source, id="other", scope=["/messagegroups/h"])
        await link_is(target, "other", "current")
        paused = await target.get("/replication/links/eu")
        assert (paused["state"], paused["cursor"]) == ("paused", shown["cursor"])
        resumed = await change(target, paused=False)
        assert resumed.get("reason") is None

        async def has_moved() -> bool:
            return bool((await target.get("/replication/links/eu"))["cursor"] != shown["cursor"])

        await eventually(has_moved)
    after = await target.get("/replication/links/eu")
    assert [each["event"] for each in after["history"]] == ["copied"]


async def test_a_link_stays_paused_when_it_is_changed_and_when_the_node_starts_again(
    pair: tuple[Node, Node],
) -> None:
    target, source = pair
    await write_some(source, "g")
    await link(target, source, id="eu")
    await change(target, paused=True)
    again = await change(target, paused=True, reason="another")
    assert again["reason"] == "paused on request"
    for method, path, body in (
        ("PUT", EU, {"source": source.url, "mode": "pull", "scope": ["/messagegroups"]}),
        ("POST", f"{EU}/reset", {}),
        ("PATCH", EU, {"authority": source.database.node.authority}),
        ("PATCH", EU, {"types": ["messagegroups"]}),
    ):
        changed = await target.send(method, path, body)
        assert (changed.status, changed.json["state"]) == (200, "paused"), changed.body
    await link(target, source, id="other")
    async with running(target):
        await link_is(target, "other", "current")
    assert (await target.get("/replication/links/eu"))["state"] == "paused"


async def test_a_paused_link_is_removed_with_what_it_brought(pair: tuple[Node, Node]) -> None:
    target, source = pair
    await write_some(source, "g")
    await link(target, source, id="eu")
    async with running(target):
        await link_is(target, "eu", "current")
        await change(target, paused=True)
        assert (await target.send("DELETE", "/replication/links/eu?drop")).status == 202

        async def is_gone() -> bool:
            return (await target.send("GET", "/replication/links/eu")).status == 404

        await eventually(is_gone)
    assert (await target.send("GET", "/messagegroups/g")).status == 404


async def test_a_link_that_waits_after_a_failure_tells_until_when_and_may_run_at_once(
    pair: tuple[Node, Node],
) -> None:
    target, source = pair
    body = {"id": "eu", "source": "http://127.0.0.1:9", "mode": "pull"}
    assert (await target.send("POST", "/replication/links?force", body)).status == 201
    async with running(target, timing=LoopTiming()):
        await link_is(target, "eu", "waiting")
        waiting = await target.get("/replication/links/eu")
        assert waiting["failures"] == 1
        assert parse_time(waiting["nextattemptat"]) > datetime.now(UTC) + timedelta(minutes=5)
        before = waiting.get("nextattemptat")
        await run(target)

        async def has_tried_again() -> bool:
            shown = await target.get("/replication/links/eu")
            return shown.get("nextattemptat") not in (None, before)

        await eventually(has_tried_again)
        # Its source is there now.
        await execute(
            target,
            "UPDATE links SET definition = jsonb_set(definition, '{source}', to_jsonb($1::text))",
            source.url,
        )
        await run(target)
        await link_is(target, "eu", "current")
    shown = await target.get("/replication/links/eu")
    assert (shown["failures"], shown.get("nextattemptat"), shown.get("error")) == (0, None, None)


async def test_a_current_link_that_is_to_run_keeps_its_place(pair: tuple[Node, Node]) -> None:
    target, source = pair
    await link(target, source, id="eu")
    async with running(target):
        await link_is(target, "eu", "current")
        shown = await run(target)
        assert shown["state"] == "current"


async def test_a_paused_link_does_not_run(pair: tuple[Node, Node]) -> None:
    target, source = pair
    await link(target, source, id="eu")
    await change(target, paused=True, reason="at night")
    refused = await target.send("POST", "/replication/links/eu/run")
    assert refused.status == 409
    assert "the link is paused (at night)" in refused.json["title"]


async def test_a_paused_link_is_allowed_nothing(pair: tuple[Node, Node]) -> None:
    target, source = pair
    await link(target, source, id="eu")
    refused = await target.send("PATCH", EU, {"paused": True, "allow": "3f2a"})
    assert (refused.status, refused.error) == (409, "conflict")
    assert (await target.get(EU))["state"] == "new"


async def test_a_link_is_narrowed_and_paused_by_one_change(pair: tuple[Node, Node]) -> None:
    target, source = pair
    await link(target, source, id="eu")
    changed = await change(target, scope=["/messagegroups"], paused=True, reason="at night")
    assert (changed["scope"], changed["state"]) == (["/messagegroups"], "paused")
    assert changed["reason"] == "at night"
    changed = await change(target, prefix="eu-", paused=False)
    assert (changed["prefix"], changed["state"], changed.get("reason")) == ("eu-", "new", None)


async def test_a_link_that_is_not_there_has_no_course(pair: tuple[Node, Node]) -> None:
    target, _ = pair
    no = "/replication/links/no"
    assert (await target.send("POST", f"{no}/run")).status == 404
    for paused in (True, False):
        assert (await target.send("PATCH", no, {"paused": paused})).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {"paused": True, "reason": ""},
        {"paused": True, "reason": "x" * 257},
        {"paused": True, "reason": 1},
        {"paused": "true"},
        {"paused": False, "reason": "x"},
        {"reason": "x"},
        {"paused": True, "x": 1},
    ],
)
async def test_a_pause_takes_a_short_reason(pair: tuple[Node, Node], body: Any) -> None:
    target, source = pair
    await link(target, source, id="eu")
    refused = await target.send("PATCH", EU, body)
    assert refused.status == 400
    assert (await target.get(EU))["state"] == "new"


async def test_the_history_of_a_link_forgets_what_is_old(pair: tuple[Node, Node]) -> None:
    target, source = pair
    await link(target, source, id="eu")
    now = datetime.now(UTC)
    async with target.database.acquire() as connection:
        found = await links.get(connection, "eu")
        assert found is not None
        for days in (200, 100, 80, 0):
            at = now - timedelta(days=days)
            await links.remember(connection, found, at, f"{days}", "")
    shown = await target.get("/replication/links/eu")
    assert [each["event"] for each in shown["history"]] == ["0", "80"]
