"""The Message Catalog API over HTTP: what its clients write, read and delete."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from catalog.model.caller import Author, node_caller
from catalog.model.entity import Entity
from catalog.model.errors import NotFound
from catalog.model.interaction import GroupUpsert, Interaction
from catalog.model.xid import Xid
from catalog.store.writes import Write, write
from tests.integration.conftest import Answer, Node, assert_problem, start_node

GROUP = "/messagecatalog/mygroup"
DEFINITIONS = f"{GROUP}/messagedefinitions"
DELETED = {
    "id": "io.cloudevents.messagecatalog.deleted.v1",
    "description": "Raised when an object has been deleted from the catalog",
    "format": "CloudEvents",
    "version": 1,
    "definition": {
        "attributes": {
            "specversion": {"value": "1.0"},
            "type": {"value": "io.cloudevents.messagecatalog.deleted.v1"},
        }
    },
}
STORED: dict[str, Any] = {
    "id": "com.example.storage.object.created",
    "description": "Raised when an object has been created",
    "format": "CloudEvents",
    "version": 1,
    "definition": {
        "attributes": {
            "specversion": {"value": "1.0"},
            "type": {"value": "com.example.storage.object.created"},
            "subject": {"value": "/{container}/{filepath}"},
            "dataschema": {
                "value": "http://schemas.example.com/schemagroups/storage/schema/objectcreated/version/1"
            },
            "datacontenttype": {"value": "application/json"},
        }
    },
}
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema",
    "StorageObjectCreated": {
        "type": "object",
        "properties": {
            "container": {"type": "string"},
            "filepath": {"type": "string"},
            "filesize": {"type": "number"},
        },
    },
}
INLINED = {
    **STORED,
    "definition": {
        "attributes": {
            **STORED["definition"]["attributes"],
            "dataschema": {"schematype": "JSON", "schema": SCHEMA},
        }
    },
}
AMQP = {
    "header": {"durable": True, "priority": 5, "ttl": 1000},
    "properties": {
        "messageid": {"value": "{id}", "required": True},
        "userid": {"value": "aGVsbG8="},
        "contenttype": {"value": "application/json"},
        "creationtime": {"value": ""},
        "groupsequence": {"value": "{n}"},
    },
    "applicationproperties": {"colour": {"value": "red", "description": "Of the thing"}},
    "messageannotations": {"x-opt-Partition": {"value": "{key}"}},
    "applicationdata": {
        "dataschema": {"schematype": "Avro", "schema": {"type": "string"}},
        "amqpencoding": "Value",
    },
}
MQTT = {
    "publish": {
        "qos": 1,
        "retain": False,
        "topicname": "/devices/{device}/state",
        "payloadformat": 1,
        "expiryinterval": 60,
        "contenttype": "text/plain",
    },
    "userproperty": {"Trace": {"value": "{trace}"}},
    "payload": {"dataschema": {"value": "https://example.com/schemas/state"}},
}
NATS = {"pub": {"subject": "orders.{region}", "replyto": "inbox"}}


def as_written(shown: dict[str, Any]) -> dict[str, Any]:
    assigned = ("createdtimeutc", "updatedtimeutc")
    return {name: value for name, value in shown.items() if name not in assigned}


def event(id: str, **changes: Any) -> dict[str, Any]:
    definition = {"attributes": {"type": {"value": id}}}
    return {"id": id, "definition": definition, **changes}


async def group(node: Node, id: str = "mygroup", **attributes: Any) -> dict[str, Any]:
    shown = await node.put(f"/messagecatalog/{id}", {"format": "CloudEvents", **attributes})
    assert isinstance(shown, dict)
    return shown


async def post(node: Node, body: dict[str, Any], *, to: str = "mygroup") -> dict[str, Any]:
    answer = await node.send("POST", f"/messagecatalog/{to}/messagedefinitions", body)
    assert answer.status == 201, answer.body
    shown = answer.json
    assert isinstance(shown, dict)
    return shown


async def refused(node: Node, body: dict[str, Any], *, to: str = "mygroup") -> Answer:
    answer = await node.send("POST", f"/messagecatalog/{to}/messagedefinitions", body)
    assert_problem(answer)
    return answer


async def test_a_group_is_created_and_updated_at_its_path(node: Node) -> None:
    written = {
        "id": "mygroup",
        "format": "CloudEvents",
        "description": "This group holds definitions for an app",
        "documentation": "**All** of them",
        "documentationformat": "Markdown",
        "tags": "exampleapp,examplecorp",
    }
    created = await node.send("PUT", GROUP, written)
    assert (created.status, as_written(created.json)) == (201, written)
    assert created.json["createdtimeutc"] == created.json["updatedtimeutc"]
    assert await node.get(GROUP) == created.json
    updated = await node.send("PUT", GROUP, {"format": "CloudEvents", "tags": "new"})
    assert updated.status == 200
    assert as_written(updated.json) == {"id": "mygroup", "format": "CloudEvents", "tags": "new"}
    assert updated.json["createdtimeutc"] == created.json["createdtimeutc"]
    assert updated.json["updatedtimeutc"] > created.json["updatedtimeutc"]


async def test_groups_are_listed_by_id_in_pages(node: Node) -> None:
    assert await node.get("/messagecatalog") == []
    for id in ("org.example.myapp.module", "my-group", "events@example.com"):
        await group(node, id)
    assert await node.get("/messagecatalog/") == [
        "events@example.com",
        "my-group",
        "org.example.myapp.module",
    ]
    first = await node.send("GET", "/messagecatalog?limit=2")
    assert first.json == ["events@example.com", "my-group"]
    [link] = [one for one in first.headers.getall("Link") if "rel=next" in one]
    following = await node.send("GET", link[1 : link.index(">")].removeprefix(node.url))
    assert following.json == ["org.example.myapp.module"]
    assert not any("rel=next" in one for one in following.headers.getall("Link"))


async def test_the_format_of_a_group_never_changes(node: Node) -> None:
    await group(node)
    answer = await node.send("PUT", GROUP, {"format": "AMQP"})
    assert (answer.status, answer.error) == (409, "conflict")
    assert (await node.get(GROUP))["format"] == "CloudEvents"


BAD_GROUPS: list[tuple[str, dict[str, Any]]] = [
    ("/messagecatalog/g", {}),
    ("/messagecatalog/g", {"format": ""}),
    ("/messagecatalog/g", {"format": "cloudevents"}),
    ("/messagecatalog/g", {"format": "NATS", "id": "other"}),
    ("/messagecatalog/g", {"format": "NATS", "tags": ["a"]}),
    ("/messagecatalog/g", {"format": "NATS", "compatibility": "maybe"}),
    ("/messagecatalog/a:b", {"format": "NATS"}),
    ("/messagecatalog/-a", {"format": "NATS"}),
    ("/messagecatalog/a%2Fb", {"format": "NATS"}),
]


async def test_a_group_that_breaks_the_rules_is_refused(node: Node) -> None:
    before = await node.state()
    for path, body in BAD_GROUPS:
        answer = await node.send("PUT", path, body)
        assert_problem(answer)
        assert answer.status == 400, (path, body)
    assert await node.state() == before


@pytest.mark.parametrize("example", [DELETED, STORED, INLINED], ids=["deleted", "ref", "inline"])
async def test_every_example_of_a_definition_reads_back_as_it_was_written(
    node: Node, example: dict[str, Any]
) -> None:
    await group(node)
    answer = await node.send("POST", f"{DEFINITIONS}/", example)
    assert (answer.status, as_written(answer.json)) == (201, example)
    path = f"{DEFINITIONS}/{example['id']}"
    assert answer.headers["Location"] == f"{node.url}{path}/versions/1"
    assert await node.get(path) == await node.get(f"{path}/versions/1") == answer.json


@pytest.mark.parametrize(
    ("format", "definition"),
    [("AMQP", AMQP), ("MQTT", MQTT), ("NATS", NATS), ("Smoke signals", {"puffs": [1, None]})],
)
async def test_a_definition_of_every_format_reads_back_as_it_was_written(
    node: Node, format: str, definition: dict[str, Any]
) -> None:
    await group(node, format=format)
    shown = await post(node, {"id": "m", "definition": definition})
    assert (shown["format"], shown["definition"]) == (format, definition)
    assert (await node.get(GROUP))["format"] == format
    assert await node.get(f"{DEFINITIONS}/m") == shown


async def test_native_clients_see_a_cloudevent_as_they_would_have_written_it(node: Node) -> None:
    await group(node)
    await post(node, INLINED)
    assert (await node.get("/messagegroups/mygroup"))["envelope"] == "CloudEvents/1.0"
    message = await node.get("/messagegroups/mygroup/messages/com.example.storage.object.created")
    assert message["envelope"] == "CloudEvents/1.0"
    assert message["envelopemetadata"]["subject"] == {
        "type": "uritemplate",
        "value": "/{container}/{filepath}",
        "required": False,
    }
    assert message["envelopemetadata"]["type"]["required"] is True
    assert (message["dataschemaformat"], message["dataschema"]) == ("JSONSchema/draft-07", SCHEMA)
    assert message["datacontenttype"] == "application/json"
    assert message["description"] == INLINED["description"]
    assert "messagecatalog" not in message


async def test_native_clients_see_the_options_of_protocols(node: Node) -> None:
    for format, definition in (("AMQP", AMQP), ("MQTT", MQTT), ("NATS", NATS)):
        await group(node, format, format=format)
        await post(node, {"id": "m", "definition": definition}, to=format)
    amqp, mqtt, nats = [
        await node.get(f"/messagegroups/{name}/messages/m") for name in ("AMQP", "MQTT", "NATS")
    ]
    assert amqp["protocol"] == "AMQP/1.0"
    assert amqp["protocoloptions"]["header"]["priority"] == 5
    assert amqp["protocoloptions"]["properties"]["message-id"] == {
        "type": "uritemplate",
        "value": "{id}",
        "required": True,
    }
    assert (amqp["dataschemaformat"], amqp["datacontenttype"]) == ("Avro", "application/json")
    assert mqtt["protocol"] == "MQTT/5.0"
    assert mqtt["protocoloptions"]["topic_name"] == "/devices/{device}/state"
    assert mqtt["protocoloptions"]["user_properties"] == [{"name": "Trace", "value": "{trace}"}]
    assert mqtt["dataschemauri"] == "https://example.com/schemas/state"
    assert nats["protocol"] == "NATS"
    assert nats["protocoloptions"] == {"subject": "orders.{region}", "reply": "inbox"}


async def test_a_native_message_is_a_definition_with_all_that_both_have(node: Node) -> None:
    await node.put(
        "/messagegroups/g/messages/order.placed",
        {
            "description": "Food order",
            "documentation": "https://example.com/orders",
            "envelope": "CloudEvents/1.0",
            "envelopemetadata": {
                "type": {"value": "order.placed"},
                "subject": {"value": "{order}", "required": True, "description": "Which one"},
            },
            "protocol": "KAFKA",
            "dataschemaformat": "JSONSchema/draft-07",
            "dataschemauri": "https://example.com/order.json",
            "labels": {"team": "kitchen"},
        },
    )
    assert await node.get("/messagecatalog/g/messagedefinitions") == ["order.placed"]
    shown = await node.get("/messagecatalog/g/messagedefinitions/order.placed")
    assert as_written(shown) == {
        "id": "order.placed",
        "version": 1,
        "format": "CloudEvents",
        "description": "Food order",
        "documentation": "https://example.com/orders",
        "documentationformat": "URL",
        "definition": {
            "attributes": {
                "type": {"value": "order.placed"},
                "subject": {"value": "{order}", "required": True, "description": "Which one"},
                "dataschema": {"value": "https://example.com/order.json", "schematype": "JSON"},
            }
        },
    }


async def test_what_a_native_client_changes_is_what_a_definition_says(node: Node) -> None:
    await group(node)
    written = event("a", definition={"attributes": {"type": {"value": "a", "required": True}}})
    assert (await post(node, written))["definition"] == written["definition"]
    answer = await node.send(
        "PATCH",
        "/messagegroups/mygroup/messages/a",
        {"envelopemetadata": {"type": {"value": "a"}, "time": {"value": "2020-10-30T17:31:00Z"}}},
    )
    assert answer.status == 200
    shown = await node.get(f"{DEFINITIONS}/a")
    assert shown["definition"]["attributes"] == {
        "type": {"value": "a"},
        "time": {"value": "2020-10-30T17:31:00Z"},
    }


async def test_what_natives_alone_can_say_of_a_group_survives_a_put(node: Node) -> None:
    await node.put(
        "/messagegroups/mygroup",
        {"name": "Mine", "labels": {"a": "b"}, "envelope": "CloudEvents/1.0", "description": "d"},
    )
    await group(node, tags="t")
    native = await node.get("/messagegroups/mygroup")
    assert (native["name"], native["labels"], native["tags"]) == ("Mine", {"a": "b"}, "t")
    assert "description" not in native


BAD_DEFINITIONS: list[tuple[str, Any, str]] = [
    ("CloudEvents", None, "object"),
    ("CloudEvents", {"attributes": {}}, "type"),
    ("CloudEvents", {"attributes": {"type": {"value": "other"}}}, "type"),
    ("CloudEvents", {"attributes": {"type": {"value": "m"}, "Big": {"value": ""}}}, "Big"),
    ("CloudEvents", {"attributes": {"type": {"value": "m"}, "a": {"value": "{b"}}}, "6570"),
    ("CloudEvents", {"attributes": {"type": {"value": "m"}, "a": {"value": 1}}}, "string"),
    ("CloudEvents", {"attributes": {"type": {"value": "m"}, "a": "b"}}, "object"),
    ("CloudEvents", {"attributes": {"type": {"value": "m"}}, "body": {}}, "body"),
    (
        "CloudEvents",
        {"attributes": {"type": {"value": "m"}, "specversion": {"value": "0.3"}}},
        "1.0",
    ),
    (
        "CloudEvents",
        {"attributes": {"type": {"value": "m"}, "time": {"value": "noon"}}},
        "time",
    ),
    (
        "CloudEvents",
        {"attributes": {"type": {"value": "m"}, "datacontenttype": {"value": "json"}}},
        "media type",
    ),
    (
        "CloudEvents",
        {"attributes": {"type": {"value": "m"}, "dataschema": {"schema": 5}}},
        "schema",
    ),
    ("CloudEvents", {"attributes": {"type": {"value": "m"}, "data": {"value": ""}}}, "data"),
    (
        "CloudEvents",
        {"attributes": {"type": {"value": "m"}, "dataschema": {"value": "/schemas/a"}}},
        "definition.attributes.dataschema.value",
    ),
    (
        "CloudEvents",
        {
            "attributes": {
                "type": {"value": "m"},
                "dataschema": {"schematype": "Avro", "schema": {"type": "bogus"}},
            }
        },
        "definition.attributes.dataschema.schema",
    ),
    (
        "AMQP",
        {"applicationdata": {"dataschema": {"schematype": "Protobuf", "schema": {}}}},
        "definition.applicationdata.dataschema.schema",
    ),
    (
        "AMQP",
        {"applicationdata": {"dataschema": {"schematype": "JSON", "schema": {"type": 5}}}},
        "definition.applicationdata.dataschema.schema",
    ),
    (
        "MQTT",
        {"payload": {"dataschema": {"schematype": "Protobuf", "schema": "message {"}}},
        "definition.payload.dataschema.schema",
    ),
    ("AMQP", {"properties": {"userid": {"value": "no base64"}}}, "base64"),
    ("MQTT", {"publish": {"correlationdata": "no base64"}}, "base64"),
    ("NATS", {"pub": {"subject": "{a}" * 65}}, "64 expressions"),
    ("NATS", {"pub": {"subject": "a" * 4001}}, "4000 characters"),
    ("AMQP", {"footer": {f"a{n}": {} for n in range(501)}}, "500 members"),
    ("AMQP", {"header": {"durable": "yes"}}, "durable"),
    ("AMQP", {"header": {"first-acquirer": True}}, "first-acquirer"),
    ("AMQP", {"properties": {"message-id": {"value": ""}}}, "message-id"),
    ("AMQP", {"properties": {"creationtime": {"value": "noon"}}}, "creationtime"),
    ("AMQP", {"applicationproperties": {"ä": {"value": ""}}}, "symbol"),
    ("AMQP", {"applicationdata": {"amqpencoding": "Text"}}, "amqpencoding"),
    ("MQTT", {"publish": {"qos": 3}}, "qos"),
    ("MQTT", {"publish": {"mqttversion": "4"}}, "mqttversion"),
    ("MQTT", {"publish": {"mqttversion": "3.1.1", "contenttype": "a/b"}}, "5.0"),
    ("MQTT", {"publish": {"retain": 1}}, "retain"),
    ("MQTT", {"publish": {"topicname": "a/#"}}, "wildcard"),
    ("MQTT", {"publish": {"responsetopic": "{+a}/+"}}, "wildcard"),
    ("NATS", {"pub": {"subject": "a b"}}, "blanks"),
    ("NATS", {"pub": {"subject": "{"}}, "6570"),
    ("NATS", {"pub": {"queue": "q"}}, "queue"),
    ("NATS", {"payload": {"dataschema": {"value": "not a uri"}}}, "URI"),
]


async def test_a_definition_that_breaks_the_rules_of_its_format_is_refused(node: Node) -> None:
    for format in ("CloudEvents", "AMQP", "MQTT", "NATS"):
        await group(node, format, format=format)
    for format, definition, reason in BAD_DEFINITIONS:
        answer = await refused(node, {"id": "m", "definition": definition}, to=format)
        assert (answer.status, answer.error) == (400, "invalid_attribute"), definition
        assert reason in answer.json["title"], definition
        assert await node.get(f"/messagecatalog/{format}/messagedefinitions") == []


async def test_a_definition_that_breaks_other_rules_is_refused(node: Node) -> None:
    await group(node)
    for body in (
        {"definition": {}},
        event("a:b"),
        event("a", format="AMQP"),
        event("a", authority="not absolute"),
        event("a", description=5),
    ):
        assert (await refused(node, body)).status == 400, body


async def test_each_post_adds_a_version_and_the_latest_is_shown(node: Node) -> None:
    await group(node)
    path = f"{DEFINITIONS}/a"
    shown = [await post(node, event("a", description=f"No. {n}", version=7)) for n in (1, 2, 3)]
    assert [one["version"] for one in shown] == [1, 2, 3]
    assert await node.get(f"{path}/versions") == [1, 2, 3]
    assert (await node.get(path))["description"] == "No. 3"
    assert (await node.get(f"{path}/versions/1"))["description"] == "No. 1"
    assert (await node.send("DELETE", f"{path}/versions/3")).status == 204
    assert (await node.get(path))["version"] == 2
    assert (await post(node, event("a")))["version"] == 4
    assert (await node.get(path))["version"] == 4


async def test_who_pushes_definitions_of_another_authority_keeps_their_numbers(node: Node) -> None:
    await group(node)
    pushed = {"authority": "https://source.example/messagecatalog"}
    shown = [await post(node, event("a", version=n, **pushed)) for n in (1, 3, 7)]
    assert [one["version"] for one in shown] == [1, 3, 7]
    assert await node.get(f"{DEFINITIONS}/a/versions") == [1, 3, 7]
    assert (await node.get(f"{DEFINITIONS}/a"))["version"] == 7
    uri = "https://source.example/messagecatalog/mygroup/messagedefinitions/a/versions/3"
    found = await node.get(f"/messagedefinition?uri={uri}")
    assert found == await node.get(f"{DEFINITIONS}/a/versions/3")
    assert (await node.send("DELETE", f"{DEFINITIONS}/a/versions/7")).status == 204
    for number, expected in ((7, 8), (3, 9), (None, 10), (2**31, 11), (12, 12)):
        assert (await post(node, event("a", version=number)))["version"] == expected


async def test_the_latest_is_shown_even_where_natively_another_version_is_default(
    node: Node,
) -> None:
    await group(node)
    await post(node, event("a"))
    await post(node, event("a"))
    answer = await node.send(
        "PATCH",
        "/messagegroups/mygroup/messages/a/meta",
        {"defaultversionid": "1", "defaultversionsticky": True},
    )
    assert answer.status == 200
    assert (await node.get("/messagegroups/mygroup/messages/a"))["versionid"] == "1"
    assert (await node.get(f"{DEFINITIONS}/a"))["version"] == 2
    assert (await post(node, event("a")))["version"] == 3
    assert (await node.get(f"{DEFINITIONS}/a"))["version"] == 3


async def test_a_version_that_exists_cannot_be_changed(node: Node) -> None:
    await group(node)
    await post(node, event("a"))
    for method in ("PUT", "PATCH", "POST"):
        for below in ("", "/versions", "/versions/1"):
            answer = await node.send(method, f"{DEFINITIONS}/a{below}", event("a"))
            assert answer.status == 405
            assert "GET" in answer.headers["Allow"]


async def test_versions_posted_at_once_all_get_numbers_of_their_own(node: Node) -> None:
    await group(node)
    shown = await asyncio.gather(*(post(node, event("a")) for _ in range(6)))
    assert sorted(one["version"] for one in shown) == [1, 2, 3, 4, 5, 6]


async def test_versions_with_names_are_shown_without_a_number(node: Node) -> None:
    await node.put("/messagegroups/g/messages/m/versions/v1", {"envelope": "CloudEvents/1.0"})
    await node.put("/messagegroups/g/messages/m/versions/7", {"envelope": "CloudEvents/1.0"})
    path = "/messagecatalog/g/messagedefinitions/m"
    assert await node.get(f"{path}/versions") == [7]
    assert "version" not in await node.get(f"{path}/versions/v1")


async def test_a_definition_needs_a_group_that_is_there(node: Node) -> None:
    answer = await refused(node, event("a"), to="nowhere")
    assert (answer.status, answer.error) == (404, "not_found")
    assert await node.get("/messagecatalog") == []


async def test_a_group_that_goes_meanwhile_is_not_brought_back(node: Node) -> None:
    """A definition's group is looked up before it is written; it can be deleted in between."""
    xid = Xid("messagegroups", "gone", "messages", "m")
    interaction = Interaction(caller=node_caller(), at=xid)
    interaction.put_version(node.context.model, xid, "", {"envelope": "X"}, patch=False)
    interaction.groups = [GroupUpsert(xid=xid.group, body=None, must_exist=True)]
    before = await node.state()
    with pytest.raises(NotFound):
        await node.context.writer.apply(node.context.configuration, interaction)
    assert await node.state() == before


