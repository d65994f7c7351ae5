"""Servers of the older drafts are walked by those APIs alone; here they are nodes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from replication.routes import routes
from replication.sources.catalogwalk import Walked
from tests.integration.conftest import Node, start_node
from tests.integration.federation import databases, execute
from tests.integration.foreignserver import ForeignServer
from tests.integration.test_documents import imported
from tests.integration.walking import Walker, replicas, walking

HERE = Path(__file__).parent.parent / "documents"
DOCUMENTS = ("codegen/kafka-producer-endpoint.xreg.json", "spec/contoso-erp-jsons07.xreg.json")
CATALOG = "/messagecatalog"
REGISTRY = "/registry/0.4"
TYPED = {"attributes": {"type": {"value": "m"}}}
DIALECTS = {"messagecatalog": CATALOG, "discovery": "/services", "registry04": REGISTRY}
STAMP = "2026-01-01T00:00:00Z"
SERVED = (
    *("epoch", "self", "url", "authority", "origin", "subscriptionurl"),
    *("definitionsURL", "schemasURL", "versionsURL"),
)


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one) as source,
        start_node(two, routes=routes) as target,
    ):
        yield source, target


@contextlib.asynccontextmanager
async def server_of(node: Node, *dialects: str) -> AsyncIterator[ForeignServer]:
    """A server that has some APIs, which are the node's."""
    async with hidden_but(node, [DIALECTS[each] for each in dialects]) as server:
        yield server


@contextlib.asynccontextmanager
async def hidden_but(node: Node, roots: list[str]) -> AsyncIterator[ForeignServer]:
    """A server that shows of a node what is below these paths at the time of a request."""

    async def forward(request: web.Request) -> web.Response:
        if not any(request.path.startswith(root) for root in roots):
            raise web.HTTPNotFound
        async with session.get(f"{node.url}{request.raw_path}", allow_redirects=False) as answer:
            kept = {n: answer.headers[n] for n in ("Content-Type", "Link") if n in answer.headers}
            return web.Response(body=await answer.read(), status=answer.status, headers=kept)

    app = web.Application()
    app.router.add_get("/{path:.*}", forward)
    async with aiohttp.ClientSession() as session, TestServer(app) as server:
        yield ForeignServer(url=str(server.make_url("")).rstrip("/"))


@contextlib.asynccontextmanager
async def walker_of(
    pair: tuple[Node, Node], dialect: str, **definition: Any
) -> AsyncIterator[Walker]:
    source, target = pair
    async with (
        server_of(source, dialect) as server,
        walking(target, server, **definition) as walker,
    ):
        yield walker


async def shown(node: Node, path: str) -> Any:
    """What is at a path, without what the server sets: of one entity, or of each in a list."""
    found = await node.get(path)
    if isinstance(found, list):
        return [without(each, *SERVED) for each in sorted(found, key=lambda each: each["id"])]
    return without(found, *SERVED)


def without(value: Any, *names: str) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        name: without(each, *names) if isinstance(each, dict) else each
        for name, each in value.items()
        if name not in names
    }


async def add(target: Node, source: str, **definition: Any) -> Any:
    return (await target.send("POST", "/replication/links", {"source": source, **definition})).json


async def test_a_servers_api_is_found_unless_it_is_named(pair: tuple[Node, Node]) -> None:
    source, target = pair
    for dialect, path in DIALECTS.items():
        async with server_of(source, dialect) as server:
            found = await add(target, server.url, mode="walk")
            assert (found["mode"], found["found"]["authority"]) == ("walk", server.url)
            assert found["dialect"] == dialect, "it is read by this API from then on"
            named = await add(target, server.url + path.removesuffix("/services"), mode="walk")
            assert named["found"]["software"] == found["found"]["software"]
            assert (await add(target, server.url, mode="walk", dialect=dialect))[
                "dialect"
            ] == dialect
            other = {"messagecatalog": "discovery"}.get(dialect, "messagecatalog")
            refused = await add(target, server.url, mode="walk", dialect=other)
            assert refused["type"].endswith("source_unusable")
            # Without a mode, a server that offers no replication is walked by what it has.
            assert (await add(target, server.url))["mode"] == "walk"
    refused = await add(target, source.url, dialect="discovery")
    assert "has none" in refused["title"]


