"""The links that send schemas elsewhere, as the exporters of the Confluent API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from replication.routes import routes
from tests.integration.confluent import Registry, assert_error, record
from tests.integration.conftest import start_node
from tests.integration.federation import link_is, running
from tests.integration.test_restricted_callers import holder

PATHS = ("", "/config", "/status")


@pytest.fixture
async def registry(database_url: str) -> AsyncIterator[Registry]:
    async with start_node(database_url, routes=routes) as node:
        yield Registry(node)


async def send_to(registry: Registry, target: str, id: str, **definition: Any) -> None:
    body = {"id": id, "target": target, "mode": "push", **definition}
    answer = await registry.node.send("POST", "/replication/links?force", body)
    assert answer.status == 201, answer.body


async def test_links_that_send_schemas_are_exporters(registry: Registry) -> None:
    assert await registry.get("/exporters") == []
    target = "http://127.0.0.1:1"
    await send_to(registry, target, "all")
    await send_to(
        registry, target, "team", scope=["/schemagroups/team", "/schemagroups/x/schemas/s"]
    )
    await send_to(registry, target, "typed", types=["schemagroups"])
    # These send no schemas, or receive.
    await send_to(registry, target, "messages", types=["messagegroups"])
    await send_to(registry, target, "scoped", scope=["/messagegroups/m"])
    accepts = {"id": "in", "mode": "accept", "authority": "urn:x"}
    assert (await registry.node.send("POST", "/replication/links", accepts)).status == 201
    for root in (registry, registry.within(".team")):
        assert await root.get("/exporters") == ["all", "team", "typed"]
    exporter = {
        "name": "all",
        "contextType": "NONE",
        "context": "",
        "subjects": ["*"],
        "subjectRenameFormat": "",
        "config": {"schema.registry.url": target},
    }
    assert await registry.get("/exporters/all") == exporter
    exporter |= {"name": "team", "subjects": [":.team:*", ":.x:s"]}
    assert await registry.get("/exporters/team") == exporter
    assert await registry.get("/exporters/all/config") == {"schema.registry.url": target}
    shown = {"name": "all", "state": "STARTING", "offset": 0, "ts": 0}
    assert await registry.get("/exporters/all/status") == shown
    for name in ("in", "messages", "scoped", "nobody", "a%2Fb", "x" * 3000):
        for path in PATHS:
            assert_error(await registry.send("GET", f"/exporters/{name}{path}"), 40450)
    assert_error(await registry.send("PUT", "/exporters/all", {}), 405)


async def test_the_subjects_of_an_exporter_have_their_names_of_this_api(registry: Registry) -> None:
    for subject in ("a/b", "plain", ":.My Team:a/b", ":.team:plain"):
        await registry.register(subject, record("a"))
    groups = await registry.node.get("/schemagroups?inline=schemas")
    xids = {
        str(schema["confluent"].get("subject", id)) + str(group["confluent"].get("context", "")): (
            group["xid"],
            schema["xid"],
        )
        for group in groups.values()
        for id, schema in group["schemas"].items()
    }
    scope = [*xids["a/b.My Team"], *xids["a/b"]]
    await send_to(registry, "http://127.0.0.1:1", "out", scope=scope)
    shown = (await registry.get("/exporters/out"))["subjects"]
    assert shown == [":.My Team:*", ":.My Team:a/b", "*", "a/b"]


async def test_the_state_of_an_exporter_is_that_of_its_link(
    registry: Registry, other_database_url: str
) -> None:
    await registry.register("s", record("a"))
    authority = registry.node.database.node.authority
    async with start_node(other_database_url, routes=routes) as target:
        accepted = {"id": "in", "mode": "accept", "authority": authority}
        assert (await target.send("POST", "/replication/links", accepted)).status == 201
        await send_to(registry, target.url, "out")
        async with running(registry.node):
            await link_is(registry.node, "out", "current")
        link = await registry.node.get("/replication/links/out")
        status = await registry.get("/exporters/out/status")
        assert status["ts"] > 0
        assert {**status, "ts": 0} == {
            "name": "out",
            "state": "RUNNING",
            "offset": link["applied"],
            "ts": 0,
        }
        paused = await registry.node.send("PATCH", "/replication/links/out", {"paused": True})
        assert paused.status == 200, paused.body
        assert (await registry.get("/exporters/out/status"))["state"] == "PAUSED"


async def test_exporters_are_shown_to_callers_who_may_replicate(database_url: str) -> None:
    async with start_node(database_url, routes=routes, open=False) as node:
        writer, replicator = await holder(node, "writer"), await holder(node, "replicator")
        assert await replicator.get("/confluent/exporters") == []
        assert_error(await replicator.send("GET", "/confluent/exporters/x"), 40450)
        assert_error(await writer.send("GET", "/confluent/exporters"), 403)
        for path in PATHS:
            assert_error(await writer.send("GET", f"/confluent/exporters/x{path}"), 403)
            assert_error(await node.send("GET", f"/confluent/exporters/x{path}"), 401)