async def test_deletes_take_what_is_below_along(node: Node) -> None:
    await group(node)
    for id in ("a", "b", "c"):
        await post(node, event(id))
    assert (await node.send("DELETE", f"{DEFINITIONS}/a")).status == 204
    assert await node.get(DEFINITIONS) == ["b", "c"]
    assert (await node.send("DELETE", DEFINITIONS)).status == 204
    assert await node.get(DEFINITIONS) == []
    await post(node, event("d"))
    assert (await node.send("DELETE", GROUP)).status == 204
    assert await node.get("/messagecatalog") == []
    for path in (GROUP, DEFINITIONS, f"{DEFINITIONS}/d", f"{DEFINITIONS}/d/versions/1"):
        answer = await node.send("DELETE", path)
        assert (answer.status, answer.error) == (404, "not_found")


async def test_what_is_not_there_is_not_found(node: Node) -> None:
    for path in (
        GROUP,
        DEFINITIONS,
        f"{DEFINITIONS}/a",
        f"{DEFINITIONS}/a/versions",
        f"{DEFINITIONS}/a/versions/1",
        f"/messagedefinition?uri={node.url}{DEFINITIONS}/a/versions/1",
    ):
        answer = await node.send("GET", path)
        assert (answer.status, answer.error) == (404, "not_found"), path