async def test_a_scope_and_a_dry_run_hold_for_every_api(pair: tuple[Node, Node]) -> None:
    source, target = pair
    # Services have UUIDs.
    wanted, other = str(uuid4()), str(uuid4())
    for gid in (wanted, other):
        message = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "m"}}}
        group = {"envelope": "CloudEvents/1.0", "messages": {"m": message}}
        await source.put(f"/messagegroups/{gid}", group)
        await source.put(
            f"/endpoints/{gid}",
            {"usage": ["subscriber"], "protocol": "HTTP", "messages": {"m": {}}},
        )
    for dialect in DIALECTS:
        groups = "endpoints" if dialect == "discovery" else "messagegroups"
        scope = [f"/{groups}/{wanted}"]
        async with server_of(source, dialect) as server:
            definition = {"source": server.url, "mode": "walk", "scope": scope, "prefix": dialect}
            path = "/replication/links?dryrun"
            tried = (await target.send("POST", path, definition)).json
            assert tried["isdecided"], tried
            async with walking(target, server, scope=scope, prefix=dialect) as walker:
                await walker.walk()
                assert await walker.conflicts() == {}
                brought = await replicas(target, server.url)
                assert {xid.split("/")[2] for xid in brought} == {wanted}
                assert tried["outcomes"]["created"]["number"] == len(brought)
            await target.send("DELETE", "/replication/links/foreign")


async def walk_brings_nothing(walker: Walker) -> None:
    logged = await walker.node.logged()
    again: Walked = await walker.walk()
    assert (again.changes, again.deleted) == (0, 0)
    assert await walker.node.logged() == logged


async def test_a_message_catalog_is_followed(pair: tuple[Node, Node]) -> None:
    source, target = pair
    # Their definitions have pointers, which a Message Catalog takes from nobody.
    for document in DOCUMENTS:
        assert (await imported(source, HERE / document, migrate=True)).is_imported
    await source.put(f"{CATALOG}/g", {"format": "CloudEvents", "description": "orders", "own": 1})
    definitions = f"{CATALOG}/g/messagedefinitions"
    for text in ("one", "two", "three"):
        body = {"id": "m", "description": text, "definition": TYPED, "extra": {"n": [text]}}
        assert (await source.send("POST", definitions, body)).status == 201
    async with walker_of(pair, "messagecatalog") as walker:
        await walker.walk()
        assert await walker.conflicts() == {}
        groups = await source.get(CATALOG)
        assert len(groups) > 1
        assert await target.get(CATALOG) == groups
        for gid in groups:
            path = f"{CATALOG}/{gid}"
            assert await shown(target, path) == await shown(source, path)
            ids = await source.get(f"{path}/messagedefinitions")
            assert await target.get(f"{path}/messagedefinitions") == ids
            for id in ids:
                definition = f"{path}/messagedefinitions/{id}"
                numbers = await source.get(f"{definition}/versions")
                assert await target.get(f"{definition}/versions") == numbers
                for end in ("", *(f"/versions/{number}" for number in numbers)):
                    expected = await shown(source, definition + end)
                    assert await shown(target, definition + end) == expected
        await walk_brings_nothing(walker)
        assert (await source.send("DELETE", f"{definitions}/m/versions/1")).status == 204
        assert (
            await source.send("POST", definitions, {"id": "m", "definition": TYPED})
        ).status == 201
        await source.put(f"{CATALOG}/g", {"format": "CloudEvents", "description": "all orders"})
        await walker.walk()
        assert await target.get(f"{definitions}/m/versions") == [2, 3, 4]
        assert await shown(target, f"{definitions}/m") == await shown(source, f"{definitions}/m")
        assert (await target.get(f"{CATALOG}/g"))["description"] == "all orders"
        assert (await source.send("DELETE", f"{CATALOG}/g")).status == 204
        await walker.walk()
        assert "g" not in await target.get(CATALOG)


