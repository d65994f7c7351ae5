"""Links that rewrite addresses of endpoints: readers see those of here, followers the originals."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from catalog import dialects
from catalog.api.app import create_app
from tests.integration.conftest import Node, NodeClient
from tests.integration.federation import (
    accept,
    carries,
    databases,
    digest_rows,
    eventually,
    execute,
    lines,
    link,
    link_history_is,
    link_is,
    own_rows,
    push,
    running,
    start_member,
    write_some,
)
from tests.integration.test_signed_entities import audit, sign, trust
from tests.integration.test_walk_of_nodes import hidden
from tests.integration.walking import walking

HUB = {
    "amqp://broker.a.internal:5672": "amqps://bridge.hub:5673",
    "https://api.a.internal": "https://bridge.hub/a",
    "kafka://k1.a.internal": "kafka://bridge.hub",
}
EDGE = {"https://api.a.internal/events": "https://edge.local"}
ENDPOINTS: dict[str, dict[str, Any]] = {
    "http": {
        "usage": ["subscriber"],
        "protocol": "HTTP",
        "protocoloptions": {"endpoints": [{"uri": "https://api.a.internal/events"}]},
    },
    "amqp": {
        "usage": ["subscriber", "producer"],
        "protocol": "AMQP/1.0",
        "protocoloptions": {
            "node": "orders",
            "endpoints": [{"uri": "amqp://broker.a.internal:5672/x"}, {"uri": "amqp://other"}],
        },
        "subscriptionurl": "https://api.a.internal/subscriptions",
    },
    "kafka": {
        "usage": ["consumer"],
        "protocol": "KAFKA",
        "protocoloptions": {
            "topic": "orders",
            "endpoints": [{"bootstrap.servers": ["k1.a.internal:9092", "k2.a.internal:9092"]}],
        },
    },
}
SHOWN = {
    "http": ["https://api.a.internal/events"],
    "amqp": ["amqp://broker.a.internal:5672/x", "amqp://other"],
    "kafka": ["k1.a.internal:9092", "k2.a.internal:9092"],
}
AT_HUB = {
    "http": ["https://bridge.hub/a/events"],
    "amqp": ["amqps://bridge.hub:5673/x", "amqp://other"],
    "kafka": ["bridge.hub:9092", "k2.a.internal:9092"],
}
AT_EDGE = {**SHOWN, "http": ["https://edge.local"]}


Start = Callable[[int], Awaitable[list[Node]]]


@pytest.fixture
async def start(postgres_url: str, template: str) -> AsyncIterator[Start]:
    """Starts fresh nodes that do not know each other."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(count: int) -> list[Node]:
            names = await stack.enter_async_context(databases(postgres_url, template, count))
            members = [start_member(name, pull_interval_seconds=1) for name in names]
            return [await stack.enter_async_context(member) for member in members]

        yield start


async def fill(source: Node) -> None:
    """Endpoints of several protocols, one with a message that refers to another one."""
    await write_some(source, "shop")
    for id, endpoint in ENDPOINTS.items():
        await source.put(f"/endpoints/{id}", endpoint)
    reference = {"xref": "/messagegroups/shop/messages/m0"}
    await source.put("/endpoints/http/messages/ref/meta", reference)


async def addresses(node: Node, prefix: str = "") -> dict[str, list[str]]:
    """The addresses of endpoints as the API shows them."""
    shown = await node.get("/endpoints")
    found = {}
    for id in ENDPOINTS:
        entries = shown[f"{prefix}{id}"]["protocoloptions"]["endpoints"]
        found[id] = [each for e in entries for each in e.get("bootstrap.servers") or [e["uri"]]]
    return found


async def sent(node: Node, authority: str) -> dict[str, Any]:
    """The copies of an authority that a node sends to followers, by origin."""
    told = await lines(node, "/replication/snapshot")
    return {
        line["origin"]: {name: line.get(name) for name in ("attributes", "digest", "signature")}
        for line in told
        if line.get("authority") == authority
    }


async def rewrite(node: Node, id: str, rules: dict[str, str]) -> None:
    answer = await node.send("PATCH", f"/replication/links/{id}", {"addresses": rules})
    assert answer.status == 200, answer.body
    assert answer.json["addresses"] == rules


async def test_readers_see_the_addresses_of_here_and_followers_the_signed_originals(
    start: Start,
) -> None:
    """The hub pulls under other names, an edge follows the hub by events, a target is pushed to."""
    source, hub, edge, pushed = nodes = await start(4)
    authority = source.database.node.authority
    key = await sign(source)
    await fill(source)
    await trust(hub, authority, key)
    await trust(edge, authority, key)
    await link(hub, source, id="a", addresses=HUB, prefix="a-")
    await link(edge, hub, id="hub", mode="events", authorities=[authority], addresses=EDGE)
    await accept(pushed, source, id="a", addresses=HUB)
    await push(source, pushed)
    async with running(*nodes), running(hub, deliveries=True):
        for target in (hub, edge, pushed):
            await eventually(lambda node=target: carries(node, source))
        amqp: dict[str, Any] = {**ENDPOINTS["amqp"], "description": "later"}
        await source.put("/endpoints/amqp", amqp)
        for target in (hub, edge, pushed):
            await eventually(lambda node=target: carries(node, source))
        await link_is(edge, "hub", "current")
    assert await addresses(source) == SHOWN
    assert await addresses(hub, "a-") == AT_HUB
    assert await addresses(edge) == AT_EDGE
    assert await addresses(pushed) == AT_HUB
    expected = await own_rows(source)
    for node in (hub, edge, pushed):
        held = await digest_rows(node, verify=True)
        assert {origin: held[origin] for origin in expected} == expected
        assert await sent(node, authority) == await sent(source, authority)
    for node in (hub, edge):
        assert (await audit(node))[authority] == {"verified": len(expected)}
    for node, id in ((hub, "a"), (edge, "hub"), (pushed, "a")):
        assert (await node.get(f"/replication/links/{id}"))["conflicts"] == 0
    app = create_app(hub.context.shared, dialects.routes)
    async with NodeClient.of(app, hub.context.settings) as client:
        await check_readers(Node(client, hub.context))