async def test_head_answers_like_get_without_a_body(node: Node) -> None:
    await group(node)
    await post(node, event("a"))
    uri = f"{node.url}{DEFINITIONS}/a/versions/1"
    for path in (
        "/messagecatalog",
        GROUP,
        DEFINITIONS,
        f"{DEFINITIONS}/a",
        f"{DEFINITIONS}/a/versions",
        f"{DEFINITIONS}/a/versions/1",
        f"/messagedefinition?uri={uri}",
    ):
        head, get = await node.send("HEAD", path), await node.send("GET", path)
        assert (head.status, head.body) == (200, b"")
        assert head.headers["ETag"] == get.headers["ETag"]
        assert head.headers["Content-Length"] == str(len(get.body))


@pytest.mark.parametrize(
    ("authority", "prefix"),
    [
        ("https://messagedefinitions.example.com", "https://messagedefinitions.example.com/"),
        ("http://messagecatalog.example.com/", "http://messagecatalog.example.com/"),
        ("urn:example:messagecatalog", "urn:example:messagecatalog:"),
    ],
)
async def test_a_version_is_found_by_its_uri_and_by_no_other(
    node: Node, authority: str, prefix: str
) -> None:
    await group(node)
    shown = await post(node, event("a", authority=authority))
    later = await post(node, event("a"))
    assert shown["authority"] == later["authority"] == authority
    tail = "mygroup/messagedefinitions/a/versions"
    assert await node.get(f"/messagedefinition?uri={prefix}{tail}/1") == {
        **shown,
        "updatedtimeutc": later["updatedtimeutc"],
    }
    assert await node.get(f"/messagedefinition?uri={prefix}{tail}/2") == later
    assert await node.get(f"/messagedefinition?uri={prefix}a") == later
    for other in (f"{prefix}{tail}/3", f"{node.url}/messagecatalog/{tail}/1", f"{prefix}b", "a"):
        assert (await node.send("GET", f"/messagedefinition?uri={other}")).status == 404


