"""CloudEvents Registry 0.4 over HTTP: reading, groups, resources and their versions."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import pytest

from tests.integration.conftest import Answer, Node, assert_problem, start_node

ROOT = "/registry/0.4"
GROUP = f"{ROOT}/schemaGroups/g"
SCHEMAS = f"{GROUP}/schemas"
SCHEMA = f"{SCHEMAS}/s"
FIRST: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
SECOND = {**FIRST, "properties": {**FIRST["properties"], "b": {"type": "integer"}}}
BREAKING = {"type": "object", "properties": {"a": {"type": "integer"}}}
FORMAT = {"Registry_format": "JsonSchema/draft-07"}


async def post(node: Node, path: str, json: Any = None, **headers: str) -> Answer:
    answer = await node.send("POST", path, json, **headers)
    assert answer.status == 201, answer.body
    return answer


async def add_schema(node: Node, document: Any = FIRST, **headers: str) -> Answer:
    """A schema `s` in a group `g`, which is there or not."""
    await node.send("POST", f"{ROOT}/schemaGroups", {"id": "g"})
    return await post(node, SCHEMAS, document, Registry_id="s", **FORMAT, **headers)


async def add_definition(node: Node, **body: Any) -> Answer:
    """A definition `d` in a group `g`, which is there or not."""
    await node.send("POST", f"{ROOT}/definitionGroups", {"id": "g", "format": "CloudEvents/1.0"})
    return await post(node, f"{ROOT}/definitionGroups/g/definitions", {"id": "d", **body})


async def test_the_registry_tells_of_its_collections(node: Node) -> None:
    await add_schema(node)
    assert await node.get(ROOT) == {
        "id": "test",
        "specVersion": "0.4-wip",
        "self": f"{node.url}{ROOT}",
        "endpointsURL": f"{node.url}{ROOT}/endpoints",
        "endpointsCount": 0,
        "definitionGroupsURL": f"{node.url}{ROOT}/definitionGroups",
        "definitionGroupsCount": 0,
        "schemaGroupsURL": f"{node.url}{ROOT}/schemaGroups",
        "schemaGroupsCount": 1,
    }


async def test_the_model_has_the_three_registries(node: Node) -> None:
    groups = (await node.get(f"{ROOT}?model"))["groups"]
    names = {g["plural"]: (g["singular"], g["resources"][0]["plural"]) for g in groups}
    assert names == {
        "endpoints": ("endpoint", "definitions"),
        "definitionGroups": ("definitionGroup", "definitions"),
        "schemaGroups": ("schemaGroup", "schemas"),
    }
    assert all(group["resources"][0]["versions"] == -1 for group in groups)


async def test_inline_shows_the_whole_registry(node: Node) -> None:
    await add_schema(node)
    await add_definition(node, format="CloudEvents/1.0", metadata={"attributes": {}})
    whole = await node.get(f"{ROOT}/?inline")
    assert whole["model"] == await node.get(f"{ROOT}?model")
    assert whole["endpoints"] == {}
    assert whole["schemaGroups"] == await node.get(f"{ROOT}/schemaGroups?inline")
    assert whole["schemaGroups"]["g"] == await node.get(f"{GROUP}?inline")
    assert whole["schemaGroups"]["g"]["schemas"] == await node.get(f"{SCHEMAS}?inline")
    assert whole["schemaGroups"]["g"]["schemas"]["s"]["schema"] == FIRST
    definition = whole["definitionGroups"]["g"]["definitions"]["d"]
    assert definition == await node.get(f"{ROOT}/definitionGroups/g/definitions/d")


async def test_what_does_not_fit_into_one_answer_is_refused(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_schema(node)
    monkeypatch.setattr("catalog.dialects.registry04.load.MOST_ENTITIES", 2)
    assert (await node.send("GET", f"{ROOT}?inline")).error == "too_large"


async def test_a_group_goes_through_its_life(node: Node) -> None:
    added = await post(node, f"{ROOT}/endpoints", {"id": "123", "name": "A cool endpoint"})
    url = f"{node.url}{ROOT}/endpoints/123"
    assert added.headers["Location"] == url
    shown = await node.get(f"{ROOT}/endpoints/123")
    assert added.json == shown
    assert (
        shown.items()
        >= {
            "id": "123",
            "name": "A cool endpoint",
            "epoch": 1,
            "definitionsURL": f"{url}/definitions",
            "definitionsCount": 0,
        }.items()
    )
    body = {"id": "123", "name": "A cooler endpoint", "epoch": 1}
    updated = await node.put(f"{ROOT}/endpoints/123", body)
    assert (updated["name"], updated["epoch"]) == ("A cooler endpoint", 2)
    assert (await node.send("PUT", f"{ROOT}/endpoints/123", body)).error == "mismatched_epoch"
    refused = await node.send("DELETE", f"{ROOT}/endpoints/123?epoch=1")
    assert refused.error == "mismatched_epoch"
    deleted = await node.send("DELETE", f"{ROOT}/endpoints/123?epoch=2")
    assert (deleted.status, deleted.json) == (200, updated)
    assert (await node.send("GET", f"{ROOT}/endpoints/123")).status == 404


async def test_a_group_without_an_id_gets_one(node: Node) -> None:
    added = await post(node, f"{ROOT}/endpoints", {"name": "x"})
    assert uuid.UUID(added.json["id"])


async def test_a_put_of_a_group_deletes_what_it_lacks_and_leaves_resources_alone(
    node: Node,
) -> None:
    await add_definition(node, format="HTTP/1.1")
    path = f"{ROOT}/definitionGroups/g"
    own = {"format": "HTTP/1.1"}
    await node.put(path, {**own, "description": "x", "tags": {"a": "b"}, "definitions": {}})
    shown = await node.put(path, {**own, "docs": "https://example.com"})
    assert "description" not in shown
    assert "tags" not in shown
    assert (shown["docs"], shown["definitionsCount"]) == ("https://example.com", 1)


async def test_a_put_leaves_alone_what_edition_04_does_not_know(node: Node) -> None:
    await node.put("/messagegroups/g", {"icon": "https://example.com/i", "discovery": {"a": 1}})
    await node.put(f"{ROOT}/definitionGroups/g", {"name": "x", "format": "NATS"})
    group = await node.get("/messagegroups/g")
    assert (group["icon"], group["discovery"]) == ("https://example.com/i", {"a": 1})


REFUSED = [
    ("PUT", f"{ROOT}/endpoints/none", "not_found"),
    ("GET", f"{ROOT}/nothing", "not_found"),
    ("GET", f"{ROOT}/messagegroups", "not_found"),
    ("GET", f"{ROOT}/endpoints/e/schemas", "not_found"),
    ("POST", f"{ROOT}/endpoints/none/definitions", "not_found"),
    ("PUT", f"{SCHEMAS}/none", "not_found"),
    ("PUT", f"{SCHEMA}/versions/9", "not_found"),
    ("GET", f"{SCHEMA}/versions/9", "not_found"),
    ("GET", f"{SCHEMAS}/none/versions", "not_found"),
    ("DELETE", f"{SCHEMAS}/none", "not_found"),
    ("DELETE", f"{ROOT}/schemaGroups/none/schemas", "not_found"),
    ("POST", f"{ROOT}/schemaGroups", "already_exists"),
    ("POST", SCHEMAS, "already_exists"),
    ("PATCH", GROUP, "action_not_supported"),
    ("POST", f"{SCHEMA}/versions", "action_not_supported"),
]


async def test_what_is_not_there_or_there_already_is_refused(node: Node) -> None:
    await add_schema(node)
    before = await node.state()
    for method, path, error in REFUSED:
        body = {"id": "g"} if path.endswith("Groups") else {}
        headers = {"Registry_id": "s"} if path == SCHEMAS else {}
        answer = await node.send(method, path, None if method == "DELETE" else body, **headers)
        assert answer.error == error, (method, path)
        assert_problem(answer)
    assert await node.state() == before


async def test_several_groups_are_deleted_all_or_none(node: Node) -> None:
    for id in ("a", "b", "c"):
        await post(node, f"{ROOT}/endpoints", {"id": id})
    path = f"{ROOT}/endpoints"
    for bad in ({"id": "none"}, {"id": "b", "epoch": 7}):
        answer = await node.send("DELETE", path, [{"id": "a"}, bad])
        assert answer.error in ("not_found", "mismatched_epoch")
        assert {*await node.get(path)} == {"a", "b", "c"}
    deleted = await node.send("DELETE", path, [{"id": "a", "epoch": 1}, {"id": "b"}])
    assert {*deleted.json} == {"a", "b"}
    assert {*await node.get(path)} == {"c"}
    assert (await node.send("DELETE", path)).status == 204
    assert await node.get(path) == {}


async def test_several_resources_are_deleted_all_or_none(node: Node) -> None:
    await add_schema(node)
    await post(node, SCHEMAS, FIRST, Registry_id="t", **FORMAT)
    await node.put(f"{SCHEMA}?meta", {"format": "JsonSchema/draft-07"})
    for bad in ({"id": "none"}, {"id": "s", "epoch": 1}):
        answer = await node.send("DELETE", SCHEMAS, [{"id": "t"}, bad])
        assert answer.error in ("not_found", "mismatched_epoch")
        assert {*await node.get(SCHEMAS)} == {"s", "t"}
    deleted = await node.send("DELETE", SCHEMAS, [{"id": "s", "epoch": 2}])
    assert {*deleted.json} == {"s"}
    assert (await node.send("DELETE", SCHEMAS)).status == 204
    assert await node.get(SCHEMAS) == {}


async def test_collections_come_in_pages(node: Node) -> None:
    for id in ("a", "b", "c"):
        await post(node, f"{ROOT}/endpoints", {"id": id})
    for query in ("limit=2", "limit=2&inline"):
        first = await node.send("GET", f"{ROOT}/endpoints?{query}")
        assert {*first.json} == {"a", "b"}
        link = first.headers["Link"].split(",")[0]
        url, rel, count = link.split(";")
        assert (rel, count) == ("rel=next", "count=3")
        second = await node.send("GET", url.strip("<>").removeprefix(node.url))
        assert {*second.json} == {"c"}
        assert "rel=next" not in second.headers["Link"]


async def test_a_schema_is_its_document_with_metadata_in_headers(node: Node) -> None:
    added = await add_schema(node, Registry_name="Blob Created")
    url = f"{node.url}{SCHEMA}"
    assert added.headers["Location"] == url
    read = await node.send("GET", SCHEMA)
    for answer in (added, read):
        assert answer.json == FIRST
        assert {
            name: answer.headers[f"Registry-{name}"]
            for name in ("id", "name", "version", "epoch", "self", "format")
        } == {
            "id": "s",
            "name": "Blob Created",
            "version": "1",
            "epoch": "1",
            "self": f"{url}/versions/1",
            "format": "JsonSchema/draft-07",
        }
        assert answer.headers["Content-Location"] == f"{url}/versions/1"
    meta = await node.get(f"{SCHEMA}?meta")
    assert meta == await node.get(f"{SCHEMA}/versions/1?meta")
    assert meta.items() >= {"id": "s", "name": "Blob Created", "version": 1, "epoch": 1}.items()
    assert "schema" not in meta


async def test_a_document_that_is_no_json_is_inlined_in_base64(node: Node) -> None:
    text = b'syntax = "proto3"; message Metrics { float metric = 1; }'
    await node.send("POST", f"{ROOT}/schemaGroups", {"id": "g"})
    headers = {"Content-Type": "text/plain", "Registry-id": "s", "Registry-format": "Protobuf/3"}
    added = await node.request("POST", SCHEMAS, body=text, headers=headers)
    assert (added.status, added.body) == (201, text)
    shown = (await node.get(f"{SCHEMAS}?inline"))["s"]
    assert base64.b64decode(shown["schemaBase64"]) == text
    assert "schema" not in shown


async def test_a_document_elsewhere_is_a_redirection(node: Node) -> None:
    await add_schema(node)
    target = "https://example.com/s%20t.json"
    moved = await node.request("PUT", SCHEMA, headers={"Registry-schemaURI": target})
    assert (moved.status, moved.headers["Registry-schemaURI"]) == (200, target)
    for path in (SCHEMA, f"{SCHEMA}/versions/1"):
        answer = await node.send("GET", path)
        assert answer.status == 307
        assert answer.headers["Location"] == answer.headers["Registry-schemaURI"] == target
        assert answer.body == b""
    assert (await node.get(f"{SCHEMA}?meta"))["schemaURI"] == target
    kept = await node.request("PUT", SCHEMA, headers={"Registry-name": "x"})
    assert kept.headers["Registry-schemaURI"] == target
    back = await node.send("PUT", SCHEMA, FIRST)
    assert (back.status, back.json) == (200, FIRST)
    assert "Registry-schemaURI" not in back.headers
    refused = await node.send("PUT", SCHEMA, FIRST, Registry_schemaURI=target)
    assert refused.error == "header_error"


async def test_a_new_version_inherits_metadata_and_is_the_latest(node: Node) -> None:
    await add_schema(node, Registry_name="n", Registry_description="d")
    added = await post(node, SCHEMA, SECOND, Registry_description="", Registry_docs="https://x")
    assert added.headers["Registry-version"] == "2"
    assert added.headers["Location"] == f"{node.url}{SCHEMA}"
    assert added.headers["Content-Location"] == f"{node.url}{SCHEMA}/versions/2"
    meta = await node.get(f"{SCHEMA}?meta")
    assert (meta["version"], meta["name"], meta["docs"]) == (2, "n", "https://x")
    assert "description" not in meta
    assert {v["version"] for v in (await node.get(f"{SCHEMA}/versions")).values()} == {1, 2}
    inlined = await node.get(f"{SCHEMA}/versions?inline")
    assert [inlined[vid]["schema"] for vid in ("1", "2")] == [FIRST, SECOND]


async def test_a_new_version_that_breaks_clients_is_a_conflict(node: Node) -> None:
    await add_schema(node)
    before = await node.state()
    refused = await node.send("POST", SCHEMA, BREAKING)
    assert (refused.status, refused.error) == (409, "incompatible_version")
    assert await node.state() == before


async def test_a_native_schema_without_a_rule_gets_it_with_its_next_version(node: Node) -> None:
    native = "/schemagroups/g/schemas/s"
    await node.put(f"{native}$details", {"format": "JsonSchema/draft-07", "schema": FIRST})
    assert (await node.send("POST", SCHEMA, BREAKING)).status == 409
    await post(node, SCHEMA, SECOND)
    assert (await node.get(f"{native}/meta"))["compatibility"] == "backward_transitive"


async def test_the_latest_version_is_the_largest_whatever_is_the_default(node: Node) -> None:
    await add_schema(node)
    await post(node, SCHEMA, SECOND)
    await node.put(
        "/schemagroups/g/schemas/s/meta",
        {
            "defaultversionid": "1",
            "defaultversionsticky": True,
            "compatibility": "backward_transitive",
        },
    )
    assert (await node.get(f"{SCHEMA}?meta"))["version"] == 2
    assert (await node.get(f"{SCHEMAS}?inline"))["s"]["version"] == 2


async def test_a_version_without_a_number_is_shown_before_all_numbers(node: Node) -> None:
    native = "/schemagroups/g/schemas/s"
    for vid in ("v9", "v10"):
        body = {"format": "JsonSchema/draft-07", "schema": FIRST}
        await node.put(f"{native}/versions/{vid}$details", body)
    assert (await node.get(f"{SCHEMA}?meta"))["version"] == "v10"
    assert (await node.get(f"{SCHEMA}/versions/v9?meta"))["version"] == "v9"
    assert (await post(node, SCHEMA, SECOND)).headers["Registry-version"] == "1"
    assert (await node.get(f"{SCHEMA}?meta"))["version"] == 1


async def test_a_new_version_has_the_largest_number_also_where_numbers_are_missing(
    node: Node,
) -> None:
    await add_schema(node)
    native = {"format": "JsonSchema/draft-07", "schema": FIRST}
    await node.put("/schemagroups/g/schemas/s/versions/7$details", native)
    assert (await post(node, SCHEMA, SECOND)).headers["Registry-version"] == "8"
    await node.send("DELETE", f"{SCHEMA}/versions/8")
    assert (await post(node, SCHEMA, SECOND)).headers["Registry-version"] == "9"


async def test_versions_are_deleted_but_never_all(node: Node) -> None:
    await add_schema(node)
    for _ in range(3):
        await post(node, SCHEMA, SECOND)
    path = f"{SCHEMA}/versions"
    everything = [{"id": "s", "version": number} for number in range(1, 5)]
    assert (await node.send("DELETE", path, everything)).error == "missing_versions"
    for bad in ({"version": 9}, {"version": 1, "epoch": 9}, {"id": "t", "version": 1}):
        answer = await node.send("DELETE", path, [{"version": 4}, bad])
        assert answer.error in ("not_found", "mismatched_epoch", "mismatched_id")
    assert len(await node.get(path)) == 4
    deleted = await node.send("DELETE", path, [{"id": "s", "version": 4}])
    assert deleted.json["4"]["version"] == 4
    assert (await node.get(f"{SCHEMA}?meta"))["version"] == 3
    assert (await node.send("DELETE", f"{path}/1")).headers["Registry-version"] == "1"
    assert (await node.send("DELETE", path)).status == 200
    assert {*await node.get(path)} == {"3"}
    assert (await node.send("DELETE", f"{path}/3")).error == "missing_versions"


async def test_a_resource_is_deleted_at_the_epoch_of_its_latest_version(node: Node) -> None:
    await add_schema(node)
    await post(node, SCHEMA, SECOND)
    await node.send("PUT", SCHEMA, SECOND)
    assert (await node.send("DELETE", f"{SCHEMA}?epoch=1")).error == "mismatched_epoch"
    deleted = await node.send("DELETE", f"{SCHEMA}?epoch=2")
    assert (deleted.status, deleted.json) == (200, SECOND)
    assert (await node.send("GET", SCHEMA)).status == 404


async def test_an_update_of_metadata_leaves_alone_what_it_does_not_mention(node: Node) -> None:
    await add_schema(node, Registry_name="n")
    meta = await node.get(f"{SCHEMA}?meta")
    updated = await node.put(f"{SCHEMA}?meta", {"id": "s", "tags": {"Owner": "John"}})
    served = {"epoch": 2, "modifiedOn": updated["modifiedOn"]}
    assert updated == {**meta, **served, "tags": {"Owner": "John"}}
    updated = await node.put(f"{SCHEMA}?meta", {"id": "s", "name": None, "tags": None})
    assert (updated["name"], "tags" in updated) == ("s", False)
    assert updated["format"] == meta["format"]
    assert (await node.send("GET", SCHEMA)).json == FIRST
    for bad in ({"version": 2}, {"id": "t"}, {"epoch": 1}):
        answer = await node.send("PUT", f"{SCHEMA}?meta", {**updated, **bad})
        assert answer.error in ("mismatched_id", "mismatched_epoch")


async def test_a_type_that_the_model_lacks_is_not_found(database_url: str) -> None:
    async with start_node(database_url, modelsource={"groups": {}}) as node:
        assert (await node.get(f"{ROOT}?model")) == {"groups": []}
        for method, path in (
            ("GET", "schemaGroups"),
            ("POST", "endpoints"),
            ("GET", "endpoints/e"),
        ):
            answer = await node.send(method, f"{ROOT}/{path}", {})
            assert answer.status == 404
            assert_problem(answer)


async def test_a_cross_reference_shows_its_target(node: Node) -> None:
    await add_schema(node)
    await node.put("/schemagroups/h/schemas/x/meta", {"xref": "/schemagroups/g/schemas/s"})
    path = f"{ROOT}/schemaGroups/h/schemas"
    assert (await node.send("GET", f"{path}/x")).json == FIRST
    assert (await node.get(f"{path}?inline"))["x"]["schema"] == FIRST
    for method in ("PUT", "POST"):
        assert_problem(await node.send(method, f"{path}/x", SECOND))
    assert (await node.send("GET", SCHEMA)).json == FIRST