async def test_a_discovery_endpoint_is_followed(pair: tuple[Node, Node]) -> None:
    source, target = pair
    for document in DOCUMENTS:
        assert (await imported(source, HERE / document, migrate=True)).is_imported
    events = [{"type": f"com.example.{name}", "description": name} for name in "ba"]
    service = {
        "id": str(uuid4()),
        "epoch": 7,
        "name": "orders",
        "protocols": ["HTTP"],
        "specversions": ["1.0"],
        "docsurl": "https://example.com/orders",
        "events": events,
        "own": {"deep": [1, 2]},
    }
    assert (await source.send("POST", "/services?import", [service])).status == 201
    async with walker_of(pair, "discovery") as walker:
        await walker.walk()
        assert await walker.conflicts() == {}
        assert len(await source.get("/services")) >= 1
        assert await shown(target, "/services") == await shown(source, "/services")
        await walk_brings_nothing(walker)
        created = (await target.get(f"/endpoints/{service['id']}"))["createdat"]
        changed = {**service, "events": events[:1], "docsurl": None}
        assert (
            await source.send("PUT", f"/services/{service['id']}?import", changed)
        ).status == 200
        await walker.walk()
        assert await shown(target, "/services") == await shown(source, "/services")
        endpoint = await target.get(f"/endpoints/{service['id']}")
        assert (endpoint["createdat"], endpoint["modifiedat"] > created) == (created, True)
        assert (await source.send("DELETE", f"/services/{service['id']}")).status == 200
        await walker.walk()
        assert await shown(target, "/services") == await shown(source, "/services")


async def test_a_registry_of_edition_0_4_is_followed(pair: tuple[Node, Node]) -> None:
    source, target = pair
    for document in DOCUMENTS:
        assert (await imported(source, HERE / document, migrate=True)).is_imported
    documents = f"{REGISTRY}/schemaGroups/s/schemas"
    assert (await source.send("POST", f"{REGISTRY}/schemaGroups", {"id": "s"})).status == 201
    for text in (b'{ "type":  "object" }', b"\x00\xff", b"{}"):
        path = f"{documents}/d" if text != b'{ "type":  "object" }' else documents
        answer = await source.request(
            "POST",
            path,
            body=text,
            headers={
                "Content-Type": "application/schema+json",
                "Registry-id": "d",
                "Registry-format": "some",
            },
        )
        assert answer.status == 201, answer.body
    async with walker_of(pair, "registry04") as walker:
        await walker.walk()
        assert await walker.conflicts() == {}
        for groups, resources in (
            ("endpoints", "definitions"),
            ("definitionGroups", "definitions"),
            ("schemaGroups", "schemas"),
        ):
            expected = await source.get(f"{REGISTRY}/{groups}")
            assert expected
            assert without(await target.get(f"{REGISTRY}/{groups}"), *SERVED) == without(
                expected, *SERVED
            )
            for gid in expected:
                members = f"{REGISTRY}/{groups}/{gid}/{resources}"
                assert await shown(target, members) == await shown(source, members)
                for rid in await source.get(members):
                    versions = f"{members}/{rid}/versions"
                    assert await shown(target, versions) == await shown(source, versions)
        for vid in await source.get(f"{documents}/d/versions"):
            there = await source.send("GET", f"{documents}/d/versions/{vid}")
            here = await target.send("GET", f"{documents}/d/versions/{vid}")
            assert here.body == there.body
            assert here.headers["Content-Type"] == there.headers["Content-Type"]
        await walk_brings_nothing(walker)
        assert (await source.send("DELETE", f"{documents}/d/versions/2")).status == 200
        await walker.walk()
        assert {*await target.get(f"{documents}/d/versions")} == {"1", "3"}
        assert (await source.send("DELETE", f"{REGISTRY}/schemaGroups/s")).status == 200
        await walker.walk()
        assert "s" not in await target.get(f"{REGISTRY}/schemaGroups")