async def test_without_an_authority_the_uri_is_the_url(node: Node) -> None:
    await group(node)
    shown = await post(node, event("a"))
    assert "authority" not in shown
    assert await node.get(f"/messagedefinition?uri={node.url}{DEFINITIONS}/a/versions/1") == shown
    assert await node.get(f"/messagedefinition?uri={node.url}/messagecatalog/a") == shown


async def hold_replica(node: Node, group: str, origin: str, authority: str) -> None:
    """Take over a message `m` from another catalog, at a place of its own choice."""
    attributes: dict[str, dict[str, Any]] = {
        "": {"envelope": "CloudEvents/1.0"},
        "/messages/m": {"defaultversionid": "1", "defaultversionsticky": False},
        "/messages/m/versions/1": {"envelope": "CloudEvents/1.0", "ancestorid": "1"},
    }
    at = datetime(2026, 3, 4, tzinfo=UTC)
    entities = [
        Entity(
            xid=(xid := f"/messagegroups/{group}{below}"),
            kind=Xid.parse(xid).kind,
            authority=authority,
            origin=f"/messagegroups/{origin}{below}",
            epoch=5,
            attributes=own,
            createdat=at,
            modifiedat=at,
        ).sealed()
        for below, own in attributes.items()
    ]
    async with node.database.transaction() as connection:
        await write(
            connection,
            Write(author=Author(kind="node"), interaction="replication", at=at, entities=entities),
        )


