"""Links between real nodes: they bring everything, lose nothing and end where they should."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from replication.sources.notifications import HINT_SECONDS
from tests.integration.conftest import Node, start_node
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
    members,
    running,
    start_member,
    write_some,
)

SENSELESS = [
    ({}, "required_attribute_missing"),
    ({"source": "ftp://x"}, "invalid_attribute"),
    ({"source": "http://user@x"}, "invalid_attribute"),
    ({"source": "http://x", "mode": "push"}, "invalid_attribute"),
    ({"source": "http://x", "authorities": ["*", "urn:a"]}, "invalid_attribute"),
    ({"source": "http://x", "scope": ["../x"]}, "invalid_attribute"),
    ({"source": "http://x", "id": "a/b"}, "invalid_attribute"),
    ({"source": "http://x", "surprise": 1}, "unknown_attribute"),
]


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Three fresh nodes that do not know each other."""
    async with members(postgres_url, template, 3) as found:
        yield found


async def test_a_link_brings_what_is_there_and_then_every_change(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    made = await link(target, source)
    async with running(target):
        await eventually(lambda: carries(target, source))
        document = await target.send("GET", "/schemagroups/g/schemas/s")
        assert document.body == b'{"type": "object"}'
        await source.put("/messagegroups/g/messages/m0", {"description": "another"})
        await source.put("/messagegroups/h", {})
        assert (await source.send("DELETE", "/messagegroups/g/messages/m1")).status == 204
        assert (await source.send("DELETE", "/schemagroups/g")).status == 204
        await eventually(lambda: carries(target, source))
        await link_is(target, made["id"], "current")
    shown = await target.get("/messagegroups/g/messages/m0")
    assert shown["description"] == "another"
    assert (await target.send("GET", "/messagegroups/g/messages/m1")).status == 404
    assert (await target.send("GET", "/schemagroups/g/schemas/s")).status == 404
    link_now = await target.get(f"/replication/links/{made['id']}")
    assert link_now["conflicts"] == 0
    assert link_now.get("error") is None
    assert [event["event"] for event in link_now["history"]] == ["copied"]


async def test_a_recreated_entity_wins_over_the_tombstone_of_its_earlier_life(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    await source.put("/messagegroups/g", {"description": "first"})
    await link(target, source)
    async with running(target):
        await eventually(lambda: carries(target, source))
        await source.send("DELETE", "/messagegroups/g")
        await eventually(lambda: carries(target, source))
        await source.put("/messagegroups/g", {"description": "second"})
        await eventually(lambda: carries(target, source))
    assert (await target.get("/messagegroups/g"))["description"] == "second"


async def test_groups_that_come_or_go_raise_the_epoch_of_the_registry_at_the_target(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    before = (await target.get("/"))["epoch"]
    await source.put("/messagegroups/g", {})
    await link(target, source)
    async with running(target):
        await eventually(lambda: carries(target, source))
        assert (await target.get("/"))["epoch"] == before + 1
        await source.send("DELETE", "/messagegroups/g")
        await eventually(lambda: carries(target, source))
    assert (await target.get("/"))["epoch"] == before + 2


async def test_a_source_speaks_for_itself_only_unless_the_link_relays(nodes: list[Node]) -> None:
    producer, hub, edge = nodes
    await write_some(producer, "p")
    await write_some(hub, "h")
    await link(hub, producer)
    await link(edge, hub)
    async with running(hub, edge):
        await eventually(lambda: carries(hub, producer))
        await eventually(lambda: carries(edge, hub))


async def test_a_scope_brings_what_lies_below_it_and_what_lies_above(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g")
    await link(target, source, scope=["/messagegroups/g/messages/m1"])
    async with running(target):
        await eventually(lambda: is_held(target, 3))
    assert {origin for _, origin in await digest_rows(target)} == {
        "/messagegroups/g",
        "/messagegroups/g/messages/m1",
        "/messagegroups/g/messages/m1/versions/1",
    }


async def is_held(node: Node, count: int) -> bool:
    return len(await digest_rows(node)) == count


async def test_a_link_goes_on_after_its_process_was_lost_at_any_point(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await link(target, source, id="from")
    for number in range(4):
        await write_some(source, f"g{number}", messages=5)
        async with running(target):
            await eventually(lambda number=number: has_group(target, f"g{number}"))
    async with running(target):
        await eventually(lambda: carries(target, source))
    changes = await target.changes()
    created = [c.change.xid for c in changes if c.change.action == "created"]
    assert len(created) == len(set(created))


async def has_group(node: Node, id: str) -> bool:
    return (await node.send("GET", f"/messagegroups/{id}")).status == 200


async def test_a_link_whose_cursor_fell_out_of_the_log_begins_anew(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await source.put("/messagegroups/a", {})
    await link(target, source, id="from")
    async with running(target):
        await link_history_is(target, "from", "copied")
    await source.put("/messagegroups/b", {})
    await source.put("/messagegroups/c", {})
    await source.send("DELETE", "/messagegroups/a")
    await drop_log(source)
    async with running(target):
        await link_history_is(target, "from", "copied", "resynchronise", "copied")
    assert await carries(target, source)


async def test_a_source_that_came_back_as_another_instance_is_noticed(nodes: list[Node]) -> None:
    source, target, third = nodes
    await write_some(source, "g")
    await link(target, source, id="from")
    async with running(target):
        await link_history_is(target, "from", "copied")
    await execute(target, "UPDATE links SET instance = $1", third.database.node.instance)

    async with running(target):
        await link_history_is(target, "from", "compared", "another instance", "copied")


async def test_a_link_to_the_node_itself_is_refused(nodes: list[Node]) -> None:
    node = nodes[0]
    answer = await node.send("POST", "/replication/links", {"source": node.url})
    assert (answer.status, answer.error) == (400, "invalid_attribute")
    alias = node.url.replace("127.0.0.1", "localhost")
    answer = await node.send("POST", "/replication/links", {"id": "me", "source": alias})
    assert (answer.status, answer.error) == (400, "source_unusable")
    assert "this node itself" in answer.json["title"]
    answer = await node.send("POST", "/replication/links?force", {"id": "me", "source": alias})
    assert answer.status == 201
    async with running(node):
        await link_is(node, "me", "refused")
    assert "itself" in (await node.get("/replication/links/me"))["error"]


async def test_an_unreachable_source_is_shown_and_met_when_it_is_back(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await source.put("/messagegroups/a", {})
    body = {"id": "l", "source": "http://127.0.0.1:9", "mode": "pull"}
    refused = await target.send("POST", "/replication/links", body)
    assert (refused.status, refused.error) == (400, "source_unusable")
    assert "cannot be reached" in refused.json["title"]
    assert "force" in refused.json["detail"]
    assert (await target.send("POST", "/replication/links?force", body)).status == 201
    async with running(target):
        await link_is(target, "l", "waiting")
        shown = await target.get("/replication/links/l")
        assert shown["failures"] > 0
        assert "cannot be reached" in shown["error"]
        await target.put("/replication/links/l", {"source": source.url, "mode": "pull"})
        await eventually(lambda: carries(target, source))
        await link_is(target, "l", "current")
    assert (await target.get("/replication/links/l")).get("error") is None


async def test_a_new_link_tells_what_its_source_is(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await write_some(source, "g", messages=1)
    made = await link(target, source, id="first")
    authority = source.database.node.authority
    held = [row for row in (await digest_rows(source)).values() if row[1] == "false"]
    assert made["found"].pop("software").startswith("concord/")
    assert made["found"] == {
        "authority": authority,
        "digestversion": 1,
        "entities": len(held),
        "followedby": [],
    }
    async with running(target):
        await link_is(target, "first", "current")
    assert (await link(target, source, id="second"))["found"]["followedby"] == ["first"]


@pytest.mark.parametrize("path", ["/", "/somewhere"])
async def test_what_is_no_registry_is_not_followed(nodes: list[Node], path: str) -> None:
    async def greet(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get(path, greet)
    async with TestServer(app) as server:
        body = {"source": str(server.make_url(""))}
        answer = await nodes[0].send("POST", "/replication/links", body)
    assert (answer.status, answer.error) == (400, "source_unusable")
    assert "it is no xRegistry server" in answer.json["title"]
    assert (await nodes[0].get("/replication/links"))["links"] == []


async def test_a_registry_that_is_no_concord_node_is_told_apart(
    nodes: list[Node], other_database_url: str
) -> None:
    async with start_node(other_database_url) as other:
        body = {"source": other.url, "mode": "pull"}
        answer = await nodes[0].send("POST", "/replication/links", body)
    assert (answer.status, answer.error) == (400, "source_unusable")
    assert "--mode walk" in f"{answer.json}"


async def test_what_collides_is_kept_out_and_shown_while_the_rest_flows(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    await target.put("/messagegroups/G", {"description": "ours"})
    await write_some(source, "g")
    await source.put("/messagegroups/free", {})
    await link(target, source, id="from")
    async with running(target):
        await link_is(target, "from", "current")
        await eventually(lambda: has_group(target, "free"))
    assert (await target.get("/messagegroups/G"))["description"] == "ours"
    conflicts = (await target.get("/replication/links/from/conflicts"))["conflicts"]
    by_origin = {conflict["origin"]: conflict["verdict"] for conflict in conflicts}
    assert by_origin["/messagegroups/g"] == "collided"
    assert "/schemagroups/g" not in by_origin
    assert (await target.get("/replication/links/from"))["conflicts"] == len(conflicts)


async def test_events_wake_a_link_long_before_its_pull_interval(
    postgres_url: str, template: str
) -> None:
    async with members(postgres_url, template, 2, pull_interval_seconds=600) as [source, target]:
        made = await link(target, source, mode="events")
        async with running(target), running(source, deliveries=True):
            await link_is(target, made["id"], "current")
            await source.put("/messagegroups/g", {})
            await eventually(lambda: carries(target, source), 10)
            assert len(await source.get("/subscriptions")) == 1
            await target.send("DELETE", f"/replication/links/{made['id']}")

            async def is_forgotten() -> bool:
                return await source.get("/subscriptions") == []

            await eventually(is_forgotten)


async def test_many_changes_cost_the_source_few_events_for_a_link_that_follows_by_events(
    postgres_url: str, template: str
) -> None:
    async with members(postgres_url, template, 2, pull_interval_seconds=600) as [source, target]:
        made = await link(target, source, mode="events")
        async with running(target), running(source, deliveries=True):
            await link_is(target, made["id"], "current")
            [subscription] = await source.get("/subscriptions")
            assert subscription["config"] == {"interval": HINT_SECONDS}
            loop = asyncio.get_running_loop()
            began = loop.time()
            for number in range(100):
                await source.put(f"/messagegroups/g{number}", {})
            await eventually(lambda: carries(target, source), 20)
            await source_has_told_all(source)
            [subscription] = await source.get("/subscriptions")
            most = 2 + (loop.time() - began) / HINT_SECONDS
            assert 1 <= subscription["status"]["delivered"] <= most


async def source_has_told_all(source: Node) -> None:
    async def has_no_lag() -> bool:
        return all(s["status"]["lag"] == 0 for s in await source.get("/subscriptions"))

    await eventually(has_no_lag)


async def test_with_every_event_lost_a_link_converges_within_its_pull_interval(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as source,
        start_member(two, pull_interval_seconds=0.3) as target,
    ):
        made = await link(target, source, mode="events")
        async with running(target):
            await link_is(target, made["id"], "current")
            await source.put("/messagegroups/g", {})
            await eventually(lambda: carries(target, source), 10)
            [subscription] = await source.get("/subscriptions")
            await source.send("DELETE", f"/subscriptions/{subscription['id']}")

            async def is_back() -> bool:
                return len(await source.get("/subscriptions")) == 1

            await eventually(is_back)


async def test_notifications_are_consented_to_for_links_that_wait_for_them(
    nodes: list[Node],
) -> None:
    assert (await nodes[0].send("POST", "/notifications?link=gone", {})).status == 410
    asking = {"WebHook_Request_Origin": "elsewhere", "WebHook_Request_Rate": "60"}
    refused = await nodes[0].send("OPTIONS", "/notifications?link=gone", **asking)
    assert "WebHook-Allowed-Origin" not in refused.headers
    made = await link(nodes[0], nodes[1], mode="events")
    granted = await nodes[0].send("OPTIONS", f"/notifications?link={made['id']}", **asking)
    assert granted.headers["WebHook-Allowed-Origin"] == "*"
    assert granted.headers["WebHook-Allowed-Rate"] == "*"


async def test_a_link_that_makes_no_sense_is_refused(database_url: str) -> None:
    async with start_member(database_url) as member:
        for body, error in SENSELESS:
            answer = await member.send("POST", "/replication/links", body)
            assert (answer.status, answer.error) == (400, error), body


async def test_links_are_listed_replaced_and_removed(nodes: list[Node]) -> None:
    node, source, _ = nodes
    assert (await link(node, source, id="b"))["state"] == "new"
    await link(node, source, id="a", scope=["/messagegroups"])
    twice = await node.send("POST", "/replication/links", {"id": "a", "source": source.url})
    assert twice.status == 400
    listed = (await node.get("/replication/links"))["links"]
    assert [each["id"] for each in listed] == ["a", "b"]
    replaced = await node.put("/replication/links/a", {"source": source.url, "mode": "events"})
    assert (replaced["mode"], replaced["scope"]) == ("events", [])
    assert (await node.send("DELETE", "/replication/links/a")).status == 200
    assert (await node.send("GET", "/replication/links/a")).status == 404
    assert (await node.send("PUT", "/replication/links/a", {"source": source.url})).status == 404


async def test_a_link_brings_cross_references_and_what_was_validated(nodes: list[Node]) -> None:
    """A resource that becomes a cross reference here does so there, and back again."""
    source, target, _ = nodes
    await write_some(source, "g")
    shown, message = "/messagegroups/g/messages/shown", "/messagegroups/g/messages/m0"
    await source.put(shown, {"description": "own"})
    await link(target, source)
    async with running(target):
        await eventually(lambda: carries(target, source))
        schema = await target.get("/schemagroups/g/schemas/s$details")
        assert schema["formatvalidated"] is True
        await source.put(f"{shown}/meta", {"xref": message})
        await eventually(lambda: carries(target, source))
        assert (await target.get(shown))["description"] == "message 0"
        assert (await target.get(f"{shown}/meta"))["xref"] == message
        await source.put(shown, {"description": "again", "meta": {}})
        await eventually(lambda: carries(target, source))
        assert (await target.get(shown))["description"] == "again"


async def test_a_link_that_has_everything_has_no_lag_however_long_nothing_happens(
    nodes: list[Node],
) -> None:
    """Its lag grows from when its source was last found to have nothing new once that can't be
    known any more, or there is more."""
    source, target, _ = nodes
    made = await link(target, source)
    assert (made.get("lag"), made.get("confirmed")) == (None, None)
    async with running(target):
        await link_is(target, made["id"], "current")
    await execute(target, "UPDATE links SET currentat = now() - interval '1 hour'")
    idle = await target.get(f"/replication/links/{made['id']}")
    assert idle["lag"] == 0
    assert idle["confirmed"] >= 3600
    await execute(target, "UPDATE links SET state = 'waiting'")
    waiting = await target.get(f"/replication/links/{made['id']}")
    assert waiting["lag"] == pytest.approx(waiting["confirmed"], abs=1)
    await source.put("/messagegroups/g", {})
    async with running(target):
        await link_is(target, made["id"], "current")
    current = await target.get(f"/replication/links/{made['id']}")
    assert current["lag"] == 0
    assert current["confirmed"] < 3600


async def test_a_link_stops_when_its_authority_has_more_entities_here_than_a_link_may_have(
    postgres_url: str, template: str
) -> None:
    """However few of them come at a time."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as source,
        start_member(two, link_copies=10) as target,
    ):
        await link(target, source, id="from")
        async with running(target):
            await link_is(target, "from", "current")
            for number in range(14):
                await source.put(f"/messagegroups/g{number}")
            await link_is(target, "from", "refused")
        shown = await target.get("/replication/links/from")
        assert "CONCORD_LINK_COPIES" in shown["error"]
        assert (await target.get("/"))["messagegroupscount"] > 10