# What a hostile server may show in place of each thing.
ODD: list[Any] = [None, 1, True, "x", "../up", "a" * 300, [], [[]], {}, {"a": {"b": [1]}}]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_a_server_should_not_show_is_a_conflict_and_the_rest_flows(
    pair: tuple[Node, Node], dialect: str
) -> None:
    _, target = pair
    goods: dict[str, dict[str, Any]] = {
        "messagecatalog": {"id": "good", "format": "CloudEvents", "createdtimeutc": STAMP},
        "discovery": {"id": str(uuid4()), "name": "n", "protocols": ["HTTP"]},
        "registry04": {"id": "good", "specVersion": "0.4", "format": "CloudEvents"},
    }
    good = goods[dialect]
    names = ["format", "definition", "description", "metadata", "createdtimeutc", "createdOn"]
    names += ["tags", "epoch", "events", "specversions", "config", "usage", "schema", "id"]
    odd = [{**good, name: value} for name in names for value in ODD]
    ids = [f"odd{number}" for number in range(len(odd))]

    async def answer(request: web.Request) -> web.Response:
        path = request.path.removeprefix(DIALECTS[dialect])
        if not request.path.startswith(DIALECTS[dialect]):
            raise web.HTTPNotFound
        by_id = {"good": good, **dict(zip(ids, odd, strict=True))}
        last = path.rpartition("/")[2]
        if dialect == "discovery":
            found: Any = [good, *odd, *ODD]
        elif dialect == "registry04":
            found = dict(good) if not path.strip("/") else {"none": None, "../up": {}}
            found |= by_id if {*path.split("/")[2::2]} <= {"good"} else {}
        elif not path.strip("/") or last == "messagedefinitions":
            found = ["good", *ids] if not path.strip("/") or "good" in path else [*ODD]
        else:
            found = (
                [1, 2, 3, -5, 10**20, None, "x"]
                if last == "versions"
                else by_id.get(last, odd[len(path)])
            )
            found = [] if last == "3" else found
        return web.json_response(found)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        foreign = ForeignServer(url=str(server.make_url("")).rstrip("/"))
        async with walking(target, foreign, dialect=dialect) as walker:
            await walker.walk()
            assert await walker.conflicts()
            brought = await replicas(target, foreign.url)
            assert any(xid.endswith(str(good["id"])) for xid in brought), brought


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_an_api_cannot_show_is_not_gone(pair: tuple[Node, Node], dialect: str) -> None:
    source, target = pair
    await source.put("/messagegroups/g", {"messages": {"m": {}}})
    await source.put("/endpoints/e", {"usage": ["producer"], "messages": {"m": {}}})
    await source.put("/schemagroups/s")
    roots = ["/"]
    async with hidden_but(source, roots) as server, walking(target, server) as walker:
        await walker.walk()
        # A link that was added before its server could be asked looks for an API each time.
        await execute(target, "UPDATE links SET definition = definition - 'dialect'")
        await walker.begin_anew()
        before = {xid for xid in await replicas(target, server.url) if xid != "/"}
        roots[:] = [DIALECTS[dialect]]
        await walker.walk()
        kept = {
            "messagecatalog": ("/endpoints", "/schemagroups"),
            "discovery": ("/messagegroups", "/schemagroups"),
            "registry04": ("/messagegroups", "/endpoints", "/schemagroups"),
        }[dialect]
        left = {*await replicas(target, server.url)}
        assert {xid for xid in before if xid.startswith(kept)} <= left
