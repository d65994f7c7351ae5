"""Links that bring entities under other names: nothing of an entity but its name here differs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.conftest import Node
from tests.integration.federation import (
    accept,
    carries,
    digest_rows,
    eventually,
    link,
    link_history_is,
    link_is,
    members,
    own_rows,
    running,
    write_some,
)

MESSAGE = "/messagegroups/shop/messages/m0"
XREF = "/messagegroups/shop/messages/ref"


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Four fresh nodes that do not know each other."""
    async with members(postgres_url, template, 4) as found:
        yield found


async def status(node: Node, path: str) -> int:
    return (await node.send("GET", path)).status


async def change(node: Node, id: str, **selection: object) -> None:
    answer = await node.send("PATCH", f"/replication/links/{id}", selection)
    assert answer.status == 200, answer.body


async def test_two_authorities_with_one_name_live_in_one_hub_and_come_home_as_they_were(
    nodes: list[Node],
) -> None:
    """One is pulled and one pushes; an edge behind the hub has the names of the authorities."""
    pulled, pushing, hub, edge = nodes
    for node in (pulled, pushing):
        await write_some(node, "shop")
        await node.put(f"{XREF}/meta", {"xref": MESSAGE})
    await link(hub, pulled, id="pulled", prefix="a-")
    await accept(hub, pushing, id="pushed", map={"messagegroups/shop": "messagegroups/their-shop"})
    body = {"id": "out", "mode": "push", "target": hub.url}
    assert (await pushing.send("POST", "/replication/links", body)).status == 201
    authority = pulled.database.node.authority
    await link(edge, hub, id="hub", mode="events", authorities=[authority])
    # The hub's copy of what the first one controls comes back to it, and is its own.
    await link(pulled, hub, id="home", authorities=["*"], prefix="hub-")
    async with running(*nodes), running(hub, deliveries=True):
        await eventually(lambda: carries(hub, pulled, pushing))
        await eventually(lambda: carries(edge, pulled))
        await eventually(lambda: carries(pulled, hub, pushing))
        await pulled.put(MESSAGE, {"description": "changed"})
        await pushing.put("/messagegroups/shop/messages/new", {})
        assert (await pushing.send("DELETE", "/schemagroups/shop")).status == 204
        await eventually(lambda: carries(hub, pulled, pushing))
        await eventually(lambda: carries(edge, pulled))
        await link_is(edge, "hub", "current")
    shown = await hub.get(MESSAGE.replace("shop", "a-shop"))
    assert shown["description"] == "changed"
    assert shown["origin"].endswith(MESSAGE)
    assert (await hub.get(MESSAGE.replace("shop", "their-shop")))["description"] == "message 0"
    document = await hub.send("GET", "/schemagroups/a-shop/schemas/s")
    assert document.body == b'{"type": "object"}'
    assert await status(hub, MESSAGE) == 404
    assert (await edge.get(MESSAGE))["description"] == "changed"
    for name, node in (("a-shop", hub), ("their-shop", hub), ("shop", edge)):
        reference = await node.get(XREF.replace("shop", name))
        assert reference["description"] == ("message 0" if name == "their-shop" else "changed"), (
            "its cross reference leads to its own authority's message"
        )
    assert await digest_rows(hub, verify=True) == await digest_rows(hub)
    assert await own_rows(pulled) == {
        o: row for o, row in (await digest_rows(edge)).items() if o[0] == authority
    }
    for node, id in ((hub, "pulled"), (hub, "pushed"), (edge, "hub"), (pulled, "home")):
        assert (await node.get(f"/replication/links/{id}"))["conflicts"] == 0


async def test_a_collision_tells_the_advice_and_the_advice_helps(nodes: list[Node]) -> None:
    first, second, hub, _ = nodes
    for node in (first, second):
        await write_some(node, "shop", messages=1)
    await hub.put("/messagegroups/two-shop", {})
    await link(hub, first, id="first")
    async with running(hub):
        await eventually(lambda: carries(hub, first))
        await link(hub, second, id="second")
        await link_is(hub, "second", "current")
        conflicts = (await hub.get("/replication/links/second/conflicts"))["conflicts"]
        assert {conflict["verdict"] for conflict in conflicts} == {"collided"}
        assert "concord link set second --map" in conflicts[0]["advice"]
        assert "--prefix" in conflicts[0]["advice"]
        await change(hub, "second", prefix="two-")
        # Its name is taken by an entity of the hub: another one for this group alone.
        await eventually(lambda: carries_some(hub, second, "/schemagroups/shop/schemas/s"))
        await change(hub, "second", map={"messagegroups/shop": "messagegroups/other-shop"})
        await eventually(lambda: carries(hub, first, second))
    assert (await hub.get("/replication/links/second"))["map"] == {
        "messagegroups/shop": "messagegroups/other-shop"
    }
    assert (await hub.get("/replication/links/second"))["conflicts"] == 0


