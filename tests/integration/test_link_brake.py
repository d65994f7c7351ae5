"""Links ask before they delete much of what they brought, in whichever way it would go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from replication import pull
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    digest_rows,
    drop_log,
    eventually,
    execute,
    link,
    link_history_is,
    link_is,
    running,
    start_member,
)
from tests.integration.meteredsource import MeteredSource, follow, metered

GROUPS, LIVE = 60, 61


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, MeteredSource]]:
    """A target that has brought all groups of a source, and the way to that."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as source,
        start_member(two) as target,
        metered(source) as way,
    ):
        for number in range(GROUPS):
            await source.put(f"/messagegroups/g{number}")
        await source.put("/messagegroups/kept")
        await follow(target, way)
        async with running(target):
            await link_is(target, "from", "current")
        way.forget()
        yield target, way


async def delete(source: Node, count: int, *, first: int = 0) -> None:
    for number in range(first, first + count):
        assert (await source.send("DELETE", f"/messagegroups/g{number}")).status == 204
    # The source shows changes in its feed only when no earlier transaction is open.
    await source.changes()


async def live(node: Node) -> int:
    return sum(row[1] == "false" for row in (await digest_rows(node)).values())


async def shown(target: Node) -> Any:
    return await target.get("/replication/links/from")


async def allow(target: Node) -> None:
    answer = await target.send("POST", "/replication/links/from/allow", {})
    assert answer.status == 200, answer.body


async def test_deletions_that_come_by_the_feed_wait_to_be_allowed(
    nodes: tuple[Node, MeteredSource],
) -> None:
    target, way = nodes
    cursor = (await shown(target))["cursor"]
    await delete(way.node, 30)
    await way.node.put("/messagegroups/later")
    await way.node.changes()  # all of them can be read
    async with running(target):
        await link_is(target, "from", "braked")
        await link_history_is(target, "from", "braked", "copied")
        link = await shown(target)
        assert link["brake"] == {"deletions": 30, "of": LIVE}
        assert "30 of the 61 entities" in link["error"]
        assert "`concord link allow from`" in link["error"]
        assert link["cursor"] == cursor
        assert await live(target) == LIVE
        await allow(target)
        await eventually(lambda: carries(target, way.node))
        await link_is(target, "from", "current")
    link = await shown(target)
    assert (link["brake"], link["error"]) == (None, None)


async def test_few_deletions_and_small_shares_need_no_permission(
    nodes: tuple[Node, MeteredSource],
) -> None:
    target, way = nodes
    await delete(way.node, 20)
    async with running(target):
        await eventually(lambda: carries(target, way.node))
        await link_history_is(target, "from", "copied")


