"""Which messages conform to which definitions, and what is said of the others."""

from __future__ import annotations

import base64
import time
from typing import Any

import orjson
import pytest

from catalog.messages.conformance import check_metadata
from catalog.messages.definition import MessageDefinition, combine, reference_targets
from catalog.messages.message import Message, read_binary_event, read_json_message
from catalog.model.errors import ParsingData

CE = "CloudEvents/1.0"
EVENT = {"specversion": "1.0", "id": "1", "type": "a.b", "source": "/s"}


def read(value: Any, definition: MessageDefinition) -> Message:
    return read_json_message(value, definition.protocol)


def broken(definition: dict[str, Any], message: Any) -> list[tuple[str, str]]:
    combined = combine([definition], {})
    found = check_metadata(read(message, combined), combined)
    return [(violation.pointer, violation.rule) for violation in found.violations]


def unchecked(definition: dict[str, Any], message: Any) -> list[str]:
    combined = combine([definition], {})
    return [one.part for one in check_metadata(read(message, combined), combined).unchecked]


CORE: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({}, []),
    ({"subject": None, "time": "2030-01-01T00:00:00.5+01:00", "x1": 5, "x2": True}, []),
    ({"time": "2030-01-01T00:00:00"}, [("/time", "type")]),
    ({"time": 5}, [("/time", "type")]),
    ({"id": None}, [("/id", "required")]),
    ({"id": ""}, [("/id", "value")]),
    ({"id": 5}, [("/id", "type")]),
    ({"specversion": "0.3"}, [("/specversion", "value")]),
    ({"source": "a b"}, [("/source", "type")]),
    ({"dataschema": "/relative"}, [("/dataschema", "type")]),
    ({"dataschema": "urn:a"}, []),
    ({"bad_name": "x"}, [("/bad_name", "name")]),
    ({"x": {"y": 1}}, [("/x", "type")]),
    ({"x": 1.5}, [("/x", "type")]),
    ({"x": 2**31}, [("/x", "type")]),
    ({"datacontenttype": "text/xml", "data": {}}, [("/data", "payload")]),
]