async def carries_some(target: Node, source: Node, *paths: str) -> bool:
    held = await digest_rows(target)
    return all((source.database.node.authority, path) in held for path in paths)


async def test_a_new_mapping_renames_what_is_here_and_fetches_nothing(nodes: list[Node]) -> None:
    source, target, *_ = nodes
    await write_some(source, "shop")
    await source.put(f"{XREF}/meta", {"xref": MESSAGE})
    await link(target, source, id="from")
    async with running(target):
        await eventually(lambda: carries(target, source))
        await link_is(target, "from", "current")
        applied = (await target.get("/replication/links/from"))["applied"]
        logged = len(await target.changes())
        await change(target, "from", prefix="eu-")
        await link_history_is(target, "from", "renamed", "copied")
        await source.put("/messagegroups/shop/messages/new", {})
        await eventually(lambda: carries(target, source))
    shown = await target.get("/replication/links/from")
    # The new message with its version; its group comes anew, too.
    assert shown["applied"] - applied <= 4
    assert [event["event"] for event in shown["history"]] == ["renamed", "copied"]
    assert await digest_rows(target, verify=True) == await digest_rows(target)
    assert (await target.get("/messagegroups/eu-shop/messages/m1"))["description"] == "message 1"
    reference = await target.get("/messagegroups/eu-shop/messages/ref")
    assert reference["description"] == "message 0"
    document = await target.send("GET", "/schemagroups/eu-shop/schemas/s")
    assert document.body == b'{"type": "object"}'
    assert await status(target, "/schemagroups/shop") == 404
    assert list(await target.get("/messagegroups")) == ["eu-shop"]
    told = (await target.changes())[logged:]
    by_action = {(entry.change.action, entry.change.xid) for entry in told}
    assert ("deleted", MESSAGE) in by_action
    assert ("created", MESSAGE.replace("shop", "eu-shop")) in by_action


async def test_a_name_that_is_taken_is_told_and_blocks_only_its_group(nodes: list[Node]) -> None:
    source, target, *_ = nodes
    await write_some(source, "shop")
    await target.put("/messagegroups/eu-shop", {})
    await link(target, source, id="from")
    async with running(target):
        await eventually(lambda: carries(target, source))
        await link_is(target, "from", "current")
        await change(target, "from", prefix="eu-")
        await link_is(target, "from", "refused")
        error = (await target.get("/replication/links/from")).get("error")
        assert "/messagegroups/shop cannot become /messagegroups/eu-shop" in error
        assert await status(target, "/schemagroups/eu-shop") == 200
        await change(target, "from", prefix="")
        await link_is(target, "from", "current")
    assert await carries(target, source)
    assert await status(target, "/schemagroups/shop") == 200


async def test_senseless_selections_are_refused(nodes: list[Node]) -> None:
    node, other, *_ = nodes
    pulls = {"source": other.url, "mode": "pull"}
    for selection in (
        {"prefix": "-x"},
        {"map": {"messagegroups/a": "endpoints/a"}},
        {"map": {"messagegroups/a": "messagegroups/c", "messagegroups/b": "messagegroups/C"}},
        {"types": ["/messagegroups"]},
        {"types": ["a/b/c"]},
        {"source": None, "target": other.url, "mode": "push", "prefix": "eu-"},
    ):
        answer = await node.send("POST", "/replication/links?force", {**pulls, **selection})
        assert answer.error == "invalid_attribute", selection
    for path in (
        "/replication/changes?after=x",
        "/replication/snapshot?",
        "/replication/digests?bits=8",
    ):
        assert (await node.send("GET", f"{path}&type=/messagegroups")).status == 400