async def check_readers(hub: Node) -> None:
    """Filters, exports and the older APIs of a node show what its own API shows."""
    by_url = "/endpoints?filter=subscriptionurl=https://{}/subscriptions"
    assert list(await hub.get(by_url.format("bridge.hub/a"))) == ["a-amqp"]
    assert await hub.get(by_url.format("api.a.internal")) == {}
    by_uri = "/endpoints?filter=protocoloptions.endpoints[*].uri=amqps://bridge.hub:5673/x"
    assert list(await hub.get(by_uri)) == ["a-amqp"]
    services = {each["name"]: each["subscriptionurl"] for each in await hub.get("/services")}
    assert services["a-http"] == "https://bridge.hub/a/events"
    assert services["a-amqp"] == "https://bridge.hub/a/subscriptions"
    old = await hub.get("/registry/0.4/endpoints/a-http")
    assert old["config"]["endpoints"] == ["https://bridge.hub/a/events"]
    exported = (await hub.send("GET", "/export")).body
    assert b"broker.a.internal" not in exported
    assert b"bridge.hub:5673" in exported
    reference = await hub.get("/endpoints/a-http/messages/ref")
    assert reference["description"] == "message 0"


async def test_changed_rules_rewrite_what_is_here_and_without_rules_it_is_as_it_was(
    start: Start,
) -> None:
    source, hub, edge = await start(3)
    authority = source.database.node.authority
    await fill(source)
    await link(hub, source, id="a")
    await link(edge, hub, id="hub", authorities=[authority])
    async with running(hub, edge):
        await eventually(lambda: carries(edge, source))
        await link_is(hub, "a", "current")
        applied = (await hub.get("/replication/links/a"))["applied"]
        logged, at_edge = len(await hub.changes()), len(await edge.changes())
        await rewrite(hub, "a", HUB)
        await link_history_is(hub, "a", "readdressed", "copied")
        assert await addresses(hub) == AT_HUB
        told = {e.change.xid: e.change for e in (await hub.changes())[logged:]}
        assert {(c.action, c.changed) for c in told.values()} == {
            ("updated", ("protocoloptions",)),
            ("updated", ("protocoloptions", "subscriptionurl")),
        }
        assert told.keys() == {f"/endpoints/{id}" for id in ENDPOINTS}
        await rewrite(hub, "a", {"amqp://other": "amqp://bridge.hub"})
        await link_history_is(hub, "a", "readdressed", "readdressed", "copied")
        at_other = ["amqp://broker.a.internal:5672/x", "amqp://bridge.hub"]
        assert await addresses(hub) == {**SHOWN, "amqp": at_other}
        assert (await hub.get("/replication/links/a"))["applied"] == applied
        # A repair keeps to the rules.
        await execute(
            hub,
            'UPDATE entities SET attributes = attributes || \'{"channel": "x"}\' '
            "WHERE xid = '/endpoints/amqp'",
        )
        origins = {"origins": [{"authority": authority, "origin": "/endpoints/amqp"}]}
        answer = await hub.send("POST", "/replication/repair", origins)
        assert answer.json["verdicts"] == {"applied": 1}, answer.body
        assert "channel" not in await hub.get("/endpoints/amqp")
        assert (await addresses(hub))["amqp"] == at_other
        await rewrite(hub, "a", {})
        await link_history_is(hub, "a", *["readdressed"] * 3, "copied")
        assert await addresses(hub) == SHOWN
        async with hub.database.acquire() as connection:
            query = "SELECT count(*) FROM entities WHERE replaced IS NOT NULL"
            assert await connection.fetchval(query) == 0
        # The edge has read all of that once it has what comes after it.
        await source.put("/schemagroups/after", {})
        await eventually(lambda: carries(edge, source))
        later = (await edge.changes())[at_edge:]
    assert {entry.change.xid for entry in later} == {"/", "/schemagroups/after"}
    assert await addresses(edge) == SHOWN
    assert await digest_rows(hub, verify=True) == await digest_rows(hub)


async def test_a_walked_server_with_rules_is_read_again_without_changes(start: Start) -> None:
    source, target = await start(2)
    await fill(source)
    async with hidden(source) as way, walking(target, way, addresses=HUB) as walker:
        await walker.walk()
        assert await addresses(target) == AT_HUB
        before, logged = await digest_rows(target, verify=True), await target.logged()
        await walker.begin_anew()
        assert (await walker.walk()).changes == 0
        assert await digest_rows(target) == before
        assert await target.logged() == logged


async def test_senseless_rules_and_rules_for_what_is_sent_are_refused(start: Start) -> None:
    [node] = await start(1)
    other = "https://other.example.com"
    pulls = {"source": other, "mode": "pull"}
    for definition in (
        {"addresses": {"broker:5672": "amqp://b"}},
        {"addresses": {"amqp://a": f"amqp://{'b' * 250}"}},
        {"addresses": {f"amqp://a{n}": "amqp://b" for n in range(101)}},
        {"addresses": [["amqp://a", "amqp://b"]]},
        {"source": None, "target": other, "mode": "push", "addresses": HUB},
    ):
        answer = await node.send("POST", "/replication/links?force", {**pulls, **definition})
        assert answer.error == "invalid_attribute", definition
