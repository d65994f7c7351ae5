"""CloudEvents Registry 0.4 over HTTP: headers against bodies, examples, and other clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from multidict import CIMultiDict

from tests.integration.conftest import Answer, Node, assert_problem, start_node
from tests.unit.test_registry04 import (
    COMMON,
    DEFINITIONS,
    ENDPOINT,
    ENDPOINTS,
    EXTENSIONS,
    FORMATS,
    TELEMETRY,
)

ROOT = "/registry/0.4"
DEFINITIONS_OF_G = f"{ROOT}/definitionGroups/g/definitions"
DEFINITION = f"{DEFINITIONS_OF_G}/d"
NATIVE = "/messagegroups/g/messages/d"
CLOUDEVENT = {"format": "CloudEvents/1.0", "metadata": {"attributes": {}}}
PROTO = 'syntax = "proto3"; message Metrics {{ float metric = 1; {more}}}'
SERVED = {"id", "version", "epoch", "self", "createdOn", "modifiedOn"}
FEW = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


async def post(node: Node, path: str, json: Any = None, **headers: str) -> Answer:
    answer = await node.send("POST", path, json, **headers)
    assert answer.status == 201, answer.body
    return answer


@pytest.fixture
async def defined(node: Node) -> Node:
    """A node with a definition `d`, named `n` and described, in a group `g`."""
    await post(node, f"{ROOT}/definitionGroups", {"id": "g", "format": "CloudEvents/1.0"})
    body = {"id": "d", "name": "n", "description": "about", **CLOUDEVENT}
    await post(node, DEFINITIONS_OF_G, body)
    return node


@dataclass(frozen=True, slots=True)
class Another:
    """A definition like `d`, whose id no other test has."""

    node: Node
    id: str

    @property
    def path(self) -> str:
        return f"{DEFINITIONS_OF_G}/{self.id}"

    async def put(self, headers: dict[str, str], body: dict[str, Any]) -> Answer:
        """Update it; `d` in the headers stands for its id."""
        named = {f"Registry-{n}": self.id if v == "d" else v for n, v in headers.items()}
        return await self.node.send("PUT", self.path, body or None, **named)


@pytest.fixture
async def another(shared_database_url: str) -> AsyncIterator[Another]:
    async with start_node(shared_database_url) as node:
        await node.send(
            "POST", f"{ROOT}/definitionGroups", {"id": "g", "format": "CloudEvents/1.0"}
        )
        body = {"name": "n", "description": "about", **CLOUDEVENT}
        added = await post(node, DEFINITIONS_OF_G, body)
        yield Another(node, added.json["id"])


@pytest.mark.parametrize(
    ("headers", "body", "shown"),
    [
        pytest.param({}, {}, {"name": "n", "description": "about"}, id="absent is kept"),
        pytest.param({"name": "m"}, {}, {"name": "m", "description": "about"}, id="header sets"),
        pytest.param({"name": ""}, {}, {"name": "d"}, id="empty deletes, the id is the name"),
        pytest.param({"description": ""}, {}, {"description": None}, id="empty deletes"),
        pytest.param({"description": " "}, {}, {"description": None}, id="blank is empty"),
        pytest.param({}, {"name": "m"}, {"name": "m"}, id="body sets"),
        pytest.param({"name": "m"}, {"name": "m"}, {"name": "m"}, id="both agree"),
        pytest.param({"name": ""}, {"name": ""}, {"name": "d"}, id="both empty"),
        pytest.param({"NAME": "m"}, {}, {"name": "m"}, id="any case"),
        pytest.param({"createdby": "me"}, {}, {"createdBy": "me"}, id="the attribute's own case"),
        pytest.param({"name": "100%25 %C3%A9"}, {}, {"name": "100% é"}, id="escaped"),
        pytest.param({"docs": "https://a/%20"}, {}, {"docs": "https://a/%20"}, id="a URL stays"),
        pytest.param({"self": "x"}, {"self": "y"}, {"name": "n"}, id="self is ignored"),
        pytest.param({"id": "d", "version": "1", "epoch": "1"}, {}, {"epoch": 2}, id="identity"),
        pytest.param({}, CLOUDEVENT, {**CLOUDEVENT, "description": "about"}, id="content"),
        pytest.param({}, {}, {"format": None}, id="an empty body erases the content"),
        pytest.param({"type": "t"}, {}, {"type": "t"}, id="type"),
    ],
)
async def test_headers_and_body_are_merged(
    another: Another, headers: dict[str, str], body: dict[str, Any], shown: dict[str, Any]
) -> None:
    shown = {name: another.id if value == "d" else value for name, value in shown.items()}
    answer = await another.put(headers, body)
    assert answer.status == 200, answer.body
    meta = await another.node.get(f"{another.path}?meta")
    assert {name: meta.get(name) for name in shown} == shown
    assert answer.json == meta
    assert answer.headers["Registry-name"].isascii()


@pytest.mark.parametrize(
    ("headers", "body", "error"),
    [
        pytest.param({"name": "m"}, {"name": "k"}, "header_error", id="they differ"),
        pytest.param({"name": ""}, {"name": "k"}, "header_error", id="deleted and set"),
        pytest.param({"format": "HTTP/2"}, CLOUDEVENT, "header_error", id="content differs"),
        pytest.param({"metadata": "{}"}, {}, "header_error", id="no scalar"),
        pytest.param({"name": "%ff"}, {}, "header_error", id="not UTF-8"),
        pytest.param({"epoch": "x"}, {}, "header_error", id="no number"),
        pytest.param({"id": "e"}, {}, "mismatched_id", id="another id"),
        pytest.param({}, {"id": "e"}, "mismatched_id", id="another id in the body"),
        pytest.param({"version": "2"}, {}, "mismatched_id", id="another version"),
        pytest.param({"epoch": "2"}, {}, "mismatched_epoch", id="another epoch"),
        pytest.param({}, {"epoch": 2}, "mismatched_epoch", id="another epoch in the body"),
        pytest.param({}, {"epoch": "1"}, "invalid_attribute", id="an epoch that is no number"),
        pytest.param({"epoch": "1"}, {"epoch": 2}, "header_error", id="two epochs"),
        pytest.param({}, {"format": 5}, "invalid_attribute", id="a format that is no string"),
        pytest.param(
            {},
            {"schema": {}, "schemaurl": "x", "schemaformat": "y"},
            "one_resource",
            id="two schemas",
        ),
        pytest.param(
            {}, {"schema": {}}, "required_attribute_missing", id="a schema without its format"
        ),
        pytest.param(
            {"definitionURI": "https://x"}, {"name": "n"}, "header_error", id="body and elsewhere"
        ),
    ],
)
async def test_what_does_not_agree_is_refused(
    another: Another, headers: dict[str, str], body: dict[str, Any], error: str
) -> None:
    before = await another.node.state()
    answer = await another.put(headers, body)
    assert answer.error == error
    assert_problem(answer)
    assert await another.node.state() == before


async def test_a_header_twice_is_refused(defined: Node) -> None:
    headers = CIMultiDict([("Registry-name", "a"), ("Registry-name", "a")])
    async with defined.client.put(DEFINITION, headers=headers) as answer:
        assert (answer.status, (await answer.json())["type"][-12:]) == (400, "header_error")


async def test_metadata_is_not_in_headers_where_it_is_the_body(defined: Node) -> None:
    answer = await defined.send("PUT", f"{DEFINITION}?meta", CLOUDEVENT, Registry_name="n")
    assert answer.error == "header_error"


async def test_a_definition_group_needs_a_format(node: Node) -> None:
    path = f"{ROOT}/definitionGroups"
    assert (await node.send("POST", path, {"id": "g"})).error == "required_attribute_missing"
    await post(node, path, {"id": "g", "format": "NATS"})
    assert (await node.send("PUT", f"{path}/g", {})).error == "required_attribute_missing"


@pytest.mark.parametrize(
    ("body", "name"),
    [({"docs": "ftp://x/d"}, "docs"), ({"docs": ""}, "docs"), ({"origin": ""}, "origin")],
)
async def test_documentation_is_had_over_http_and_an_origin_is_not_empty(
    node: Node, body: dict[str, Any], name: str
) -> None:
    endpoint = {"id": "e", "usage": "producer", **body}
    refused = await node.send("POST", f"{ROOT}/endpoints", endpoint)
    assert (refused.error, refused.json["args"]["name"]) == ("invalid_attribute", name)
    endpoint = {"id": "e", "usage": "producer", "docs": "/docs", "origin": "https://far.example/e"}
    shown = (await post(node, f"{ROOT}/endpoints", endpoint)).json
    assert (shown["docs"], shown["origin"]) == ("/docs", "https://far.example/e")


async def test_headers_set_single_tags_and_delete_them(defined: Node) -> None:
    answer = await defined.request("PUT", DEFINITION, headers={"Registry-tags-owner": "J%C3%BCrg"})
    assert answer.status == 200
    assert (await defined.get(f"{DEFINITION}?meta"))["tags"] == {"owner": "Jürg"}
    assert (await defined.get(NATIVE))["labels"] == {"owner": "Jürg"}
    shown = await defined.send("GET", DEFINITION)
    assert shown.headers["Registry-tags-owner"] == "J%C3%BCrg"
    headers = {"Registry-tags-stage": "dev", "Registry-tags-Owner": ""}
    assert (await defined.request("PUT", DEFINITION, headers=headers)).status == 200
    assert (await defined.get(f"{DEFINITION}?meta"))["tags"] == {"stage": "dev"}
    body = {**CLOUDEVENT, "tags": {"stage": "live"}}
    refused = await defined.send("PUT", DEFINITION, body, Registry_tags_stage="dev")
    assert refused.error == "header_error"


async def test_a_deletion_expects_the_epoch_in_a_header(defined: Node) -> None:
    for path in (DEFINITION, f"{ROOT}/definitionGroups/g"):
        refused = await defined.request("DELETE", path, headers={"Registry-epoch": "77"})
        assert refused.error == "mismatched_epoch", path
        epoch = str((await defined.get(f"{path}?meta"))["epoch"])
        deleted = await defined.request("DELETE", path, headers={"Registry-epoch": epoch})
        assert deleted.status == 200


async def test_a_name_that_is_only_shown_for_want_of_one_is_not_written(node: Node) -> None:
    await node.put(NATIVE, {"protocol": "HTTP"})
    for path in (f"{ROOT}/definitionGroups/g", DEFINITION, f"{DEFINITION}?meta"):
        await node.put(path, await node.get(path))
    assert "name" not in await node.get(NATIVE)
    assert "name" not in await node.get("/messagegroups/g")
    assert (await node.get(NATIVE))["protocol"] == "HTTP"


async def test_the_epoch_in_the_url_counts_too(defined: Node) -> None:
    refused = await defined.send("PUT", f"{DEFINITION}?epoch=7", CLOUDEVENT)
    assert refused.error == "mismatched_epoch"
    refused = await defined.send("PUT", f"{DEFINITION}?epoch=1", CLOUDEVENT, Registry_epoch="2")
    assert refused.error == "bad_request"
    assert (await defined.send("PUT", f"{DEFINITION}?epoch=1", CLOUDEVENT)).status == 200


async def test_a_new_version_cannot_choose_its_number(defined: Node) -> None:
    refused = await defined.send("POST", DEFINITION, CLOUDEVENT, Registry_version="2")
    assert refused.error == "header_error"
    refused = await defined.send("POST", DEFINITION, CLOUDEVENT, Registry_epoch="2")
    assert refused.error == "mismatched_epoch"
    added = await post(defined, DEFINITION, CLOUDEVENT, Registry_epoch="1")
    assert (added.json["version"], added.json["description"]) == (2, "about")


async def test_versions_that_are_added_at_once_all_get_numbers(defined: Node) -> None:
    answers = await asyncio.gather(
        *(defined.send("POST", DEFINITION, {"format": "HTTP/2"}) for _ in range(5))
    )
    assert [answer.status for answer in answers] == [201] * 5
    assert {*await defined.get(f"{DEFINITION}/versions")} == {"1", "2", "3", "4", "5", "6"}


async def test_a_new_version_is_the_latest_beside_an_id_that_is_no_number(defined: Node) -> None:
    versions = {"2": {"format": "HTTP/2"}, "1234567890123456": {"format": "HTTP/2"}}
    await defined.put("/messagegroups/g/messages/n", {"versions": versions})
    added = await post(defined, f"{DEFINITIONS_OF_G}/n", {"format": "NATS"})
    assert added.json["version"] == 3
    assert (await defined.get(f"{DEFINITIONS_OF_G}/n"))["format"] == "NATS"


async def test_an_older_version_is_updated_alone(defined: Node) -> None:
    await post(defined, DEFINITION, {"format": "HTTP/2"})
    path = f"{DEFINITION}/versions/1"
    await defined.put(path, {"format": "AMQP/1.0"})
    assert (await defined.get(path))["format"] == "AMQP/1.0"
    assert (await defined.get(DEFINITION))["format"] == "HTTP/2"
    await defined.put(f"{path}?meta", {"format": "NATS", "name": "x"})
    shown = await defined.get(path)
    assert (shown["format"], shown["name"], shown["description"]) == ("NATS", "x", "about")


async def test_an_update_of_metadata_keeps_what_a_definition_says(defined: Node) -> None:
    metadata = {"attributes": {"type": {"value": "t"}, "subject": {"type": "urireference"}}}
    await defined.put(DEFINITION, {"format": "CloudEvents/1.0", "metadata": metadata})
    await defined.put(
        f"{DEFINITION}?meta", {"schemaformat": "Avro", "schemaurl": "https://a.example"}
    )
    shown = await defined.put(f"{DEFINITION}?meta", {"id": "d", "name": "Another"})
    assert (shown["format"], shown["metadata"]) == ("CloudEvents/1.0", metadata)
    shown = await defined.put(f"{DEFINITION}?meta", {"schema": {"type": "record"}})
    assert (shown["schema"], "schemaurl" in shown) == ({"type": "record"}, False)
    shown = await defined.put(f"{DEFINITION}?meta", {"format": "NATS"})
    assert (shown["format"], "metadata" in shown) == ("NATS", False)


MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"tags": {"": "x"}}, "tags."),
    ({"tags": {"-a": "x"}}, "tags.-a"),
    ({"tags": {"a" * 64: "x"}}, f"tags.{'a' * 64}"),
    ({"tags": {"a": 1}}, "tags.a"),
    ({"format": ""}, "format"),
    ({"createdOn": "yesterday"}, "createdOn"),
    ({"modifiedOn": 5}, "modifiedOn"),
    ({"more": 1, "More": 2}, "More"),
    ({"Name": "n"}, "Name"),
    ({"createdby": "n"}, "createdby"),
]


@pytest.mark.parametrize(("body", "name"), MALFORMED, ids=str)
async def test_what_the_draft_rules_out_is_refused(
    defined: Node, body: dict[str, Any], name: str
) -> None:
    """CloudEvents Registry 0.4, "Attributes"."""
    before = await defined.state()
    nested = {"id": "h", "format": "NATS", "definitions": {"e": {**CLOUDEVENT, **body}}}
    for method, path, sent in (
        ("POST", f"{ROOT}/definitionGroups", {"id": "h", "format": "NATS", **body}),
        ("POST", f"{ROOT}/definitionGroups", nested),
        ("PUT", f"{ROOT}/definitionGroups/g", {"format": "NATS", **body}),
        ("POST", DEFINITIONS_OF_G, {"id": "e", **body}),
        ("PUT", DEFINITION, body),
        ("PUT", f"{DEFINITION}?meta", body),
    ):
        problem = assert_problem(await defined.send(method, path, sent))
        assert (problem["type"].rpartition("#")[2], problem["args"]["name"]) == (
            "invalid_attribute",
            name,
        ), path
    assert await defined.state() == before


@pytest.mark.parametrize(
    ("format", "metadata", "name"),
    [
        ("CloudEvents/1.0", {"attributes": {"source": {"type": "bogus"}}}, "attributes.source"),
        ("AMQP/1.0", {"properties": {"to": {"type": "bogus"}}}, "properties.to"),
        ("MQTT/5.0", {"topic-name": {"type": "bogus", "value": "t"}}, "topic-name"),
        ("Kafka", {"headers": {"h": {"type": "bogus"}}}, "headers.h"),
    ],
)
async def test_a_property_of_a_type_that_is_none_is_refused(
    defined: Node, format: str, metadata: dict[str, Any], name: str
) -> None:
    answer = await defined.send("PUT", DEFINITION, {"format": format, "metadata": metadata})
    assert (answer.status, answer.error) == (400, "invalid_attribute")
    assert answer.json["args"]["name"] == f"metadata.{name}.type"


async def test_a_header_may_be_called_type(defined: Node) -> None:
    body = {"format": "Kafka", "metadata": {"headers": {"type": "a"}, "key": {"value": "k"}}}
    assert (await defined.put(DEFINITION, body))["metadata"] == body["metadata"]


async def test_the_time_of_creation_is_kept_where_a_client_says_it(node: Node) -> None:
    moment = {"createdOn": "2020-01-01T00:00:00Z"}
    definition = {**CLOUDEVENT, **moment}
    group = {"id": "g", "format": "CloudEvents/1.0", **moment, "definitions": {"d": definition}}
    assert (await post(node, f"{ROOT}/definitionGroups", group)).json["createdOn"] == moment[
        "createdOn"
    ]
    assert (await node.get(NATIVE))["createdat"] == moment["createdOn"]
    await post(node, DEFINITIONS_OF_G, {"id": "e", **definition})
    assert (await node.get("/messagegroups/g/messages/e"))["createdat"] == moment["createdOn"]
    added = (await post(node, DEFINITION, {**definition, "name": "next"})).json
    assert added["createdOn"] > moment["createdOn"], "a new version is not as old as the one before"


async def test_references_have_the_names_of_the_dialect_that_is_asked(node: Node) -> None:
    """As documents that were imported have them: pointers, by the newest names."""
    base = node.url
    await node.put(
        "/messagegroups/g/messages/d",
        {"dataschemaformat": "Avro", "dataschemauri": "#/schemagroups/s/schemas/t/versions/1"},
    )
    groups = ["#/messagegroups/g", "/messagegroups/h", f"{base}/messagegroups/i"]
    await node.put("/endpoints/e", {"usage": ["consumer"], "messagegroups": groups})
    shown = await node.get(f"{ROOT}/endpoints/e")
    assert shown["definitionGroups"] == [
        "#/definitionGroups/g",
        "#/definitionGroups/h",
        f"{base}{ROOT}/definitionGroups/i",
    ]
    assert (await node.get(DEFINITION))["schemaurl"] == "#/schemaGroups/s/schemas/t/versions/1"
    await node.put(f"{ROOT}/endpoints/e", {**shown, "name": "E"})
    assert (await node.get("/endpoints/e"))["messagegroups"] == groups
    written = {"definitionGroups": ["#/definitionGroups/j", f"{base}{ROOT}/definitionGroups/k"]}
    await node.put(f"{ROOT}/endpoints/e", written)
    native = (await node.get("/endpoints/e"))["messagegroups"]
    assert native == ["/messagegroups/j", f"{base}/messagegroups/k"]
    assert (await node.get(f"{ROOT}/endpoints/e")).items() >= written.items()


async def test_a_definition_elsewhere_is_a_redirection(defined: Node) -> None:
    headers = {"Registry-definitionURI": "https://example.com/d"}
    assert (await defined.request("PUT", DEFINITION, headers=headers)).status == 200
    answer = await defined.send("GET", DEFINITION)
    assert (answer.status, answer.headers["Location"]) == (307, "https://example.com/d")
    assert (await defined.put(DEFINITION, CLOUDEVENT))["format"] == "CloudEvents/1.0"
    assert (await defined.send("GET", DEFINITION)).status == 200


async def test_every_definition_of_the_seed_is_taken_and_given_back(node: Node) -> None:
    definitions: dict[str, Any] = {f"d{number}": body for number, body in enumerate(DEFINITIONS)}
    group = {"id": "g", "format": "CloudEvents/1.0", "definitions": definitions}
    await post(node, f"{ROOT}/definitionGroups", group)
    shown = (await node.get(f"{ROOT}/definitionGroups/g?inline"))["definitions"]
    for id, body in definitions.items():
        assert {k: v for k, v in shown[id].items() if k not in SERVED | {"name"}} == body


async def test_every_endpoint_of_the_seed_is_taken_and_given_back(node: Node) -> None:
    for id, body in ENDPOINTS.items():
        shown = (await post(node, f"{ROOT}/endpoints", {"id": id, **body})).json
        assert shown.items() >= body.items()


async def test_the_compact_example_is_taken_whole(node: Node) -> None:
    definition = {**TELEMETRY, "schema": PROTO.format(more="")}
    del definition["schemaurl"]
    endpoint = {**ENDPOINTS["telemetry"], "definitions": {"com.example.telemetry": definition}}
    await post(node, f"{ROOT}/endpoints", {"id": "com.example.telemetry", **endpoint})
    shown = await node.get(f"{ROOT}/endpoints/com.example.telemetry?inline")
    assert shown["definitionsCount"] == 1
    assert shown["definitions"]["com.example.telemetry"].items() >= definition.items()
    message = "/endpoints/com.example.telemetry/messages/com.example.telemetry"
    assert (await node.get(message))["dataschema"] == definition["schema"]


async def test_the_example_of_three_versions_is_taken_whole(node: Node) -> None:
    more = ["", "string unit = 2; ", "string unit = 2; string description = 3; "]
    texts = {f"{number}.0": PROTO.format(more=text) for number, text in enumerate(more, 1)}
    schema = {
        "id": "com.example.telemetrydata",
        "description": "device telemetry event data",
        "format": "Protobuf/3",
        "versions": {vid: {"id": vid, "schema": text} for vid, text in texts.items()},
    }
    body = {"id": "g", "type": "schemagroup", "schemas": {"com.example.telemetrydata": schema}}
    await post(node, f"{ROOT}/schemaGroups", body)
    path = f"{ROOT}/schemaGroups/g/schemas/com.example.telemetrydata"
    latest = await node.send("GET", path)
    assert latest.body.decode() == texts["3.0"]
    assert latest.headers["Registry-version"] == "3.0"
    for vid, text in texts.items():
        assert (await node.send("GET", f"{path}/versions/{vid}")).body.decode() == text
    assert (await node.get(f"{ROOT}/schemaGroups/g"))["type"] == "schemagroup"


async def test_a_group_whose_resources_are_wrong_is_refused_whole(node: Node) -> None:
    wrong: tuple[Any, ...] = ({"d": {"id": "e"}}, {"d": []}, [], {"d": {"format": []}})
    for definitions in wrong:
        body = {"id": "g", "format": "NATS", "definitions": definitions}
        assert_problem(await node.send("POST", f"{ROOT}/definitionGroups", body))
        assert await node.get(f"{ROOT}/definitionGroups") == {}


async def test_a_native_client_sees_the_newest_shape(defined: Node) -> None:
    await defined.put(DEFINITION, {**TELEMETRY, "tags": {"a": "b"}, "docs": "https://example.com"})
    message = await defined.get(NATIVE)
    assert (
        message.items()
        >= {
            "envelope": "CloudEvents/1.0",
            "dataschemaformat": "Protobuf/3.0",
            "dataschemauri": "/schemagroups/g/schemas/s/versions/1.0",
            "labels": {"a": "b"},
            "documentation": "https://example.com",
        }.items()
    )
    assert message["envelopemetadata"]["time"] == {"type": "timestamp", "required": True}


async def test_what_a_native_client_writes_shows_in_the_older_shape(node: Node) -> None:
    endpoint = {
        "usage": ["producer", "consumer"],
        "protocol": "MQTT/5.0",
        "protocoloptions": {
            "endpoints": [{"uri": "mqtt://a"}],
            "topic": "t",
            "cleanstart": True,
            "deployed": True,
        },
        "messagegroups": ["/messagegroups/g"],
        "envelope": "CloudEvents/1.0",
        "labels": {"a": "b"},
        "icon": "https://example.com/i",
    }
    await node.put("/endpoints/e", endpoint)
    shown = await node.get(f"{ROOT}/endpoints/e")
    assert (
        shown.items()
        >= {
            "usage": "producer",
            "format": "CloudEvents/1.0",
            "definitionGroups": ["#/definitionGroups/g"],
            "tags": {"a": "b"},
        }.items()
    )
    assert (
        shown["config"].items()
        >= {"protocol": "MQTT/5.0", "strict": True, "endpoints": ["mqtt://a"]}.items()
    )
    assert shown["config"]["options"].items() >= {"topic": "t", "clean-session": True}.items()
    await node.put(f"{ROOT}/endpoints/e", shown)
    after = await node.get("/endpoints/e")
    assert {name: after[name] for name in ("usage", "icon", "messagegroups")} == {
        name: endpoint[name] for name in ("usage", "icon", "messagegroups")
    }


@pytest.mark.parametrize("path", [f"{ROOT}/endpoints", DEFINITIONS_OF_G, f"{ROOT}/schemaGroups"])
async def test_hostile_bodies_are_refused(another: Another, path: str) -> None:
    before = await another.node.state()
    headers = {"Content-Type": "application/json"}
    for body in (b"[1]", b"{", b'{"id": 5}', b'{"id": "-/"}', b"\xff", b"[" * 500):
        for method in ("POST", "DELETE"):
            answer = await another.node.request(method, path, body=body, headers=headers)
            assert_problem(answer)
    assert await another.node.state() == before


async def test_any_definition_is_given_back_over_http(defined: Node) -> None:
    loop = asyncio.get_running_loop()
    held: set[str] = {"description", "format", "metadata"}

    @FEW
    @given(COMMON, FORMATS, EXTENSIONS)
    def check(common: dict[str, Any], format: dict[str, Any], extra: dict[str, Any]) -> None:
        body = {**common, **format, **extra}
        put = defined.put(f"{DEFINITION}?meta", {**dict.fromkeys(held), **body})
        shown = asyncio.run_coroutine_threadsafe(put, loop).result(20)
        held.update(shown.keys() - SERVED)
        assert {k: v for k, v in shown.items() if k in body} == body
        assert shown.keys() <= body.keys() | SERVED | {"name"}

    await asyncio.to_thread(check)


async def test_any_endpoint_is_given_back_over_http(node: Node) -> None:
    await post(node, f"{ROOT}/endpoints", {"id": "e"})
    loop = asyncio.get_running_loop()

    @FEW
    @given(COMMON, ENDPOINT, EXTENSIONS)
    def check(common: dict[str, Any], endpoint: dict[str, Any], extra: dict[str, Any]) -> None:
        body = {**common, **endpoint, **extra}
        put = node.put(f"{ROOT}/endpoints/e", body)
        shown = asyncio.run_coroutine_threadsafe(put, loop).result(20)
        assert {k: v for k, v in shown.items() if k in body} == body

    await asyncio.to_thread(check)