@pytest.mark.parametrize(
    ("authority", "prefix"),
    [
        ("https://origin.example", "https://origin.example/messagecatalog/"),
        ("urn:uuid:0b2a9e04-0f1c-4c9e-9d8b-6f3a0f5f5d5a", None),
    ],
)
async def test_a_replica_is_found_by_the_uri_that_it_has_at_its_authority(
    node: Node, authority: str, prefix: str | None
) -> None:
    await hold_replica(node, "theirs", "original", authority)
    shown = await node.get("/messagecatalog/theirs/messagedefinitions/m")
    assert shown["authority"] == (prefix or f"{authority}/").rstrip("/")
    prefix = prefix or f"{authority}:"
    tail = "messagedefinitions/m/versions/1"
    assert await node.get(f"/messagedefinition?uri={prefix}original/{tail}") == shown
    elsewhere = f"/messagedefinition?uri={node.url}/messagecatalog/theirs/{tail}"
    assert (await node.send("GET", elsewhere)).status == 404
    answer = await refused(node, event("m"), to="theirs")
    assert (answer.status, answer.error) == (400, "readonly")


async def test_a_look_up_needs_one_uri(node: Node) -> None:
    for query in ("", "?uri=", "?uri=a&uri=b", "?uri=" + "a" * 5000):
        answer = await node.send("GET", f"/messagedefinition{query}")
        assert (answer.status, answer.error) == (400, "bad_request"), query


