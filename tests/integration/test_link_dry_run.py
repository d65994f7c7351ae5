"""Dry runs of links: they tell what a run would do, and write nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from replication.sinks import owncatalog
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    digest_rows,
    eventually,
    execute,
    link_is,
    members,
    running,
)
from tests.integration.meteredsource import follow, metered

MESSAGES = 60


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """Two fresh nodes that do not know each other."""
    async with members(postgres_url, template, 2, pull_interval_seconds=0.5) as [target, source]:
        yield target, source


async def fill(node: Node, group: str) -> None:
    await node.put(f"/messagegroups/{group}")
    body = {f"m{number}": {} for number in range(MESSAGES)}
    answer = await node.send("POST", f"/messagegroups/{group}/messages", body)
    assert answer.status == 200, answer.body


async def links_of(node: Node) -> list[Any]:
    """What a run would change of the links."""
    links = (await node.get("/replication/links"))["links"]
    return [[each.get(name) for name in ("id", "cursor", "applied", "bytes")] for each in links]


async def tried(node: Node, path: str, body: Any = None) -> dict[str, Any]:
    before = await digest_rows(node), await node.logged(), await links_of(node)
    answer = await node.send("POST", f"{path}?dryrun", {} if body is None else body)
    assert answer.status == 200, answer.body
    assert before == (await digest_rows(node), await node.logged(), await links_of(node))
    found: dict[str, Any] = answer.json
    assert found["isdecided"]
    return found


def numbers(found: dict[str, Any]) -> dict[str, int]:
    return {outcome: each["number"] for outcome, each in found["outcomes"].items()}


@pytest.mark.parametrize("at_once", [2, 1000])
async def test_a_new_link_would_bring_everything_but_what_collides(
    pair: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """In parts of two copies, parents come long before their children."""
    monkeypatch.setattr(owncatalog, "_AT_ONCE", at_once)
    target, source = pair
    await fill(source, "g")
    await source.put("/messagegroups/taken/messages/m")
    await target.put("/messagegroups/taken")
    body = {"id": "from", "source": source.url, "mode": "pull"}
    found = await tried(target, "/replication/links", body)
    assert numbers(found) == {"created": 1 + 2 * MESSAGES, "collided": 2, "invalid": 1}
    assert found.get("question") is None
    collided = {each["xid"]: each for each in found["outcomes"]["collided"]["first"]}
    assert "link set from --prefix" in collided["/messagegroups/taken"]["advice"]
    nameless = await tried(target, "/replication/links", {**body, "id": None})
    [first, *_] = nameless["outcomes"]["collided"]["first"]
    assert "link set ID --prefix" in first["advice"]
    # What was told is what happens.
    assert (await target.send("POST", "/replication/links", body)).status == 201
    async with running(target):
        await link_is(target, "from", "current")
    link = await target.get("/replication/links/from")
    assert (link["applied"], link["conflicts"]) == (1 + 2 * MESSAGES, 3)


async def test_a_run_would_bring_what_differs_and_delete_what_its_source_has_deleted(
    pair: tuple[Node, Node],
) -> None:
    target, source = pair
    for group in ("g", "h"):
        await fill(source, group)
    async with metered(source) as way:
        await follow(target, way)
        async with running(target):
            await link_is(target, "from", "current")
        everything = way.bytes
        way.forget()
        assert numbers(await tried(target, "/replication/links/from/run")) == {}
        assert way.bytes < everything / 10

        await source.put("/messagegroups/g/messages/m0", {"description": "changed"})
        await source.put("/messagegroups/g/messages/new")
        assert (await source.send("DELETE", "/messagegroups/h")).status == 204
        await execute(target, "UPDATE links SET doubts = false")
        found = await tried(target, "/replication/links/from/run")
        assert numbers(found) == {"deleted": 1 + 2 * MESSAGES, "changed": 2, "created": 2}
        assert found.get("question") is None, "the source has not lost them"
        async with running(target):
            await eventually(lambda: carries(target, source))


async def test_what_only_the_replica_has_would_go_if_the_link_begins_anew(
    pair: tuple[Node, Node],
) -> None:
    target, source = pair
    await fill(source, "g")
    async with metered(source) as way:
        await follow(target, way)
        async with running(target):
            await link_is(target, "from", "current")
        # The source goes back to a backup from before these.
        await execute(source, "DELETE FROM entities WHERE xid LIKE '/messagegroups/g/messages/m1%'")
        answer = await target.send("POST", "/replication/links/from/reset", {})
        assert answer.status == 200, answer.body
        found = await tried(target, "/replication/links/from/run")
        assert numbers(found) == {"deleted": 2 * 11}


async def test_a_link_that_nobody_can_follow_is_not_tried(pair: tuple[Node, Node]) -> None:
    target, _ = pair
    body = {"source": "http://127.0.0.1:1", "mode": "pull", "authority": "urn:x"}
    answer = await target.send("POST", "/replication/links?dryrun&force", body)
    assert (answer.status, answer.error) == (400, "source_unusable")
    body = {"target": "http://127.0.0.1:1", "mode": "push"}
    answer = await target.send("POST", "/replication/links?dryrun", body)
    assert (answer.status, answer.error) == (400, "target_unusable")
    body = {"id": "in", "mode": "accept", "authority": "urn:x"}
    answer = await target.send("POST", "/replication/links?dryrun", body)
    assert (answer.status, answer.error) == (400, "bad_request")


async def test_a_push_tells_what_its_target_lacks(pair: tuple[Node, Node]) -> None:
    target, source = pair
    await fill(source, "g")
    accepted = {"id": "in", "mode": "accept", "authority": source.database.node.authority}
    assert (await target.send("POST", "/replication/links", accepted)).status == 201
    body = {"id": "out", "target": target.url, "mode": "push"}
    found = await tried(source, "/replication/links", body)
    assert numbers(found) == {"created": 1 + 2 * MESSAGES}
    assert (await source.send("POST", "/replication/links", body)).status == 201
    async with running(source):
        await link_is(source, "out", "current")
    assert (await source.get("/replication/links/out"))["applied"] == 1 + 2 * MESSAGES
    assert numbers(await tried(source, "/replication/links/out/run")) == {}
    await source.put("/messagegroups/g/messages/m0", {"description": "changed"})
    await source.put("/messagegroups/g/messages/new")
    assert (await source.send("DELETE", "/messagegroups/g/messages/m1")).status == 204
    found = await tried(source, "/replication/links/out/run")
    assert numbers(found) == {"changed": 2, "created": 2, "deleted": 2}


async def test_a_write_tells_what_its_server_lacks_and_refuses(pair: tuple[Node, Node]) -> None:
    server, source = pair
    await fill(source, "g")
    await source.put("/messagegroups/taken", {"name": "ours"})
    await source.put("/messagegroups/equal", {"name": "equal"})
    await server.put("/messagegroups/taken", {"name": "theirs"})
    await server.put("/messagegroups/equal", {"name": "equal"})
    body = {"id": "out", "target": server.url, "mode": "write"}
    before = await digest_rows(server)
    found = await tried(source, "/replication/links", body)
    assert await digest_rows(server) == before
    assert numbers(found) == {"created": 1 + 2 * MESSAGES, "collided": 1}
    assert "did not bring" in found["outcomes"]["collided"]["first"][0]["detail"]
    assert (await source.send("POST", "/replication/links", body)).status == 201
    async with running(source):
        await link_is(source, "out", "current")
    link = await source.get("/replication/links/out")
    assert (link["applied"], link["conflicts"]) == (1 + 2 * MESSAGES, 1)
    assert numbers(await tried(source, "/replication/links/out/run")) == {"collided": 1}
    await source.put("/messagegroups/g", {"description": "changed"})
    assert (await source.send("DELETE", "/messagegroups/g/messages/m1")).status == 204
    found = await tried(source, "/replication/links/out/run")
    assert numbers(found) == {"changed": 1, "deleted": 2, "collided": 1}
