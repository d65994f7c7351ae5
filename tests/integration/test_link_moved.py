"""Links whose catalog answers at another URL now go on from where they are."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.conftest import Node
from tests.integration.federation import (
    accept,
    carries,
    eventually,
    execute,
    link_history_is,
    link_is,
    members,
    push,
    running,
    write_some,
)
from tests.integration.meteredsource import follow, metered

DIGESTS, SNAPSHOT = "/replication/digests", "/replication/snapshot"


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Three fresh nodes that do not know each other."""
    async with members(postgres_url, template, 3, pull_interval_seconds=0.3) as found:
        yield found


async def test_a_link_goes_on_at_the_url_that_its_source_moved_to(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "before")
    async with metered(source) as old, metered(source) as new:
        await follow(target, old)
        async with running(target):
            await link_is(target, "from", "current")
        answer = await target.send("PATCH", "/replication/links/from", {"source": new.url})
        assert (answer.status, answer.json["source"]) == (200, new.url)
        old.forget()
        await write_some(source, "after")
        async with running(target):
            await link_is(target, "from", "current")
            await eventually(lambda: carries(target, source))
        assert not old.requests
        assert (new.requests[SNAPSHOT], new.requests[DIGESTS]) == (0, 0)
    await link_history_is(target, "from", "moved", "copied")
    told = (await target.get("/audit?path=/replication/links/from"))["audit"]
    assert "PATCH" in [each.get("method") for each in told], told


async def test_a_link_does_not_move_to_another_node_or_to_a_catalog_that_lost_data(
    nodes: list[Node],
) -> None:
    source, target, other = nodes
    await write_some(source, "g")
    async with metered(source) as old, metered(source) as new:
        await follow(target, old)
        async with running(target):
            await link_is(target, "from", "current")

        async def refusal(url: str, **definition: object) -> str:
            body = {"source": url, **definition}
            answer = await target.send("PATCH", "/replication/links/from", body)
            assert (answer.status, answer.error) == (400, "source_unusable"), answer.body
            return str(answer.json["title"])

        assert other.database.node.authority in await refusal(other.url)
        assert "this node itself" in await refusal(target.url)
        assert "cannot be reached" in await refusal("http://127.0.0.1:1")
        own = source.database.node.instance
        await execute(target, "UPDATE links SET instance = $1", other.database.node.instance)
        assert "another instance" in await refusal(new.url)
        await execute(target, "UPDATE links SET instance = $1", own)
        later = "overlay(cursor placing '9' from 10 for 1)"
        await execute(target, f"UPDATE links SET cursor = {later}")
        assert "the log ends before it" in await refusal(new.url)
        await execute(target, "UPDATE links SET loss = 'another loss'")
        assert "the log ends before it" in await refusal(new.url)
        await execute(target, "UPDATE links SET loss = NULL")
        link = await target.get("/replication/links/from")
        assert link["source"] == old.url
        forced = await target.send("PATCH", "/replication/links/from?force", {"source": new.url})
        assert forced.status == 200
        async with running(target):
            await link_history_is(target, "from", "compared", "lost data", "moved", "copied")
        answer = await target.send("PATCH", "/replication/links/from", {"target": new.url})
        assert (answer.status, answer.error) == (400, "invalid_attribute")


async def test_a_link_that_pushes_goes_on_at_the_url_that_its_target_moved_to(
    nodes: list[Node],
) -> None:
    source, target, other = nodes
    await write_some(source, "before")
    await accept(target, source)
    async with metered(target) as new:
        id = (await push(source, target))["id"]
        async with running(source):
            await link_is(source, id, "current")
        path = f"/replication/links/{id}"
        refused = await source.send("PATCH", path, {"target": other.url})
        assert (refused.status, refused.error) == (400, "target_unusable")
        assert (await source.send("PATCH", path, {"target": new.url})).status == 200
        await write_some(source, "after")
        async with running(source):
            await eventually(lambda: carries(target, source))
        assert new.requests[DIGESTS] == 0
        history = (await source.get(path))["history"]
        assert [event["event"] for event in history] == ["moved", "copied"]
