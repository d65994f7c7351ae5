"""CloudEvents Registry 0.4 over HTTP: an empty body erases the content of a schema."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from replication.routes import routes
from tests.integration.conftest import SPEC, Answer, Node, assert_problem, start_node
from tests.integration.federation import carries, databases, eventually, link, running, start_member

ROOT = "/registry/0.4"
SCHEMAS = f"{ROOT}/schemaGroups/g/schemas"
SCHEMA = f"{SCHEMAS}/s"
NATIVE = "/schemagroups/g/schemas/s"
AVRO = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}
DOCUMENTS = [
    pytest.param("Avro/1.12", orjson.dumps(AVRO), b'{"type": 5}', id="Avro"),
    pytest.param("JsonSchema/draft-07", b'{"type": "object"}', b'{"type": 5}', id="JSON Schema"),
    pytest.param("Protobuf/3", b'syntax = "proto3"; message M { }', b"message", id="Protobuf"),
    pytest.param("Other/1", b"anything", b"", id="a format that is not checked"),
]
JSON_SCHEMA = ("JsonSchema/draft-07", b'{"type": "string"}')
ERASED = {"formatvalidated": False, "formatvalidatedreason": "Its content was erased"}
NOTHING: dict[str, Any] = {"formats": [], "compatibilities": {}}


async def write(node: Node, method: str, path: str, document: bytes, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {"Content-Type": "text/plain", **named} if document else named
    return await node.request(method, path, body=document, headers=sent)


async def add_schema(node: Node, format: str, document: bytes) -> None:
    """A schema `s` with one version in a group `g`."""
    await node.send("POST", f"{ROOT}/schemaGroups", {"id": "g"})
    added = await write(node, "POST", SCHEMAS, document, Registry_id="s", Registry_format=format)
    assert added.status == 201, added.body


async def erase(node: Node, path: str = SCHEMA) -> None:
    erased = await node.request("PUT", path)
    assert (erased.status, erased.body) == (200, b"")


async def noted(node: Node, vid: str = "1") -> dict[str, Any]:
    """What is said of how a version was checked."""
    shown = await node.get(f"{NATIVE}/versions/{vid}$details")
    return {name: value for name, value in shown.items() if "validated" in name}


async def change_model(node: Node, **schemas: Any) -> Answer:
    """Change the type of schemas."""
    source = await node.get("/modelsource")
    source["groups"]["schemagroups"]["resources"]["schemas"] |= schemas
    return await node.send("PUT", "/modelsource", source)


@pytest.fixture
async def erased(node: Node) -> Node:
    """A node with a schema whose content is erased."""
    await add_schema(node, *JSON_SCHEMA)
    await erase(node)
    return node


@pytest.mark.parametrize(("format", "document", "wrong"), DOCUMENTS)
@pytest.mark.parametrize("path", [SCHEMA, f"{SCHEMA}/versions/1"])
async def test_an_empty_body_erases_the_content_whatever_the_format(
    node: Node, path: str, format: str, document: bytes, wrong: bytes
) -> None:
    await add_schema(node, format, document)
    before = await noted(node)
    await erase(node, path)
    answer = await node.send("GET", path)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Registry-format"] == format
    assert {**await noted(node), **ERASED} == await noted(node)
    if wrong:
        refused = await write(node, "PUT", path, wrong)
        assert (refused.status, refused.error) == (400, "format_violation")
    assert (await write(node, "PUT", path, document)).body == document
    assert await noted(node) == before


async def test_a_new_version_with_an_empty_body_has_no_content(node: Node) -> None:
    """CloudEvents Registry 0.4, "Creating a new version of a Resource"."""
    await add_schema(node, *JSON_SCHEMA)
    assert (await write(node, "POST", SCHEMA, b"")).status == 201
    assert (await node.send("GET", SCHEMA)).body == b""
    assert (await noted(node, "2")).items() >= ERASED.items()
    assert (await node.send("GET", f"{SCHEMA}/versions/1")).body == JSON_SCHEMA[1]


async def test_versions_are_not_compared_with_one_that_is_erased(node: Node) -> None:
    """What is written there again is."""
    await add_schema(node, *JSON_SCHEMA)
    assert (await write(node, "POST", SCHEMA, b'{"type": ["string", "null"]}')).status == 201
    await erase(node, f"{SCHEMA}/versions/1")
    assert (await noted(node, "2"))["compatibilityvalidated"] is False
    refused = await write(node, "PUT", f"{SCHEMA}/versions/1", b'{"type": "integer"}')
    assert (refused.status, refused.error) == (409, "incompatible_version")
    again = await write(node, "PUT", f"{SCHEMA}/versions/1", JSON_SCHEMA[1])
    assert again.status == 200, again.body
    assert await noted(node, "2") == {"formatvalidated": True, "compatibilityvalidated": True}


async def test_what_is_erased_stays_so_while_other_attributes_change(erased: Node) -> None:
    renamed = await erased.send("PUT", f"{SCHEMA}?meta", {"name": "n"})
    assert renamed.status == 200, renamed.body
    changed = await erased.send("PATCH", f"{NATIVE}$details", {"format": "Avro/1.12"})
    assert changed.status == 200, changed.body
    assert (await noted(erased)).items() >= ERASED.items()


async def test_a_native_client_cannot_write_an_empty_document(erased: Node) -> None:
    """core/model.md, "validateformat": an empty document is a document."""
    before = await erased.state()
    assert (await erased.request("PUT", NATIVE)).error == "format_violation"
    empty = {"schemabase64": ""}
    assert (await erased.send("PATCH", f"{NATIVE}$details", empty)).error == "format_violation"
    assert await erased.state() == before


async def test_what_is_erased_is_in_the_way_of_no_model_and_no_capabilities(erased: Node) -> None:
    before = await noted(erased)
    able = await erased.get("/capabilities")
    for answer in (
        await change_model(erased, attributes={"more": {"type": "string"}}),
        await erased.send("PATCH", "/capabilities", NOTHING),
        await erased.send("PATCH", "/capabilities", {name: able[name] for name in NOTHING}),
    ):
        assert answer.status == 200, answer.body
        assert await noted(erased) == before


async def test_what_is_erased_while_its_format_is_off_is_not_checked_when_it_is_on(
    node: Node,
) -> None:
    able = await node.get("/capabilities")
    await node.send("PATCH", "/capabilities", NOTHING)
    await add_schema(node, *JSON_SCHEMA)
    await erase(node)
    enabled = await node.send("PATCH", "/capabilities", {name: able[name] for name in NOTHING})
    assert enabled.status == 200, enabled.body
    assert (await noted(node)).items() >= ERASED.items()


async def test_a_strict_type_has_no_erased_content(erased: Node) -> None:
    """core/model.md, "strictvalidation"."""
    problem = assert_problem(await change_model(erased, strictvalidation=True))
    assert problem["type"] == f"{SPEC}model_compliance_error"
    assert [each["type"] for each in problem["violations"]] == [f"{SPEC}format_violation"]
    await write(erased, "PUT", SCHEMA, JSON_SCHEMA[1])
    assert (await change_model(erased, strictvalidation=True)).status == 200
    assert (await erased.request("PUT", SCHEMA)).error == "format_violation"


async def test_the_catalogs_own_document_leaves_what_is_erased_as_it_is(erased: Node) -> None:
    before = await erased.state()
    groups = (await erased.get("/export"))["schemagroups"]
    applied = await erased.send("POST", "/apply", {"schemagroups": groups})
    assert (applied.status, applied.json["changes"]) == (200, []), applied.body
    assert await erased.state() == before


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one, routes=routes) as source,
        start_member(two) as target,
    ):
        yield source, target


async def test_a_replica_is_erased_with_what_it_is_a_copy_of(pair: tuple[Node, Node]) -> None:
    source, target = pair
    await add_schema(source, *JSON_SCHEMA)
    await link(target, source)
    async with running(target):
        await eventually(lambda: carries(target, source))
        await erase(source)
        await eventually(lambda: carries(target, source))
    assert (await target.send("GET", NATIVE)).body == b""
    assert await noted(target) == await noted(source)