@pytest.mark.parametrize(("change", "expected"), CORE)
def test_an_event_keeps_the_rules_of_cloudevents(
    change: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert broken({"envelope": CE}, EVENT | change) == expected
    assert broken({}, EVENT | change) == expected


REFERENCE = {"subject": {"type": "urireference"}}


@pytest.mark.parametrize(
    "kept",
    [
        {"older": {"envelopemetadata": REFERENCE}},
        {"older": {"metadata": {"attributes": REFERENCE}}},
        {"older": {"envelopemetadata": {"attributes": REFERENCE}}},
        {"registry04": {"metadata": {"attributes": REFERENCE}}},
    ],
)
def test_a_value_is_held_to_the_type_that_its_definition_had_in_an_older_edition(
    kept: dict[str, Any],
) -> None:
    definition = {"envelope": CE, "envelopemetadata": {"subject": {"type": "string"}}, **kept}
    assert broken(definition, EVENT | {"subject": "a/b"}) == []
    assert broken(definition, EVENT | {"subject": "a b <>"}) == [("/subject", "type")]


@pytest.mark.parametrize(
    ("native", "kept"),
    [
        ({"type": "uritemplate"}, REFERENCE),
        ({"type": "string"}, {"subject": {"type": "bogus"}}),
        ({"type": "string"}, {"subject": {"type": ["uri"]}}),
        ({"type": "string"}, {"subject": "uri"}),
        ({"type": "string"}, ["subject"]),
    ],
)
def test_a_type_that_is_kept_is_only_that_of_a_string_and_one_that_is_known(
    native: dict[str, Any], kept: Any
) -> None:
    definition = {
        "envelope": CE,
        "envelopemetadata": {"subject": native},
        "older": {"envelopemetadata": kept},
    }
    assert broken(definition, EVENT | {"subject": "a b <>"}) == []


def test_a_property_of_amqp_is_held_to_the_type_that_it_had() -> None:
    definition = {
        "protocol": "AMQP/1.0",
        "protocoloptions": {"application-properties": {"my-p": {"type": "string"}}},
        "older": {"metadata": {"application_properties": {"my-p": {"type": "urireference"}}}},
    }
    for value, expected in (("/a", []), ("a b", [("/application-properties/my-p", "type")])):
        message = {"protocol": "AMQP/1.0", "application-properties": {"my-p": value}}
        assert broken(definition, message) == expected


ATTRIBUTES: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = [
    ({"type": {"value": "a.b"}}, {}, []),
    ({"type": {"value": "a.c"}}, {}, [("/type", "value")]),
    ({"type": {"type": "string", "value": "a.{x}"}}, {}, []),
    ({"type": {"type": "string", "value": "{x"}}, {"type": "{x"}, []),
    ({"subject": {"required": True}}, {}, [("/subject", "required")]),
    ({"subject": {"value": "x"}}, {}, []),
    ({"subject": {"value": ""}}, {"subject": "anything"}, []),
    ({"subject": {"type": "uri"}}, {"subject": "urn:a"}, []),
    ({"subject": {"type": "uri"}}, {"subject": "a"}, [("/subject", "type")]),
    ({"subject": {"type": "integer"}}, {"subject": "12"}, []),
    ({"subject": {"type": "integer"}}, {"subject": "1.5"}, [("/subject", "type")]),
    ({"source": {"value": "/{a}"}}, {}, []),
    ({"source": {"value": "/{a}/{b}"}}, {}, [("/source", "template")]),
    ({"source": {"value": "/{a}"}, "id": {"value": "{a}"}}, {"id": "s"}, []),
    ({"source": {"value": "/{a}"}, "id": {"value": "{a}"}}, {}, [("/id", "placeholder")]),
    ({"time": {"type": "timestamp", "value": "0000-01-01T00:00:00Z"}}, {}, []),
    ({"time": {"type": "timestamp", "value": "01-01-0000T00:00:00Z"}}, {}, []),
    (
        {"time": {"value": "0001-01-01T00:00:00+00:00", "required": True}},
        {"time": "2030-01-01T00:00:00Z"},
        [],
    ),
    (
        {"time": {"value": "2030-01-01T01:00:00+01:00"}},
        {"time": "2030-01-01T00:00:00Z"},
        [],
    ),
    (
        {"time": {"value": "2030-01-01T00:00:00Z"}},
        {"time": "2030-01-01T00:00:01Z"},
        [("/time", "value")],
    ),
    ({"time": {"type": "timestamp", "value": "{at}"}}, {"time": "2030-01-01T00:00:00Z"}, []),
    ({"time": {"type": "datetime"}}, {"time": "noon"}, [("/time", "type")]),
    ({"n": {"type": "integer", "value": "7"}}, {"n": 7}, []),
    ({"n": {"type": "integer", "value": 7}}, {"n": 8}, [("/n", "value")]),
    ({"n": {"type": "integer"}}, {"n": True}, [("/n", "type")]),
    ({"n": {"type": "boolean", "value": "true"}}, {"n": True}, []),
    ({"n": {}}, {"n": 7}, [("/n", "type")]),
    ({"n": {"type": "symbol"}}, {"n": "a_1"}, []),
    ({"n": {"type": "symbol"}}, {"n": "a-1"}, [("/n", "type")]),
    ({"n": {"type": "duration"}}, {"n": "PT1H30M"}, []),
    ({"n": {"type": "duration"}}, {"n": "1h"}, [("/n", "type")]),
    ({"n": {"type": "binary"}}, {"n": "AAE="}, []),
    ({"n": {"type": "binary"}}, {"n": "A"}, [("/n", "type")]),
    ({"n": {"type": "of the future"}}, {"n": "x"}, []),
    (
        {"datacontenttype": {"type": "symbol", "value": "application/json"}},
        {"datacontenttype": "Application/JSON; CharSet=UTF-8"},
        [],
    ),
    (
        {"datacontenttype": {"value": "text/plain; charset=utf-8"}},
        {"datacontenttype": "text/plain"},
        [("/datacontenttype", "value")],
    ),
    ({"attributes": {"type": {"value": "a.c"}}}, {}, [("/type", "value")]),
    ({"attributes": {"type": "integer"}}, {"attributes": 5}, []),
]


@pytest.mark.parametrize(("metadata", "change", "expected"), ATTRIBUTES)
def test_an_event_has_the_attributes_of_its_definition(
    metadata: dict[str, Any], change: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    definition = {"envelope": "cloudevents/1.0", "envelopemetadata": metadata}
    assert broken(definition, EVENT | change) == expected


def options(protocol: str, **given: Any) -> dict[str, Any]:
    named = {name.replace("__", "-"): value for name, value in given.items()}
    return {"protocol": protocol, "protocoloptions": named}


HEADER = [{"name": "X-A", "value": "{a}", "required": True}]
AMQP_SUBJECT = options("AMQP/1.0", properties={"subject": {"value": "s", "required": True}})
PROTOCOLS: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = [
    (options("MQTT/5.0", qos=1), {"qos": 1}, []),
    (options("MQTT/5.0", qos=1), {}, [("/qos", "value")]),
    (options("MQTT/5.0", qos=0, retain=False), {}, []),
    (options("MQTT/5.0", qos=1), {"qos": "1"}, [("/qos", "type")]),
    (options("MQTT/5.0", topic_name="a/{b}"), {"topic_name": "a/x/y"}, []),
    (options("MQTT/5.0", topic_name="a/{b}"), {"topic_name": "a/"}, [("/topic_name", "template")]),
    (options("MQTT/5.0", topic_name="a/{b}"), {}, [("/topic_name", "required")]),
    (
        options("MQTT/5.0", topic_name="a/{b}", user_properties=[{"name": "b", "value": "{b}"}]),
        {"topic_name": "a/x", "user-properties": [{"name": "b", "value": "y"}]},
        [("/user-properties/0/value", "placeholder")],
    ),
    (
        options("MQTT/5.0", user_properties=[{"name": "b", "value": "2"}]),
        {"user_properties": [{"name": "b", "value": "1"}, {"name": "b", "value": "2"}]},
        [],
    ),
    (options("MQTT/5.0", payload_format_indicator=1), {"payload_format": 1}, []),
    (options("MQTT/5.0"), {"protocol": "MQTT/3.1.1"}, [("/protocol", "protocol")]),
    (options("MQTT/3.1.1", topic_name="a"), {"topic_name": "b"}, [("/topic_name", "value")]),
    (AMQP_SUBJECT, {"properties": {"subject": "s"}}, []),
    (AMQP_SUBJECT, {"properties": {"subject": "t"}}, [("/properties/subject", "value")]),
    (AMQP_SUBJECT, {"protocol": "amqp"}, [("/properties/subject", "required")]),
    (
        options("AMQP/1.0", properties={"message-id": {"type": "uuid"}}),
        {"properties": {"message_id": "8d3b5b0e-0b0a-4b0f-9d5c-3c1b2f6b7a10"}},
        [],
    ),
    (
        options("AMQP/1.0", properties={"message-id": {"type": "ulong"}}),
        {"properties": {"message-id": -1}},
        [("/properties/message-id", "type")],
    ),
    (
        options("AMQP/1.0", properties={"group-sequence": {"value": "7"}}),
        {"properties": {"group-sequence": 7}},
        [],
    ),
    (
        options("AMQP/1.0", application_properties={"n": {"type": "integer", "required": True}}),
        {"application-properties": {"n": "7"}},
        [("/application-properties/n", "type")],
    ),
    (
        options("AMQP/1.0", header={"durable": False, "priority": 4, "delivery-count": 0}),
        {"header": {"delivery-count": 3}},
        [],
    ),
    (
        options("AMQP/1.0", header={"durable": True}),
        {},
        [("/header/durable", "value")],
    ),
    (
        options("AMQP/1.0", properties={"content-type": {"value": "application/json"}}),
        {"properties": {"content-type": "application/JSON;charset=utf-8"}},
        [],
    ),
    (options("KAFKA", key="{a}-{b}"), {"key": "x-y"}, []),
    (options("Kafka", key="{a}-{b}"), {"protocol": "KAFKA", "key": "xy"}, [("/key", "template")]),
    (options("KAFKA", partition=3), {"partition": 3}, []),
    (options("KAFKA"), {"key": "a", "key_base64": "YQ=="}, [("/key", "exclusive")]),
    (
        options("KAFKA", headers={"h": {"name": "action", "value": "go"}}),
        {"headers": {"action": "stop"}},
        [("/headers/action", "value")],
    ),
    (options("HTTP", headers=HEADER), {"headers": {"x-a": "1"}}, []),
    (options("HTTP/1.1", headers=HEADER), {"protocol": "HTTP/2"}, [("/headers/X-A", "required")]),
    (
        options("HTTP", headers=HEADER, path="/{a}"),
        {"headers": [{"name": "x-a", "value": "1"}], "path": "/2"},
        [("/path", "placeholder")],
    ),
    (
        options("HTTP", query=[{"name": "q", "value": "1"}], method="POST"),
        {"query": {"q": "2"}, "method": "PUT"},
        [("/query/q", "value"), ("/method", "value")],
    ),
    (options("HTTP"), {"method": "GET", "status": "200"}, [("/method", "exclusive")]),
    (options("NATS", subject="a.{b}"), {"subject": "a.x"}, []),
    (options("NATS", reply="r"), {"reply-to": "q"}, [("/reply-to", "value")]),
    (options("NATS", headers=HEADER), {"headers": {"x-a": "1"}}, [("/headers/X-A", "required")]),
]


@pytest.mark.parametrize(("definition", "message", "expected"), PROTOCOLS)
def test_a_message_has_the_options_of_its_protocol(
    definition: dict[str, Any], message: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert broken(definition, message) == expected


def attributes(prefix: str) -> dict[str, str]:
    return {prefix + name: value for name, value in EVENT.items()}


BOUND: list[tuple[str, dict[str, Any]]] = [
    ("HTTP", {"headers": attributes("Ce-")}),
    ("KAFKA", {"headers": attributes("ce_")}),
    ("NATS", {"headers": attributes("ce-")}),
    ("AMQP/1.0", {"application-properties": attributes("cloudEvents:")}),
    ("AMQP/1.0", {"application_properties": attributes("cloudEvents_")}),
    ("MQTT/5.0", {"user_properties": attributes("")}),
    ("MQTT/3.1.1", {"payload": EVENT}),
    ("KAFKA", {"headers": {"content-type": "application/cloudevents+json"}, "payload": EVENT}),
    (
        "AMQP/1.0",
        {
            "properties": {"content-type": "application/cloudevents+json; charset=utf-8"},
            "payload_base64": base64.b64encode(orjson.dumps(EVENT)).decode(),
        },
    ),
]


@pytest.mark.parametrize(("protocol", "message"), BOUND)
def test_an_event_is_found_where_its_binding_puts_it(
    protocol: str, message: dict[str, Any]
) -> None:
    definition = {"protocol": protocol, "envelope": CE}
    assert broken(definition, message) == []
    wrong = definition | {"envelopemetadata": {"type": {"value": "other"}}}
    ((pointer, rule),) = broken(wrong, message)
    assert rule == "value"
    assert pointer.endswith("type")
    found: Any = message
    for step in pointer.split("/")[1:] if "payload_base64" not in message else ():
        found = found[step]
    assert found in ("a.b", message)


def test_a_message_without_an_event_is_not_in_the_envelope() -> None:
    for message in (
        {"key": "a", "payload": 1},
        {"headers": {"content-type": "application/cloudevents+json"}, "payload": "{"},
        {"headers": {"content-type": "application/cloudevents+avro"}, "payload_base64": "AA=="},
    ):
        assert broken({"protocol": "KAFKA", "envelope": CE}, message) == [("", "envelope")]
    assert broken({"envelope": CE}, EVENT | {"id": "2"}) == []
    assert broken({"envelope": CE}, {"envelope": "SOAP/1.2", "payload": "<a/>"}) == [
        ("/envelope", "envelope"),
        ("", "envelope"),
    ]


def test_an_event_inside_a_payload_may_be_as_hostile_as_any() -> None:
    deep = b'{"specversion": "1.0", "data": ' + b"[" * 900 + b"]" * 900 + b"}"
    header = {"content-type": "application/cloudevents+json"}
    message = {"headers": header, "payload_base64": base64.b64encode(deep).decode()}
    combined = combine([{"protocol": "KAFKA", "envelope": CE}], {})
    (violation,) = check_metadata(read(message, combined), combined).violations
    assert violation.detail == "its payload is nested too deeply"


HUGE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, EVENT | {f"A{n}": n for n in range(50_000)}),
    ({}, EVENT | {f"a{n}": n for n in range(1_500_000)}),
    (
        options("NATS", headers=[{"name": "h", "value": f"{n}"} for n in range(20_000)]),
        {"headers": [{"name": "h", "value": "x"}] * 20_000},
    ),
    (
        options("NATS", headers=[{"name": "h", "value": "{a}x" * 500} for n in range(5_000)]),
        {"headers": {"h": "ax" * 500_000}},
    ),
]


@pytest.mark.parametrize(("definition", "message"), HUGE, ids=range(len(HUGE)))
def test_what_is_too_much_is_given_up_in_bounded_time(
    definition: dict[str, Any], message: dict[str, Any]
) -> None:
    began = time.process_time()
    assert ("", "size") in broken(definition, message)
    assert time.process_time() - began < 5


def test_many_placeholders_are_no_hindrance() -> None:
    names = [f"h{n}" for n in range(500)]
    wanted = [{"name": name, "value": f"{{{name}}}/{{all}}"} for name in names]
    message = {"headers": {name: f"{name}/x" for name in names}}
    assert broken(options("NATS", headers=wanted), message) == []


def test_what_nothing_was_held_against_is_reported() -> None:
    assert unchecked({"envelope": CE, "protocol": "KAFKA"}, EVENT) == ["protocol"]
    assert unchecked({"protocol": "CoAP/1.0"}, {"payload": 1}) == ["protocol"]
    assert unchecked({"envelope": "SOAP/1.2"}, {"payload": 1}) == ["envelope"]
    assert unchecked(options("KAFKA", keys="a"), {"key": "b"}) == ["protocoloptions/keys"]
    assert unchecked({"protocol": "None"}, {"payload": 1}) == []


CONTENT_TYPES: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
    ("application/json", EVENT | {"data": {}}, []),
    ("application/json", EVENT, []),
    (
        "application/json",
        EVENT | {"datacontenttype": "text/plain", "data": "x"},
        [("/datacontenttype", "datacontenttype")],
    ),
    ("application/json", EVENT | {"data_base64": ""}, [("/datacontenttype", "datacontenttype")]),
    ("application/cloudevents+json", EVENT | {"data": 1}, []),
    ("application/cloudevents+json", {"payload": 1}, [("", "datacontenttype")]),
    ("avro/binary", {"payload_base64": "AA=="}, []),
    (
        "avro/binary",
        {"protocol": "KAFKA", "headers": {"Content-Type": "text/xml"}, "payload": "<a/>"},
        [("/payload", "datacontenttype")],
    ),
]


