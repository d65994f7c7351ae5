"""The registry as a document of the CloudEvents registry: media types, editions, hostile ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from catalog.documents.migration import DOCUMENT_SCHEMA
from catalog.documents.serialization import parse_yaml, to_yaml
from tests.integration.conftest import Node, assert_problem, start_node

JSON = "application/cloudevents-registry+json"
YAML = "application/cloudevents-registry+yaml"
CRM = Path(__file__).parent.parent / "documents" / "spec" / "contoso-crm.cereg.yaml"
TELEMETRY: dict[str, Any] = {
    "$schema": DOCUMENT_SCHEMA,
    "specversion": "0.4-wip",
    "id": "urn:uuid:3978344f-8596-4c3a-a978-8fc9a6a469f7",
    "name": "Telemetry",
    "endpointsCount": 1,
    "endpoints": {
        "com.example.telemetry": {
            "id": "com.example.telemetry",
            "usage": "consumer",
            "config": {
                "protocol": "MQTT/5.0",
                "strict": False,
                "endpoints": ["mqtt://mqtt.example.com:1883"],
                "options": {"topic": "{deviceid}/telemetry"},
            },
            "format": "CloudEvents/1.0",
            "definitionGroups": ["#/definitionGroups/com.example.telemetryEvents"],
        }
    },
    "definitionGroupsCount": 1,
    "definitionGroups": {
        "com.example.telemetryEvents": {
            "id": "com.example.telemetryEvents",
            "createdBy": "J",
            "definitions": {
                "com.example.telemetry": {
                    "id": "com.example.telemetry",
                    "format": "CloudEvents/1.0",
                    "metadata": {"attributes": {"time": {"type": "datetime", "required": True}}},
                    "schemaformat": "Protobuf/3.0",
                    "schemaurl": "#/schemaGroups/com.example.telemetry/schema/data/versions/1.0",
                }
            },
        }
    },
    "schemaGroups": {
        "com.example.telemetry": {
            "id": "com.example.telemetry",
            "schemas": {
                "data": {
                    "id": "data",
                    "format": "Protobuf/3",
                    "versions": {
                        "1.0": {
                            "id": "1.0",
                            "schema": 'syntax = "proto3"; message Metrics { float metric = 1; }',
                        }
                    },
                }
            },
        }
    },
}
MESSAGE = "/messagegroups/com.example.telemetryEvents/messages/com.example.telemetry"


@pytest.mark.parametrize("media_type", [JSON, YAML])
@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
async def test_a_document_of_an_early_edition_becomes_entities(
    node: Node, method: str, media_type: str
) -> None:
    body = to_yaml(TELEMETRY) if media_type == YAML else orjson.dumps(TELEMETRY)
    answer = await node.send(method, "/", body=body, Content_Type=media_type)
    assert answer.status == 200, answer.body
    endpoint = await node.get("/endpoints/com.example.telemetry")
    assert endpoint["usage"] == ["consumer"]
    assert endpoint["messagegroups"] == ["/messagegroups/com.example.telemetryEvents"]
    assert endpoint["protocoloptions"]["endpoints"] == [{"uri": "mqtt://mqtt.example.com:1883"}]
    message = await node.get(MESSAGE)
    assert message["envelopemetadata"]["time"] == {"type": "timestamp", "required": True}
    assert message["dataschemauri"].startswith("/schemagroups/com.example.telemetry/schemas/data")
    group = await node.get("/messagegroups/com.example.telemetryEvents")
    assert group["older"] == {"createdBy": "J"}
    root = await node.get("/")
    assert root.get("name") == (None if method == "POST" else "Telemetry")


async def test_a_document_is_given_in_the_edition_that_a_client_understands(node: Node) -> None:
    await node.send("POST", "/", body=CRM.read_bytes(), Content_Type=YAML)
    answer = await node.send("GET", "/export", Accept=f'{YAML};specversion="0.4-wip", */*;q=0.1')
    assert answer.status == 200
    assert answer.headers["Content-Type"] == f"{YAML}; specversion=0.4-wip; charset=utf-8"
    assert "Accept" in answer.headers["Vary"]
    document = parse_yaml(answer.body)
    assert document["$schema"] == DOCUMENT_SCHEMA
    definition = document["definitionGroups"]["Contoso.CRM.Events"]["definitions"][
        "Contoso.CRM.Events.CustomerCreated"
    ]
    assert definition["format"] == "CloudEvents/1.0"
    assert definition["metadata"]["attributes"]["source"]["value"] == "/crm/customers"
    endpoint = document["endpoints"]["Contoso.CRM.Eventing.Http"]
    assert endpoint["config"]["endpoints"] == ["https://erpsystem.com/events"]


@pytest.mark.parametrize(
    "media_type", [f"{JSON};specversion=0.5", f"{YAML};specversion=1.0-rc1", YAML]
)
async def test_what_is_given_may_be_sent_back(
    node: Node, other_database_url: str, media_type: str
) -> None:
    await node.send("POST", "/", body=CRM.read_bytes(), Content_Type=YAML)
    given = await node.send("GET", "/export", Accept=media_type)
    async with start_node(other_database_url) as other:
        sent = await other.send(
            "POST", "/", body=given.body, Content_Type=given.headers["Content-Type"]
        )
        assert sent.status == 200, sent.body
        place = "/messagegroups/Contoso.CRM.Events/messages/Contoso.CRM.Events.CustomerDeleted"
        mine, theirs = await node.get(place), await other.get(place)
        for message in (mine, theirs):
            for name in ("self", "metaurl", "versionsurl", "epoch", "modifiedat"):
                del message[name]
        assert theirs == mine


async def test_each_representation_has_its_own_tag(node: Node) -> None:
    plain = await node.send("GET", "/export")
    document = await node.send("GET", "/export", Accept=YAML)
    assert plain.headers["Content-Type"].startswith("application/json")
    assert plain.headers["ETag"] != document.headers["ETag"]
    tags = {"If-None-Match": document.headers["ETag"]}
    assert (await node.request("GET", "/export", headers={"Accept": YAML, **tags})).status == 304
    assert (await node.request("GET", "/export", headers=tags)).status == 200


async def test_the_root_is_a_document_and_head_tells_of_it(node: Node) -> None:
    shown = await node.send("GET", "/", Accept=JSON)
    assert shown.json["$schema"] == DOCUMENT_SCHEMA
    assert shown.json["registryid"] == "test"
    told = await node.send("HEAD", "/", Accept=JSON)
    assert told.headers["Content-Type"] == shown.headers["Content-Type"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"a: &a [*a]\n", "stands for what it is in"),
        (b"a: &a {b: {c: {}}}\nd: [" + b"*a," * 40_000 + b"]\n", "aliases"),
        (b"name: a\nname: b\n", "the key 'name' is there twice"),
        (b"a: " + b"[" * 5000, "deeper"),
        (b"a: !!python/object:os.system x", "tag"),
        (b"? [a, b]\n: 1\n", "key is no text"),
        (b"a: b: c", "not allowed"),
        (b"- a", "an object is needed"),
        (b"\xff\xfe\x00", "error"),
    ],
)
async def test_hostile_yaml_is_refused(node: Node, body: bytes, reason: str) -> None:
    answer = await node.send("POST", "/", body=body, Content_Type=YAML)
    assert answer.status == 400
    assert answer.error == "parsing_data"
    assert reason in assert_problem(answer)["title"] or reason == "error"


async def test_yaml_is_not_taken_as_anything_else(node: Node) -> None:
    answer = await node.send("PUT", "/messagegroups/g", body=b"name: x", Content_Type=YAML)
    assert (answer.status, answer.error) == (415, "unsupported_media_type")


async def test_a_document_that_is_too_large_to_be_made_whole_is_refused(
    database_url: str,
) -> None:
    async with start_node(database_url, max_body_bytes=20_000) as node:
        await node.send("PUT", "/messagegroups/g", {"name": "x" * 15_000})
        await node.send("PUT", "/messagegroups/h", {"name": "x" * 15_000})
        assert (await node.send("GET", "/export")).status == 200
        answer = await node.send("GET", "/export", Accept=YAML)
        assert (answer.status, answer.error) == (406, "too_large")


async def test_aliases_of_yaml_stand_for_what_they_name(node: Node) -> None:
    body = b"messagegroups:\n  a: {labels: &labels {team: one}}\n  b: {labels: *labels}\n"
    answer = await node.send("POST", "/", body=body, Content_Type=YAML)
    assert answer.status == 200, answer.body
    assert (await node.get("/messagegroups/b"))["labels"] == {"team": "one"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"name": "a", "name": "b"}',
        b'{"labels": {"a": "x", "\\u0061": ""}}',
        pytest.param(b'{"name": "a", "name": "b"' + b" " * 2**19 + b"}", id="in a large body"),
    ],
)
async def test_a_key_that_is_there_twice_with_different_values_is_refused(
    node: Node, body: bytes
) -> None:
    answer = await node.send("PUT", "/messagegroups/g", body=body, Content_Type="application/json")
    assert (answer.status, answer.error) == (400, "parsing_data")
    assert "is there twice with different values" in assert_problem(answer)["title"]
    same = body.replace(b'"b"', b'"a"').replace(b'""', b'"x"')
    kept = await node.send("PUT", "/messagegroups/g", body=same, Content_Type="application/json")
    assert kept.status == 201, kept.body
