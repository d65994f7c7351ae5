"""Links that write to servers of the older drafts: here other nodes, by those APIs alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from replication.routes import routes
from tests.integration.conftest import Node, start_node
from tests.integration.federation import databases, link_history_is, running
from tests.integration.foreigntarget import (
    ForeignTarget,
    conflicts,
    foreign,
    has_written_all,
    write_to,
)

CATALOG = "/messagecatalog"
REGISTRY = "/registry/0.4"
TYPED = {"type": {"value": "t"}}
EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": TYPED}
SHARED = {**EVENT, "envelopemetadata": {"type": {"value": "shared"}}}
SUBSCRIBABLE = {"usage": ["subscriber"], "protocol": "HTTP", "envelope": "CloudEvents/1.0"}


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, ForeignTarget]]:
    """A node with links, and a server; both have the dialects, to be compared."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(
            one,
            routes=routes,
            pull_interval_seconds=0.3,
            backoff_initial_seconds=0.05,
            backoff_cap_seconds=0.2,
        ) as source,
        start_node(two) as other,
        foreign(other) as target,
    ):
        yield source, target


async def shown(node: Node, path: str, *hidden: str) -> Any:
    """What a GET shows, without what the server sets."""
    found = await node.get(path)
    return {n: v for n, v in found.items() if n not in hidden} if isinstance(found, dict) else found


async def test_message_groups_and_versions_are_in_a_message_catalog(
    pair: tuple[Node, ForeignTarget],
) -> None:
    source, target = pair
    there = target.node
    group = {"envelope": "CloudEvents/1.0", "description": "orders"}
    await source.put("/messagegroups/g", {**group, "messages": {"t": {**EVENT, "name": "T"}}})
    await source.put("/messagegroups/g/messages/t/versions/2", {**EVENT, "description": "two"})
    await source.put("/messagegroups/g/messages/u/versions/v1", EVENT)
    await source.put("/schemagroups/none", {})
    await there.put(f"{CATALOG}/theirs", {"format": "AMQP"})
    made = await write_to(source, target.url, dialect="messagecatalog")
    assert made["found"] == {
        "authority": f"{target.url}{CATALOG}",
        "software": "Message Catalog",
        "followedby": [],
    }
    async with running(source):
        await has_written_all(source)
        found = await conflicts(source)
        assert found.pop("/messagegroups/g/messages/u/versions/v1") == (
            "invalid",
            "a Message Catalog has versions with numbers only",
        )
        # A message group without a format can be none there.
        assert found.pop("/messagegroups/last")[0] == "refused"
        assert found == {}
        times = ("createdtimeutc", "updatedtimeutc", "authority")
        for path in ("/g", "/g/messagedefinitions/t", "/g/messagedefinitions/t/versions/1"):
            expected = await shown(source, CATALOG + path, *times)
            assert await shown(there, CATALOG + path, *times) == expected
        version = await there.get(f"{CATALOG}/g/messagedefinitions/t")
        assert version["authority"] == source.database.node.authority
        # What has changed in place cannot be changed there; a new version can be added.
        await source.put("/messagegroups/g/messages/t/versions/2", {**EVENT, "description": "2"})
        await source.put("/messagegroups/g/messages/t/versions/5", EVENT)
        await source.put("/messagegroups/g", {**group, "description": "all orders"})
        await has_written_all(source)
        [*_, (verdict, detail)] = [
            each for xid, each in (await conflicts(source)).items() if xid.endswith("t/versions/2")
        ]
        assert (verdict, "changes no version" in detail) == ("invalid", True)
        assert await there.get(f"{CATALOG}/g/messagedefinitions/t/versions") == [1, 2, 5]
        assert (await there.get(f"{CATALOG}/g"))["description"] == "all orders"
        target.requests.clear()
        assert (await source.send("POST", "/replication/links/out/reset", {})).status == 200
        await link_history_is(source, "out", "compared", "compared")
        assert {path for _, path in target.writes} <= {f"{CATALOG}/last"}
        assert (await source.send("DELETE", "/messagegroups/g/messages/t/versions/1")).status == 204
        await has_written_all(source)
        assert await there.get(f"{CATALOG}/g/messagedefinitions/t/versions") == [2, 5]
        assert (await source.send("DELETE", "/messagegroups/g")).status == 204
        await has_written_all(source)
    assert await there.get(CATALOG) == ["theirs"]


