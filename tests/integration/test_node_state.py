"""A node tells its admins its settings and checks, and each reader what the catalog holds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from catalog.access.authentication import AUTHENTICATION
from catalog.monitoring.health import routes as monitoring_routes
from catalog.store.monitoring import count_all
from replication.routes import routes as replication_routes
from tests.integration.conftest import Answer, Node, start_node
from tests.integration.consolecatalog import new_token
from tests.integration.test_access_tokens import concord

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
SECRET = "a-secret-of-the-database"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    settings: dict[str, Any] = {
        "open": False,
        "max_links": 7,
        "kafka_url": f"kafka://user:{SECRET}@127.0.0.1:9",
    }
    routes = [*monitoring_routes, *replication_routes]
    async with start_node(shared_database_url, routes=routes, **settings) as running:
        _, admin = await new_token(running, "admin")
        bearer = {"Authorization": f"Bearer {admin}"}
        schema = {"format": "Avro/1.12", "schema": {"type": "string"}}
        for group in ("a", "b"):
            path = f"/schemagroups/{group}/schemas"
            for name in ("one", "two"):
                await running.put(f"{path}/{name}/versions/1$details", schema, **bearer)
            await running.put(f"{path}/one/versions/2$details", schema, **bearer)
        yield running


async def ask(node: Node, role: Any, path: str, at: str = "/") -> Answer:
    _, token = await new_token(node, role, at)
    node.client.app[AUTHENTICATION].rules.forget()
    return await node.send("GET", path, Authorization=f"Bearer {token}")


async def test_settings_are_told_with_their_source_and_without_secrets(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORD_MAX_LINKS", "7")
    answer = await ask(node, "admin", "/-/settings")
    found = {each["name"]: each for each in answer.json["settings"]}
    assert found["CONCORD_MAX_LINKS"]["value"] == 7
    assert found["CONCORD_MAX_LINKS"]["source"] == "environment"
    assert found["CONCORD_MAX_LINKS"]["default"] == 2000
    assert found["CONCORD_OPEN"]["source"] == "command"
    assert found["CONCORD_PAGE_SIZE"]["source"] == "default"
    assert set(found["CONCORD_KAFKA_URL"]["value"]) == {"*"}
    assert SECRET.encode() not in answer.body
    assert all(each["description"] for each in found.values())


async def test_the_node_examines_itself_and_asks_nobody_unless_it_should(node: Node) -> None:
    inside = (await ask(node, "admin", "/-/doctor")).json["checks"]
    assert {each["level"] for each in inside} <= {"ok", "warning", "error"}
    subjects = {each["subject"] for each in inside}
    assert {"database", "schema", "clock", "backup", "settings"} <= subjects
    assert "sinks" not in subjects
    outside = (await ask(node, "admin", "/-/doctor?outside")).json["checks"]
    assert "sinks" in {each["subject"] for each in outside}


@pytest.mark.parametrize("path", ["/-/settings", "/-/doctor"])
async def test_the_state_of_the_node_is_for_admins_of_the_whole(node: Node, path: str) -> None:
    for role, at in (("replicator", "/"), ("admin", "/schemagroups/a")):
        assert (await ask(node, role, path, at)).status == 403


async def test_groups_and_resources_are_counted_as_the_caller_sees_them(node: Node) -> None:
    whole = (await ask(node, "reader", "/-/counts")).json
    assert (whole["basis"], whole["count"]) == ("all", 6)
    types = [{"value": "schemagroups/schemas", "count": 4}, {"value": "schemagroups", "count": 2}]
    assert whole["type"] == types
    assert whole["format"] == [{"value": "Avro/1.12", "count": 4}]
    assert [each["count"] for each in whole["authority"]] == [6]
    part = (await ask(node, "reader", "/-/counts", "/schemagroups/a")).json
    assert (part["basis"], part["count"]) == ("all", 3)


async def test_a_large_catalog_is_counted_by_a_sample(node: Node) -> None:
    columns = "'/many/' || n, true, 'many', CASE WHEN n % 4 = 0 THEN 'urn:a' ELSE 'urn:b' END"
    async with node.database.acquire() as connection:
        # Rows of the index alone, without entities.
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(
            "INSERT INTO search_index (xid, is_listed, type, authority, words, fields) "
            f"SELECT {columns}, '', '' FROM generate_series(1, 20000) n"
        )
        try:
            found = await count_all(connection, most_pages=60)
            whole = await count_all(connection)
        finally:
            await connection.execute("DELETE FROM search_index WHERE type = 'many'")
            await connection.execute("SET session_replication_role = origin")
    assert (found.basis, whole.basis) == ("sample", "all")
    assert whole.by_authority["urn:a"] == 5000
    # More than four standard deviations of the number of pages in the sample.
    assert found.by_authority["urn:a"] == pytest.approx(5000, rel=0.6)
    assert found.by_authority["urn:b"] == pytest.approx(15_000, rel=0.6)


async def test_commands_show_the_state_of_a_running_node(node: Node) -> None:
    _, admin = await new_token(node, "admin")
    place = {"CONCORD_URL": node.url, "CONCORD_TOKEN": admin}
    counted = await concord("get", "/-/counts", **place)
    assert orjson.loads(counted.stdout)["count"] == 6
    settings = await concord("settings", "--url", node.url, CONCORD_TOKEN=admin)
    rows = [row.split() for row in settings.stdout.splitlines()]
    assert ["CONCORD_MAX_LINKS", "7", "command"] in rows
    assert SECRET not in settings.stdout
    checked = await concord("doctor", "--url", node.url, "--json", CONCORD_TOKEN=admin)
    assert "backup" in {each["subject"] for each in orjson.loads(checked.stdout)}
    _, reader = await new_token(node, "reader")
    refused = await concord("doctor", "--url", node.url, CONCORD_TOKEN=reader)
    assert (refused.exit_code, "the role admin" in refused.stderr) == (1, True)