async def test_no_version_changes_the_authority_of_its_definition(node: Node) -> None:
    await group(node)
    await post(node, event("a", authority="https://one.example"))
    await post(node, event("b"))
    for id in ("a", "b"):
        answer = await refused(node, event(id, authority="https://two.example"))
        assert (answer.status, answer.error) == (409, "conflict")


def schema_event(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": properties,
        "required": required,
    }
    data = {"schematype": "JSON", "schema": schema}
    return event("a", definition={"attributes": {"type": {"value": "a"}, "dataschema": data}})


async def test_a_version_that_breaks_the_policy_of_its_group_is_a_conflict(node: Node) -> None:
    shown = await group(node, compatibility="backward")
    assert shown["compatibility"] == "backward"
    one, two = {"x": {"type": "string"}}, {"x": {"type": "string"}, "y": {"type": "string"}}
    await post(node, schema_event(one, []))
    answer = await refused(node, schema_event(two, ["y"]))
    assert (answer.status, answer.error) == (409, "conflict")
    assert (await post(node, schema_event(two, [])))["version"] == 2
    await group(node, compatibility="none")
    assert (await post(node, schema_event(two, ["y"])))["version"] == 3


async def test_attributes_of_the_clients_own_come_back(node: Node) -> None:
    shown = await group(node, owner={"team": "kitchen"}, authority="https://a.example")
    assert (shown["owner"], shown["authority"]) == ({"team": "kitchen"}, "https://a.example")
    extra = {"X-Thing": [1, {"a": None}], "documentation": "text", "documentationformat": "HTML"}
    shown = await post(node, event("a", **extra))
    assert {name: shown[name] for name in extra} == extra


async def test_without_the_model_there_is_nothing_below_the_root(database_url: str) -> None:
    model = {"groups": {"dirs": {"singular": "dir"}}}
    async with start_node(database_url, modelsource=model) as node:
        assert await node.get("/messagecatalog") == []
        for method, path in (
            ("GET", GROUP),
            ("PUT", GROUP),
            ("DELETE", GROUP),
            ("GET", DEFINITIONS),
            ("POST", DEFINITIONS),
            ("GET", f"{DEFINITIONS}/a/versions/1"),
            ("GET", "/messagedefinition?uri=urn:a:b"),
        ):
            answer = await node.send(method, path, {} if method in ("PUT", "POST") else None)
            assert_problem(answer)
            assert (answer.status, answer.error) == (404, "api_not_found")


async def test_a_node_that_takes_no_writes_takes_none_here(node: Node) -> None:
    available = (await node.get("/capabilities"))["available"]
    available["entities"] = {"mutable": False}
    answer = await node.send("PATCH", "/capabilities", {"available": available})
    assert answer.status == 200, answer.body
    answer = await node.send("PUT", GROUP, {"format": "NATS"})
    assert (answer.status, answer.error) == (405, "action_not_supported")