async def test_services_are_imported_into_a_discovery_endpoint(
    pair: tuple[Node, ForeignTarget],
) -> None:
    source, target = pair
    there = target.node
    await source.put("/messagegroups/shared", {"messages": {"s": {**SHARED, "description": "S"}}})
    orders = {**SUBSCRIBABLE, "name": "orders", "messagegroups": ["/messagegroups/shared"]}
    await source.put("/endpoints/orders", {**orders, "messages": {"own": EVENT}})
    await source.put("/endpoints/taken", {**SUBSCRIBABLE, "name": "Taken"})
    await source.put("/endpoints/producer", {**SUBSCRIBABLE, "usage": ["producer"]})
    answer = await there.send(
        "POST", "/services", [{"name": "taken", "specversions": ["1.0"], "protocols": ["HTTP"]}]
    )
    assert answer.status == 201, answer.body
    timed = {"id": str(uuid4()), "epoch": 2**42, "name": "timed", "protocols": ["HTTP"]}
    assert (await source.send("POST", "/services?import", [timed])).status == 201
    await write_to(source, target.url, dialect="discovery")
    async with running(source):
        await has_written_all(source)
        found = await conflicts(source)
        assert [*found] == ["/endpoints/taken"]
        assert found["/endpoints/taken"][0] == "refused"
        assert "taken" in found["/endpoints/taken"][1].lower()
        [service] = [await source.get("/services?name=orders")]
        copied = await there.get("/services?name=orders")
        server = ("epoch", "url")
        assert {n: v for n, v in copied.items() if n not in server} == {
            n: v for n, v in service.items() if n not in server
        }
        assert copied["epoch"] > service["epoch"]
        assert (await there.get("/services?name=timed"))["epoch"] > 2**42
        # A message of a shared group changes the service, too.
        await source.put("/messagegroups/shared/messages/s", {**SHARED, "description": "changed"})
        await has_written_all(source)
        events = (await there.get("/services?name=orders"))["events"]
        assert "changed" in {event.get("description") for event in events}
        assert {path for _, path in target.writes} == {"/services"}
        epoch = (await there.get("/services?name=orders"))["epoch"]
        assert (await source.send("POST", "/replication/links/out/reset", {})).status == 200
        await link_history_is(source, "out", "compared", "compared")
        assert (await there.get("/services?name=orders"))["epoch"] == epoch
        await source.send("PATCH", "/endpoints/orders", {"usage": ["producer"]})
        await has_written_all(source)
        names = {each["name"] for each in await there.get("/services")}
        assert names == {"taken", "timed"}


async def test_all_is_in_a_registry_of_edition_0_4(pair: tuple[Node, ForeignTarget]) -> None:
    source, target = pair
    there = target.node
    await source.put("/endpoints/e", {**SUBSCRIBABLE, "messages": {"m": {**EVENT, "name": "M"}}})
    versions = {"1": {**EVENT, "labels": {"team": "a"}}, "2": {**EVENT, "name": "two"}}
    events = {"envelope": "CloudEvents/1.0"}
    group = {**events, "labels": {"k": "v"}, "messages": {"t": {"versions": versions}}}
    await source.put("/messagegroups/g", group)
    documents = {"v1": b'{"type": "object"}', "v2": b'{"type": "object", "title": "b"}'}
    for vid, document in documents.items():
        answer = await source.request(
            "PUT",
            f"/schemagroups/s/schemas/d/versions/{vid}",
            body=document,
            headers={
                "Content-Type": "application/schema+json",
                "xRegistry-format": "JsonSchema/draft-07",
                "xRegistry-labels.from": vid,
            },
        )
        assert answer.status == 201, answer.body
    await there.put("/schemagroups/theirs", {})
    # The answer to the second version of the schema gets lost: it is not added twice.
    lost = ["/registry/0.4/schemaGroups/s/schemas/d"]

    def loses(request: web.Request) -> bool:
        return request.method == "POST" and request.path in lost and bool(lost.pop())

    target.loses = loses
    await write_to(source, f"{target.url}{REGISTRY}")
    async with running(source):
        await has_written_all(source)
        # Edition 0.4 has no definition group without a format.
        assert ([*await conflicts(source)], lost) == (["/messagegroups/last"], [])
        served = ("epoch", "self", "modifiedOn", "definitionsURL", "schemasURL", "tags", "version")
        for path in (
            "/endpoints/e",
            "/definitionGroups/g",
            "/definitionGroups/g/definitions/t/versions/1?meta",
            "/definitionGroups/g/definitions/t/versions/2?meta",
            "/schemaGroups/s",
        ):
            expected = await shown(source, REGISTRY + path, *served, "createdOn")
            assert await shown(there, REGISTRY + path, *served, "createdOn") == expected
        tags = (await there.get(f"{REGISTRY}/definitionGroups/g"))["tags"]
        assert tags == {"k": "v", "concord.link": f"out of {source.database.node.authority}"}
        schema = f"{REGISTRY}/schemaGroups/s/schemas/d/versions"
        assert sorted(await there.get(schema)) == ["1", "2"]
        for number, (vid, document) in enumerate(documents.items(), start=1):
            answer = await there.send("GET", f"{schema}/{number}")
            assert answer.body == document
            assert answer.headers["Content-Type"] == "application/schema+json"
            assert (await there.get(f"{schema}/{number}?meta"))["tags"]["from"] == vid
        target.requests.clear()
        assert (await source.send("POST", "/replication/links/out/reset", {})).status == 200
        await link_history_is(source, "out", "compared", "compared")
        assert {path for _, path in target.writes} <= {f"{REGISTRY}/definitionGroups"}
        await source.put("/messagegroups/g/messages/t/versions/1", {**EVENT, "name": "one"})
        await source.put("/messagegroups/g", events)
        assert (await source.send("DELETE", "/schemagroups/s/schemas/d/versions/v1")).status == 204
        assert (await source.send("DELETE", "/endpoints/e")).status == 204
        await has_written_all(source)
        assert [*await conflicts(source)] == ["/messagegroups/last"]
        first = await there.get(f"{REGISTRY}/definitionGroups/g/definitions/t/versions/1?meta")
        assert (first["name"], [*first["tags"]]) == ("one", ["concord.link"])
        assert [*await there.get(schema)] == ["2"]
        assert await there.get(f"{REGISTRY}/endpoints") == {}
    assert {*await there.get(f"{REGISTRY}/schemaGroups")} == {"s", "theirs"}
