"""Each older name and shape, and what it becomes."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.documents.migration import DOCUMENT_SCHEMA, migrate

EVENT = {"envelope": "CloudEvents/1.0"}
NAMES = {"amqp": "AMQP/1.0", "mqtt": "MQTT/5.0", "kafka": "KAFKA", "http": "HTTP", "nats": "NATS"}


def message(**members: Any) -> dict[str, Any]:
    return {"messagegroups": {"g": {"messages": {"m": members}}}}


def endpoint(**members: Any) -> dict[str, Any]:
    return {"endpoints": {"e": members}}


def schema(**members: Any) -> dict[str, Any]:
    return {"schemagroups": {"g": {"schemas": {"s": members}}}}


def options(protocol: str, of: Any = message, **members: Any) -> dict[str, Any]:
    written: dict[str, Any] = of(protocol=NAMES[protocol], protocoloptions=members)
    return written


def metadata(**attributes: Any) -> dict[str, Any]:
    return message(**EVENT, envelopemetadata=attributes)


ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "groups": (
        {"definitionGroups": {"g": {}}, "schemaGroups": {"s": {}}},
        {"messagegroups": {"g": {}}, "schemagroups": {"s": {}}},
    ),
    "groups by both names": (
        {"definitionGroups": {"g": {}}, "messagegroups": {"h": {}}},
        {"messagegroups": {"h": {}, "g": {}}},
    ),
    "definitions": (
        {"definitionGroups": {"g": {"definitionsCount": 1, "definitions": {"m": {}}}}},
        {"messagegroups": {"g": {"messagescount": 1, "messages": {"m": {}}}}},
    ),
    "addresses of collections": (
        {"definitionGroupsUrl": "u", "schemaGroupsCount": 0, "endpoints": {}},
        {"messagegroupsurl": "u", "schemagroupscount": 0, "endpoints": {}},
    ),
    "ids": (
        {"schemagroups": {"g": {"id": "g", "schemas": {"s": {"id": "s", "format": "Avro"}}}}},
        {
            "schemagroups": {
                "g": {"schemagroupid": "g", "schemas": {"s": {"schemaid": "s", "format": "Avro"}}}
            }
        },
    ),
    "labels, documentation and times": (
        message(tags={"Owner": "J"}, docs="https://d", createdOn="2030-01-01T00:00:00Z"),
        message(labels={"owner": "J"}, documentation="https://d", createdat="2030-01-01T00:00:00Z"),
    ),
    "types of entities": (message(type="definition"), message()),
    "names with capitals": (message(myName="x"), message(myname="x")),
    "integers of more than 53 bits": (
        message(version=133179207678361800),
        message(version="133179207678361800"),
    ),
    "one usage": (endpoint(usage="producer"), endpoint(usage=["producer"])),
    "config": (
        endpoint(
            usage=["consumer"],
            config={
                "protocol": "MQTT/5.0",
                "strict": True,
                "endpoints": ["mqtt://mqtt.example.com:1883"],
                "options": {"topic": "{deviceid}/telemetry", "clean-session": False},
            },
        ),
        endpoint(
            usage=["consumer"],
            protocol="MQTT/5.0",
            protocoloptions={
                "deployed": True,
                "endpoints": [{"uri": "mqtt://mqtt.example.com:1883"}],
                "topic": "{deviceid}/telemetry",
                "cleanstart": False,
            },
        ),
    ),
    "an endpoint that nobody said is deployed": (
        endpoint(config={"protocol": "HTTP/1.1"}),
        endpoint(protocol="HTTP", protocoloptions={"deployed": False}),
    ),
    "an older endpoint that says nothing of being deployed": (
        {"specversion": "1.0-rc2", **options("kafka", endpoint, topic="t")},
        {"specversion": "1.0-rc2", **options("kafka", endpoint, topic="t", deployed=False)},
    ),
    "brokers of an endpoint": (
        options(
            "kafka",
            endpoint,
            deployed=True,
            endpoints=[{"uri": "SSL://b1:9093,b2:9093", "rank": 1}, {"uri": "{host}:9092"}, {}],
        ),
        options(
            "kafka",
            endpoint,
            deployed=True,
            endpoints=[
                {
                    "bootstrap.servers": ["b1:9093", "b2:9093"],
                    "security.protocol": "SSL",
                    "rank": 1,
                },
                {"bootstrap.servers": ["{host}:9092"]},
                {},
            ],
        ),
    ),
    "status of HTTP": (
        message(format="HTTP/1.1", metadata={"status": {"type": "string", "value": 200}}),
        options("http", status="200"),
    ),
    "references by the URL of the registry": (
        {
            "self": "https://c.example/",
            **message(
                schemaformat="Avro/1.9", schemaurl="https://c.example/schemaGroups/g/schemas/s"
            ),
        },
        {
            "self": "https://c.example/",
            **message(dataschemaformat="Avro/1.9", dataschemauri="/schemagroups/g/schemas/s"),
        },
    ),
    "a definition of an endpoint as a base": (
        message(basemessageurl="#/endpoints/a~1b/definitions/m"),
        message(basemessage="#/endpoints/a~1b/messages/m"),
    ),
    "groups of an endpoint": (
        endpoint(definitionGroups=["#/definitionGroups/g", "https://x.example/definitionGroups/g"]),
        endpoint(messagegroups=["/messagegroups/g", "https://x.example/definitionGroups/g"]),
    ),
    "definitions of an endpoint": (
        endpoint(definitions={"m": {"format": "CloudEvents/1.0"}}),
        endpoint(messages={"m": EVENT}),
    ),
    "options of options": (
        options("kafka", endpoint, options={"topic": "t", "consumer-group": "c"}),
        options("kafka", endpoint, topic="t", consumergroup="c"),
    ),
    "addresses outside of the options": (
        endpoint(protocol="KAFKA", endpoints=[{"uri": "u"}], deployed=False),
        options("kafka", endpoint, endpoints=[{"uri": "u"}], deployed=False),
    ),
    "a url of an endpoint": (
        options("http", endpoint, endpoints=[{"url": "https://u", "priority": 1}]),
        options("http", endpoint, endpoints=[{"uri": "https://u", "priority": 1}], deployed=False),
    ),
    "one authorization": (
        options("http", endpoint, authorization={"type": "OAuth2"}),
        options("http", endpoint, authorization=[{"type": "OAuth2"}]),
    ),
    "joined names of AMQP": (
        options("amqp", endpoint, linkproperties={"a": "b"}, distributionmode="copy"),
        options("amqp", endpoint, **{"link-properties": {"a": "b"}, "distribution-mode": "copy"}),
    ),
    "underscores of AMQP": (
        options("amqp", endpoint, link_properties={"a": "b"}, distribution_mode="copy"),
        options("amqp", endpoint, **{"link-properties": {"a": "b"}, "distribution-mode": "copy"}),
    ),
    "a will": (
        options(
            "mqtt",
            endpoint,
            **{"will-topic": "t", "will-message": "/definitionGroup/g/definitions/m"},
        ),
        options(
            "mqtt",
            endpoint,
            willtopic="t",
            willmessage="/messagegroups/g/messages/m",
            deployed=False,
        ),
    ),
    "format of an event": (message(format="CloudEvents/1.0"), message(**EVENT)),
    "format of a protocol": (
        message(format="Kafka/0.11", metadata={"topic": {"value": "t"}}),
        options("kafka", topic="t"),
    ),
    "format of a group": (
        {"messagegroups": {"g": {"format": "AMQP"}}},
        {"messagegroups": {"g": {"protocol": "AMQP/1.0"}}},
    ),
    "attributes of an event": (
        message(format="CloudEvents/1.0", metadata={"attributes": {"type": {"value": "t"}}}),
        metadata(type={"value": "t"}),
    ),
    "metadata without attributes": (
        message(format="CloudEvents/1.0", metadata={"type": {"value": "t"}}),
        metadata(type={"value": "t"}),
    ),
    "wrapped metadata": (
        metadata(attributes={"id": {"required": True}}),
        metadata(id={"required": True}),
    ),
    "datetime": (metadata(time={"type": "datetime"}), metadata(time={"type": "timestamp"})),
    "schema of a message": (
        message(schemaformat="Avro/1.9", schemaurl="#/schemaGroups/g/schema/s/versions/1"),
        message(dataschemaformat="Avro/1.9", dataschemauri="/schemagroups/g/schemas/s/versions/1"),
    ),
    "schema in a message": (
        message(schemaformat="Protobuf/3", schema="syntax"),
        message(dataschemaformat="Protobuf/3", dataschema="syntax"),
    ),
    "schemauri of 0.5": (message(schemauri="https://s"), message(dataschemauri="https://s")),
    "dataschemaurl": (message(dataschemaurl="/s"), message(dataschemauri="/s")),
    "base message": (
        message(basemessageurl="#/definitionGroups/g/definitions/b"),
        message(basemessage="/messagegroups/g/messages/b"),
    ),
    "protocolmetadata": (
        message(
            protocol="MQTT/5.0", protocolmetadata={"topic": {"value": "t"}, "qos": {"value": 1}}
        ),
        options("mqtt", topic_name="t", qos=1),
    ),
    "dashes of MQTT": (
        options(
            "mqtt",
            **{
                "message-expiry-interval": {"value": 1},
                "payload-format": {"value": 0},
                "user-properties": [{"p": {"value": "v"}}],
            },
        ),
        options(
            "mqtt",
            user_properties=[{"name": "p", "value": "v"}],
            message_expiry_interval=1,
            payload_format_indicator=0,
        ),
    ),
    "sections of AMQP": (
        options(
            "amqp",
            application_properties={"p": {}},
            properties={"message_id": {}, "content-type": {"type": "symbol"}},
            header={"durable": {"value": True}},
        ),
        options(
            "amqp",
            **{
                "properties": {"content-type": {"type": "string"}, "message-id": {}},
                "header": {"durable": True},
                "application-properties": {"p": {}},
            },
        ),
    ),
    "capitals of AMQP": (
        options("amqp", **{"application-properties": {"myP": {"type": "string"}}}),
        options(
            "amqp",
            **{"application-properties": {"myp": {"type": "string", "description": "myP"}}},
        ),
    ),
    "query of HTTP": (
        options("http", query={"foo": "bar"}, path={"value": "/{bar}"}),
        options("http", query=[{"name": "foo", "value": "bar"}], path="/{bar}"),
    ),
    "headers of Kafka": (
        options("kafka", headers={"A": "b"}),
        options("kafka", headers={"a": {"name": "A", "value": "b"}}),
    ),
    "headers of Kafka as a schema": (
        options("kafka", headers={"type": "object", "properties": {"cId": {"type": "string"}}}),
        options("kafka", headers={"cid": {"name": "cId"}}),
    ),
    "subject of NATS": (options("nats", subject={"value": "s"}), options("nats", subject="s")),
    "a borrowed definition": (
        {
            "definitionGroups": {
                "g": {"definitions": {"m": {"uri": "#/definitionGroups/h/definitions/n"}}}
            }
        },
        message(meta={"xref": "/messagegroups/h/messages/n"}),
    ),
    "address of a schema": (schema(schemauri="https://s"), schema(schemaurl="https://s")),
    "format of a version": (
        schema(format="Avro/1.9", versions={"1.0": {"id": "1.0", "type": "schemaversion"}}),
        schema(format="Avro/1.9", versions={"1.0": {"versionid": "1.0", "format": "Avro/1.9"}}),
    ),
    "formats that share their name": (
        schema(versions={"1": {"format": "J/4"}, "2": {"format": "J/7"}}),
        schema(versions={"1": {"format": "J"}, "2": {"format": "J"}}),
    ),
    "the only version": (
        schema(defaultversionid="1", versions={"1": {}}),
        schema(versions={"1": {}}),
    ),
    "the default version": (
        schema(defaultversionid="1", versions={"1": {}, "2": {}}),
        schema(
            meta={"defaultversionid": "1", "defaultversionsticky": True},
            versions={"1": {}, "2": {}},
        ),
    ),
    "what a schema says of itself": (
        schema(name="S", versions={"9": {}, "10": {}}),
        schema(versions={"9": {"name": "S"}, "10": {}}),
    ),
    "versions that are numbers": (
        {"specversion": "0.4-wip", **schema(name="S", versions={"9": {}, "10": {}})},
        {
            "specversion": "0.4-wip",
            **schema(versions={"9": {"ancestorid": "9"}, "10": {"ancestorid": "9", "name": "S"}}),
        },
    ),
    "the times of a resource with one version": (
        schema(createdat="2030-01-01T00:00:00Z", versions={"1": {}}),
        schema(versions={"1": {"createdat": "2030-01-01T00:00:00Z"}}),
    ),
    "the times of a resource with several versions": (
        schema(modifiedOn="2030-01-01T00:00:00Z", versions={"1": {}, "2": {}}),
        schema(meta={"modifiedat": "2030-01-01T00:00:00Z"}, versions={"1": {}, "2": {}}),
    ),
    "what is kept of a resource": (
        schema(older={"a": 1}, name="S", versions={"1": {"older": {"b": 2}}}),
        schema(versions={"1": {"older": {"a": 1, "b": 2}, "name": "S"}}),
    ),
    "types of an event": (
        metadata(
            subject={"type": "urireference"},
            time={"type": "uritemplate", "value": "{time}"},
            mine={"type": "urireference"},
            yours={"type": "var"},
        ),
        message(
            **EVENT,
            envelopemetadata={
                "subject": {"type": "string"},
                "time": {"type": "timestamp", "value": "{time}"},
                "mine": {"type": "urireference"},
                "yours": {"type": "any"},
            },
            older={"envelopemetadata": {"subject": {"type": "urireference"}}},
        ),
    ),
    "types of AMQP": (
        options(
            "amqp",
            properties={"absolute-expiry-time": {"type": "datetime"}},
            footer={"a": {"type": "var"}},
        ),
        options(
            "amqp",
            properties={"absolute-expiry-time": {"type": "timestamp"}},
            footer={"a": {"type": "any"}},
        ),
    ),
    "names of attributes of an event": (
        metadata(id={"name": "id", "type": "string"}),
        metadata(id={"type": "string"}),
    ),
    "options of a message in an object": (
        options("kafka", options={"topic": {"value": "t"}}, properties={"key": {"value": "k"}}),
        options("kafka", topic="t", key="k"),
    ),
    "a will as a JSON pointer": (
        options("mqtt", endpoint, willmessage="#/definitionGroup/g/definitions/m"),
        options("mqtt", endpoint, willmessage="/messagegroups/g/messages/m", deployed=False),
    ),
    "blanks around URLs": (
        message(documentation=" https://d\n", dataschemauri="  #/schemagroups/g/schemas/s"),
        message(documentation="https://d", dataschemauri="#/schemagroups/g/schemas/s"),
    ),
    "blanks around the addresses of an endpoint": (
        options("http", endpoint, endpoints=[{"uri": " https://u "}]),
        options("http", endpoint, endpoints=[{"uri": "https://u"}]),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_an_older_form_becomes_the_newest_and_each_rewrite_is_told(name: str) -> None:
    before, after = ROWS[name]
    migrated = migrate(before)
    assert migrated.document == after
    assert not migrated.left_out
    assert migrated.rewrites
    for rewrite in migrated.rewrites:
        assert _exists(before, rewrite.pointer) or rewrite.old is None, rewrite
        assert rewrite.rule.text


@pytest.mark.parametrize("name", ROWS)
def test_what_was_rewritten_is_not_rewritten_again(name: str) -> None:
    after = ROWS[name][1]
    again = migrate(after)
    assert (again.document, again.rewrites, again.left_out) == (after, (), ())


LEFT_OUT: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "people": (message(createdBy="J"), "/createdBy", {"createdBy": "J"}),
    "ids of others": (message(id="n"), "/id", {"id": "n"}),
    "ids that are not the key": (message(messageid="n"), "/messageid", {"messageid": "n"}),
    "names of attributes that are not the key": (
        metadata(id={"name": "n"}),
        "/envelopemetadata/id/name",
        {"envelopemetadata": {"id": {"name": "n"}}},
    ),
    "names that are none": (message(**{"x-y": 1}), "/x-y", {"x-y": 1}),
    "two names": (
        message(schemaurl="https://a", dataschemauri="https://b"),
        "/schemaurl",
        {"schemaurl": "https://a"},
    ),
    "what is said of an option": (
        options("mqtt", qos={"value": 1, "description": "d"}),
        "/protocoloptions/qos/description",
        {"protocoloptions": {"qos": {"description": "d"}}},
    ),
    "definitions of elsewhere": (
        message(uri="https://x.example/m"),
        "/uri",
        {"uri": "https://x.example/m"},
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_has_no_newest_form_is_left_out_or_kept_where_it_was(name: str) -> None:
    before, pointer, kept = LEFT_OUT[name]
    place = "/messagegroups/g/messages/m"
    [left] = migrate(before).left_out
    assert (left.pointer, left.is_kept) == (place + pointer, False)
    assert left.reason
    keeping = migrate(before, keep_unknown=True)
    [left] = keeping.left_out
    assert left.is_kept
    found = keeping.document["messagegroups"]["g"]["messages"]["m"]
    assert found["older"] == kept
    assert migrate(keeping.document).document == keeping.document


@pytest.mark.parametrize("will", ["https://x.example/m", "#/endpoints/e/definitions/m"])
def test_a_will_that_is_no_message_of_a_group_is_left_out(will: str) -> None:
    migrated = migrate(options("mqtt", endpoint, willmessage=will, deployed=True))
    assert migrated.document == options("mqtt", endpoint, deployed=True)
    assert [left.pointer for left in migrated.left_out] == [
        "/endpoints/e/protocoloptions/willmessage"
    ]


@pytest.mark.parametrize(
    ("document", "edition", "reason"),
    [
        ({}, "rc4", "it has no older names"),
        ({"specversion": "1.0-rc2"}, "rc2", "it says so: 1.0-rc2"),
        ({"specversion": "0.4-wip", "schemaGroups": {}}, "0.4", "/schemaGroups: "),
        ({"specVersion": "0.5-wip", "schemaGroups": {}}, "0.5", "/schemaGroups: "),
        ({"specversion": "1.0-rc4", **endpoint(usage="producer")}, "rc1", "/endpoints/e/usage: "),
        (
            {"specversion": "1.0-rc4", **schema(defaultversionid="1", versions={"1": {}})},
            "rc4",
            "it says so: 1.0-rc4",
        ),
        (message(basemessageurl="/x"), "rc2", "/messagegroups/g/messages/m/basemessageurl: "),
        (
            {"$schema": DOCUMENT_SCHEMA, **options("amqp", footer={}, application_properties={})},
            "rc3",
            "/m",
        ),
    ],
)
def test_the_edition_is_found_by_what_is_in_the_document(
    document: dict[str, Any], edition: str, reason: str
) -> None:
    found = migrate(document).found
    assert found.edition == edition
    assert found.reason.startswith(reason)


def test_an_export_of_the_newest_edition_may_have_extensions_with_older_names() -> None:
    document = {"specversion": "1.0-rc4", "xid": "/", **message(schemaformat="mine", id="x")}
    assert migrate(document).document == document
    assert migrate(document).older == ()


def _exists(document: Any, pointer: str) -> bool:
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list):
            return True
        if not isinstance(document, dict) or step not in document:
            return False
        document = document[step]
    return True