@pytest.mark.parametrize(("contenttype", "message", "expected"), CONTENT_TYPES)
def test_the_content_type_is_the_one_of_the_definition(
    contenttype: str, message: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert broken({"datacontenttype": contenttype}, message) == expected


def test_an_absolute_schema_uri_is_the_one_that_an_event_names() -> None:
    definition = {"envelope": CE, "dataschemauri": "https://a.example/s"}
    assert broken(definition, EVENT) == []
    assert broken(definition, EVENT | {"dataschema": "https://a.example/s"}) == []
    other = EVENT | {"dataschema": "https://a.example/t"}
    assert broken(definition, other) == [("/dataschema", "value")]
    assert broken(definition | {"dataschemauri": "#/schemagroups/g/schemas/s"}, other) == []


def test_a_relative_schema_uri_is_not_what_an_event_names() -> None:
    metadata = {"dataschema": {"value": "#/schemagroups/g/schemas/s", "required": True}}
    definition = {"envelope": CE, "envelopemetadata": metadata}
    event = EVENT | {"dataschema": "https://a.example/schemagroups/g/schemas/s"}
    assert broken(definition, event) == []
    assert unchecked(definition, event) == ["envelopemetadata/dataschema"]
    assert broken(definition, EVENT) == [("/dataschema", "required")]


def test_a_binary_event_has_its_values_as_text() -> None:
    headers = {f"Ce-{name.title()}": value for name, value in EVENT.items()}
    message = read_binary_event(
        [*headers.items(), ("ce-n", "7"), ("ce-q", '"a \\"b"'), ("content-type", "text/plain")],
        b"x",
    )
    assert message.event is not None
    assert message.event.attributes == EVENT | {
        "n": "7",
        "q": 'a "b',
        "datacontenttype": "text/plain",
    }
    metadata = {"n": {"type": "integer", "value": 7}}
    definition = combine([{"envelope": CE, "envelopemetadata": metadata}], {})
    assert check_metadata(message, definition).violations == []


def test_a_message_lies_over_its_base_level_by_level() -> None:
    base = {
        "envelope": CE,
        "envelopemetadata": {"type": {"value": "b", "required": True}, "id": {"value": "i"}},
        "protocol": "KAFKA",
        "protocoloptions": {"key": "k"},
        "dataschema": {"type": "object"},
        "description": "of the base",
    }
    own = {
        "envelopemetadata": {"type": {"value": "o"}},
        "protocol": "NATS",
        "protocoloptions": {"subject": "s"},
        "dataschemaxid": "/schemagroups/g/schemas/s",
    }
    combined = combine([own, base], {"envelope": "Other/1.0", "protocol": "HTTP"})
    assert combined == MessageDefinition(
        envelope=CE,
        envelopemetadata={"type": {"value": "o", "required": True}, "id": {"value": "i"}},
        protocol="NATS",
        protocoloptions={"subject": "s"},
        dataschemaxid="/schemagroups/g/schemas/s",
    )


def test_the_group_says_what_a_message_leaves_open() -> None:
    group = {"envelope": CE, "protocol": "HTTP"}
    assert combine([{}], group) == MessageDefinition(envelope=CE, protocol="HTTP")
    assert combine([{"envelope": "None"}, {"protocol": "NATS"}], group) == MessageDefinition(
        protocol="NATS"
    )


HERE = ["http://a.example:8080"]
PLACES: list[tuple[str, list[tuple[str, str]]]] = [
    ("/g/1/r/2", [("/g/1/r/2", "")]),
    ("#/g/1/r/2/versions/3", [("/g/1/r/2/versions/3", "")]),
    ("http://a.example:8080/g/1/r/2$details", [("/g/1/r/2", "")]),
    ("http://a.example:8080/g/1/r/2$details#N", [("/g/1/r/2", "N")]),
    ("/g/1/r/2:N", [("/g/1/r/2:N", ""), ("/g/1/r/2", "N")]),
    ("/g/1/r/2/versions/3:a.N", [("/g/1/r/2/versions/3:a.N", ""), ("/g/1/r/2/versions/3", "a.N")]),
    ("/g/1/r/2/definitions/N", [("/g/1/r/2", "/definitions/N")]),
    ("#/g/1/r/2/versions/3/$defs/N", [("/g/1/r/2/versions/3", "/$defs/N")]),
    ("/g/1/r/2#/definitions/N", [("/g/1/r/2", "/definitions/N")]),
    ("http://a.example/g/1/r/2", []),
    ("http://a.example:80801/g/1/r/2", []),
    ("urn:a", []),
    ("/g/1", []),
    ("/", []),
    ("", []),
    ("#/g", []),
    ("/g/1/r/%2e%2e", []),
]


@pytest.mark.parametrize(("reference", "expected"), PLACES)
def test_a_reference_leads_into_the_registry_or_elsewhere(
    reference: str, expected: list[tuple[str, str]]
) -> None:
    assert [
        (str(place.xid), place.part) for place in reference_targets(reference, HERE)
    ] == expected


@pytest.mark.parametrize("bases", [("http://a/api", "http://a"), ("http://a", "http://a/api")])
def test_a_reference_is_read_below_the_nearest_base(bases: tuple[str, ...]) -> None:
    [place] = reference_targets("http://a/api/g/1/r/2", bases)
    assert str(place.xid) == "/g/1/r/2"


@pytest.mark.parametrize("value", [1, None, [], "x", {"topic": "t"}, {"protocol": []}])
def test_what_is_no_message_is_refused(value: Any) -> None:
    with pytest.raises(ParsingData):
        read_json_message(value, "")