async def test_deletions_count_together_over_the_pages_of_a_feed(
    nodes: tuple[Node, MeteredSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, way = nodes
    monkeypatch.setattr(pull, "_PAGE", 8)
    await delete(way.node, 50)
    async with running(target):
        await link_is(target, "from", "braked")
        await link_history_is(target, "from", "braked", "copied")
        assert (await shown(target))["brake"] == {"deletions": 50, "of": LIVE}
        assert LIVE - 20 <= await live(target) < LIVE
        await allow(target)
        await eventually(lambda: carries(target, way.node))
        await link_is(target, "from", "current")
        await link_history_is(target, "from", "braked", "copied")


async def test_deletions_count_together_however_slowly_they_come(
    nodes: tuple[Node, MeteredSource],
) -> None:
    target, way = nodes
    async with running(target):
        for first in range(0, 20, 10):
            await delete(way.node, 10, first=first)
            await eventually(lambda: carries(target, way.node))
        await delete(way.node, 1, first=20)
        await link_is(target, "from", "braked")
        assert await live(target) == LIVE - 20


async def test_what_goes_with_its_group_counts(
    nodes: tuple[Node, MeteredSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the group's deletion comes before those of what is below."""
    target, way = nodes
    body = {f"m{number}": {} for number in range(15)}
    answer = await way.node.send("POST", "/messagegroups/kept/messages", body)
    assert answer.status == 200
    async with running(target):
        await eventually(lambda: carries(target, way.node))
    monkeypatch.setattr(pull, "_PAGE", 1)
    assert (await way.node.send("DELETE", "/messagegroups/kept")).status == 204
    async with running(target):
        await link_history_is(target, "from", "braked", "copied")
        assert (await shown(target))["brake"] == {"deletions": 31, "of": LIVE + 30}
        assert await live(target) == LIVE + 30
        await allow(target)
        await eventually(lambda: carries(target, way.node))


@pytest.mark.parametrize("without", [frozenset(), frozenset({"/replication/digests"})])
async def test_deletions_found_by_a_resynchronisation_wait_to_be_allowed(
    nodes: tuple[Node, MeteredSource], without: frozenset[str]
) -> None:
    target, way = nodes
    way.without = without
    await delete(way.node, 30)
    await drop_log(way.node)
    async with running(target):
        await link_is(target, "from", "braked")
        await link_history_is(target, "from", "braked", "resynchronise", "copied")
        assert (await shown(target))["brake"] == {"deletions": 30, "of": LIVE}
        assert await live(target) == LIVE
        await allow(target)
        await eventually(lambda: carries(target, way.node))
        await link_is(target, "from", "current")


async def test_what_comes_by_other_links_does_not_count_as_brought_by_a_relay(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 3) as (one, two, three),
        start_member(one) as large,
        start_member(two) as hub,
        start_member(three) as edge,
        metered(hub) as way,
    ):
        body = {f"m{number}": {} for number in range(200)}
        await large.put("/messagegroups/large")
        answer = await large.send("POST", "/messagegroups/large/messages", body)
        assert answer.status == 200
        for number in range(25):
            await hub.put(f"/messagegroups/g{number}")
        await link(edge, large, id="large")
        await follow(edge, way, authorities=["*"])
        async with running(edge):
            await eventually(lambda: carries(edge, large, hub))
            await link_is(edge, "from", "current")
        await delete(hub, 21)
        async with running(edge):
            await link_history_is(edge, "from", "braked", "copied")
        assert (await shown(edge))["brake"] == {"deletions": 21, "of": 25}


@pytest.mark.parametrize("full", [False, True])
async def test_a_wiped_source_takes_nothing_away_after_a_reset(
    nodes: tuple[Node, MeteredSource], full: bool
) -> None:
    target, way = nodes
    await execute(way.node, "DELETE FROM entities WHERE kind <> 'registry'")
    await target.send("POST", "/replication/links/from/reset", {"full": full})
    async with running(target):
        await link_history_is(target, "from", "braked", *["copied"] * (1 + full))
        assert (await shown(target))["brake"] == {"deletions": LIVE, "of": LIVE}
        assert await live(target) == LIVE
        await allow(target)

        async def is_empty() -> bool:
            return await live(target) == 0

        await eventually(is_empty)
        await link_is(target, "from", "current")


async def test_a_restart_keeps_the_brake_and_the_permission(
    nodes: tuple[Node, MeteredSource],
) -> None:
    target, way = nodes
    await delete(way.node, 30)
    async with running(target):
        await link_history_is(target, "from", "braked", "copied")
    way.forget()
    async with running(target):
        another = {"id": "another", "source": "http://127.0.0.1:9", "mode": "pull"}
        await target.send("POST", "/replication/links?force", another)
        await link_is(target, "another", "waiting")
        assert (await shown(target))["state"] == "braked"
        assert not way.requests, "it asks its source for nothing"
    assert await live(target) == LIVE
    await allow(target)
    async with running(target):
        await eventually(lambda: carries(target, way.node))


async def test_a_permission_holds_once_and_for_so_many(nodes: tuple[Node, MeteredSource]) -> None:
    target, way = nodes
    await delete(way.node, 25)
    async with running(target):
        await link_history_is(target, "from", "braked", "copied")
    await delete(way.node, 5, first=25)
    await allow(target)
    async with running(target):
        await link_history_is(target, "from", "braked", "braked", "copied")
        assert (await shown(target))["brake"] == {"deletions": 30, "of": LIVE}
        assert await live(target) == LIVE
        await allow(target)
        await eventually(lambda: carries(target, way.node))
        await link_is(target, "from", "current")
    await delete(way.node, 25, first=30)
    async with running(target):
        await link_is(target, "from", "braked")
    assert await live(target) == LIVE - 30


async def test_a_link_that_does_not_ask_is_not_allowed_anything(
    nodes: tuple[Node, MeteredSource],
) -> None:
    target, _ = nodes
    answer = await target.send("POST", "/replication/links/from/allow", {})
    assert (answer.status, answer.error) == (400, "bad_request")
    answer = await target.send("POST", "/replication/links/nobody/allow", {})
    assert answer.status == 404
