"""Answers that the Confluent API caches: never older than the last write, nor for other eyes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from tests.integration.confluent import Registry, assert_error, record
from tests.integration.conftest import Answer, start_node
from tests.integration.test_restricted_callers import holder

TEXT, MORE = record("a"), record("a", "b", defaults=True)
Look = Callable[[], Coroutine[Any, Any, Any]]


@pytest.fixture(params=["one process", "two processes"])
async def registries(
    request: pytest.FixtureRequest, database_url: str
) -> AsyncIterator[tuple[Registry, Registry]]:
    """The registry that is written and the one that is read, which may be of one process."""
    async with contextlib.AsyncExitStack() as stack:
        writer = await stack.enter_async_context(start_node(database_url))
        reader = writer
        if request.param == "two processes":
            bound = {"cache_staleness_seconds": 0}
            reader = await stack.enter_async_context(start_node(database_url, **bound))
        yield Registry(writer), Registry(reader)


async def thrice(look: Look) -> Any:
    """The answer to a request that is sent three times, so that the cache has it."""
    first, *others = [await look() for _ in range(3)]
    assert others == [first, first]
    return first


def looks(registry: Registry, id: int, guid: str) -> dict[str, Look]:
    """The requests with cached answers, for the subject `s` and a schema of it."""

    def look(method: str, path: str, body: Any = None) -> Look:
        async def send() -> tuple[int, Any]:
            answer = await registry.send(method, path, body)
            return answer.status, answer.json

        return send

    return {
        "id": look("GET", f"/schemas/ids/{id}"),
        "id of subject": look("GET", f"/schemas/ids/{id}?subject=s"),
        "text of id": look("GET", f"/schemas/ids/{id}/schema"),
        "guid": look("GET", f"/schemas/guids/{guid}"),
        "version": look("GET", "/subjects/s/versions/1"),
        "latest": look("GET", "/subjects/s/versions/latest"),
        "latest with deleted": look("GET", "/subjects/s/versions/latest?deleted=true"),
        "text of latest": look("GET", "/subjects/s/versions/latest/schema"),
        "found": look("POST", "/subjects/s", {"schema": TEXT}),
        "registered": look("POST", "/subjects/s/versions", {"schema": TEXT}),
    }


async def begin(registries: tuple[Registry, Registry]) -> tuple[int, dict[str, Look]]:
    """Register a version and let the cache have each answer about it."""
    writer, reader = registries
    id = await writer.register("s", TEXT)
    guid = (await writer.get("/subjects/s/versions/1"))["guid"]
    asked = looks(reader, id, guid)
    for name, look in asked.items():
        assert (await thrice(look))[0] == 200, name
    return id, asked


async def test_a_soft_deletion_is_seen_at_once(registries: tuple[Registry, Registry]) -> None:
    id, asked = await begin(registries)
    writer, _ = registries
    await writer.delete("/subjects/s")
    for name in ("id", "id of subject", "guid", "latest with deleted"):
        status, shown = await thrice(asked[name])
        assert (status, shown["deleted"], shown["schema"]) == (200, True, TEXT), name
    for name in ("version", "latest", "text of latest", "found"):
        status, shown = await thrice(asked[name])
        assert (status, shown["error_code"]) == (404, 40401), name
    # The text comes back as another version with its id.
    status, shown = await asked["registered"]()
    assert (status, shown["id"], shown["version"]) == (200, id, 2)
    assert (await thrice(asked["latest"]))[1]["version"] == 2
    assert (await thrice(asked["id"]))[1]["deleted"] is False


async def test_a_permanent_deletion_is_seen_at_once(registries: tuple[Registry, Registry]) -> None:
    id, asked = await begin(registries)
    writer, _ = registries
    await writer.delete("/subjects/s")
    for look in asked.values():
        if look is not asked["registered"]:
            await thrice(look)
    await writer.delete("/subjects/s?permanent=true")
    for name in ("id", "id of subject", "text of id", "guid"):
        status, shown = await thrice(asked[name])
        assert (status, shown["error_code"]) == (404, 40403), name
    status, shown = await asked["registered"]()
    assert (status, shown["id"], shown["version"]) == (200, id + 1, 1)


async def test_a_registration_is_seen_at_once(registries: tuple[Registry, Registry]) -> None:
    id, asked = await begin(registries)
    writer, reader = registries
    assert await writer.register("s", MORE) == id + 1
    status, shown = await thrice(asked["latest"])
    assert (status, shown["id"], shown["version"], shown["schema"]) == (200, id + 1, 2, MORE)
    assert (await thrice(asked["version"]))[1]["id"] == id
    assert (await thrice(asked["registered"]))[1]["version"] == 1
    for missing in (id + 2, id + 2):
        assert_error(await reader.send("GET", f"/schemas/ids/{missing}"), 40403)
    third = record("a", "b", "c", defaults=True)
    assert await writer.register("t", third) == id + 2
    assert (await reader.get(f"/schemas/ids/{id + 2}"))["schema"] == third


async def test_settings_are_seen_at_once(registries: tuple[Registry, Registry]) -> None:
    id, asked = await begin(registries)
    writer, reader = registries
    await writer.register("other", MORE)
    await writer.put("/config/s", {"defaultMetadata": {"properties": {"team": "a"}}})
    # The same text is another schema now.
    status, shown = await asked["registered"]()
    assert (status, shown["id"], shown["version"]) == (200, id + 2, 2)
    assert shown["metadata"] == {"properties": {"team": "a"}}
    assert (await thrice(asked["latest"]))[1]["id"] == id + 2
    await writer.put("/config/s", {"alias": "other"})
    for name in ("version", "latest"):
        status, shown = await thrice(asked[name])
        assert (status, shown["subject"], shown["id"]) == (200, "other", id + 1), name
    await writer.delete("/config/s")
    assert (await thrice(asked["version"]))[1]["id"] == id
    await writer.put("/mode", {"mode": "READONLY_OVERRIDE"})
    assert (await thrice(asked["registered"]))[1]["id"] == id
    assert_error(await reader.try_register("s", MORE), 42205, "read-only mode")
    await writer.put("/mode", {"mode": "READWRITE"})
    await reader.register("s", MORE)


async def test_native_writes_are_seen_at_once(registries: tuple[Registry, Registry]) -> None:
    _, asked = await begin(registries)
    writer, reader = registries
    groups = await writer.node.get("/schemagroups")
    [home] = [id for id, group in groups.items() if group["confluent"].get("home")]
    answer = await writer.node.send("DELETE", f"/schemagroups/{home}/schemas/s/versions/1")
    assert answer.status == 204, answer.body
    for name in ("id", "guid", "version", "found"):
        assert (await thrice(asked[name]))[0] == 404, name
    await writer.register("s", TEXT)
    assert (await writer.node.send("DELETE", f"/schemagroups/{home}")).status == 204
    assert (await thrice(asked["latest"]))[0] == 404
    assert await reader.get("/subjects") == []


async def test_nobody_gets_what_the_cache_has_for_others(database_url: str) -> None:
    async with start_node(database_url, open=False) as node:
        admin = await holder(node, "admin")
        versions = "/confluent/subjects/:.secret:s/versions"
        made = await admin.send("POST", versions, {"schema": TEXT})
        seen = await admin.send("POST", "/confluent/subjects/:.team:s/versions", {"schema": TEXT})
        assert (made.status, seen.status) == (200, 200), made.body
        guid = made.json["guid"]
        requests: list[tuple[str, str, Any]] = [
            ("GET", f"{versions}/1", None),
            ("GET", f"{versions}/latest/schema", None),
            ("GET", "/confluent/schemas/ids/1?subject=:.secret:s", None),
            ("GET", "/confluent/contexts/.secret/schemas/ids/1/schema", None),
            ("POST", "/confluent/subjects/:.secret:s", {"schema": TEXT}),
        ]
        reader = await holder(node, "reader", "/schemagroups/team")
        writer = await holder(node, "writer", "/schemagroups/team")

        async def refused(answer: Answer, codes: tuple[int, ...]) -> None:
            assert answer.json["error_code"] in codes, answer.body
            assert b"record" not in answer.body

        for method, path, body in requests:
            for _ in range(3):
                assert (await admin.send(method, path, body)).status == 200, path
            for caller in (reader, writer):
                await refused(await caller.send(method, path, body), (40401, 40403))
            assert_error(await node.send(method, path, body), 401)
            assert (await admin.send(method, path, body)).status == 200, path
        for _ in range(3):
            assert (await admin.send("POST", versions, {"schema": TEXT})).status == 200
        for caller in (reader, writer):
            await refused(await caller.send("POST", versions, {"schema": TEXT}), (403,))
        # Each has the answers that are for it, also of what several contexts have.
        by_guid = f"/confluent/schemas/guids/{guid}"
        plain = "/confluent/subjects/s/versions/1"
        for _ in range(3):
            assert (await admin.get(plain))["subject"] == ":.secret:s"
            assert (await reader.get(plain))["subject"] == ":.team:s"
            ids = [{"context": name, "id": 1} for name in (".secret", ".team")]
            assert await admin.get(f"{by_guid}/ids") == ids
            assert await reader.get(f"{by_guid}/ids") == ids[1:]
        await reader.may_not("/schemagroups/team")
        assert_error(await reader.send("GET", plain), 40401)
        await reader.may("/schemagroups/secret")
        assert (await reader.get(plain))["subject"] == ":.secret:s"
