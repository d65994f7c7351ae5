"""Translation between CloudEvents Registry 0.4 and the native model, without a node."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.dialects.registry04.load import Layout
from catalog.dialects.registry04.names import Kind, References, path_of, types_in
from catalog.dialects.registry04.translate import (
    REGISTRY04_ATTRIBUTE,
    Fill,
    from_entity,
    shown_of,
    to_entity,
)
from catalog.dialects.versionnumbers import last_number, latest_of, shown_number
from catalog.model.attributes import check_attributes
from catalog.model.entity import Entity
from catalog.model.modelsource import default_model
from catalog.model.schema import Attribute
from catalog.model.xid import Xid

MODEL = default_model()
SHOW = Layout(MODEL, base="", authority="")
BASE, ALIAS = "https://here.example:8080", "http://localhost:8080"
REFERENCES, POINTERS = References((BASE, ALIAS)), References()


def definitions_of(kind: Kind) -> Mapping[str, Attribute]:
    groups = {"endpoint": "endpoints", "definitionGroup": "messagegroups"}
    if kind in groups or kind == "schemaGroup":
        return MODEL.groups[groups.get(kind, "schemagroups")].own_attributes
    found = (
        MODEL.resource_type("messagegroups", "messages")
        if kind == "definition"
        else MODEL.resource_type("schemagroups", "schemas")
    )
    assert found is not None
    return found.version_attributes


def fill_of(kind: Kind) -> Fill:
    return SHOW.fill(definitions_of(kind))


def stored(
    kind: Kind, body: Mapping[str, Any], references: References = POINTERS
) -> dict[str, Any]:
    """The attributes as the engine keeps them; nothing in them is refused."""
    native = to_entity(kind, body, None, fill_of(kind), references)
    checked, violations = check_attributes(native, definitions_of(kind), subject="/x", model=MODEL)
    assert not violations, [violation.title for violation in violations]
    return checked


AMQP = {
    "format": "AMQP/1.0",
    "metadata": {
        "properties": {
            "message-id": {"required": True},
            "to": {"value": "https://{host}/{queue}"},
            "subject": {"value": "MyMessageType", "required": True},
            "content-type": {"value": "application/json"},
            "content-encoding": {"value": "utf-8"},
        },
        "application-properties": {
            "my-application-property": {"value": "my-application-property-value"}
        },
    },
}
CLOUDEVENT = {
    "format": "CloudEvents/1.0",
    "metadata": {
        "attributes": {
            "type": {"value": "com.example.myevent"},
            "source": {"value": "https://{tenant}/{module}/myevent", "type": "uritemplate"},
            "subject": {"type": "urireference"},
            "time": {"required": True},
        }
    },
    "schemaformat": "JsonSchema/draft-07",
    "schemaurl": "https://example.com/schemas/com.example.myevent.json",
}
TELEMETRY = {
    "description": "device telemetry event",
    "format": "CloudEvents/1.0",
    "metadata": {
        "attributes": {
            "id": {"type": "string", "required": True},
            "type": {"type": "string", "value": "com.example.telemetry", "required": True},
            "time": {"type": "datetime", "required": True},
            "source": {"type": "uritemplate", "value": "{deploymentid}/{deviceid}"},
        }
    },
    "schemaformat": "Protobuf/3.0",
    "schemaurl": "#/schemaGroups/g/schemas/s/versions/1.0",
}
HTTP = {
    "format": "HTTP/1.1",
    "metadata": {
        "headers": [{"name": "Content-Type", "value": "application/json"}],
        "query": {"foo": "bar"},
        "path": "/foo/{bar}",
        "method": "POST",
    },
    "schemaformat": "JsonSchema/draft-07",
    "schemaurl": "https://example.com/schemas/com.example.myevent.json",
}
MQTT = {
    "format": "MQTT/5.0",
    "metadata": {
        "qos": {"value": 1},
        "retain": {"value": False},
        "topic-name": {"value": "mytopic"},
        "user-properties": [
            {"my-application-property": {"value": "my-application-property-value"}}
        ],
    },
}
KAFKA = {
    "format": "Kafka/0.11",
    "metadata": {"topic": {"value": "mytopic"}, "key": {"value": "thisdevice"}},
}
BORROWED = {"uri": "#/definitionGroups/com.example.abc/definitions/com.example.abc.event1"}


def config(protocol: str, options: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"usage": "producer", "config": {"protocol": protocol, "options": options, **more}}


ENDPOINTS: dict[str, dict[str, Any]] = {
    "telemetry": {
        "usage": "consumer",
        "config": {
            "protocol": "MQTT/5.0",
            "strict": False,
            "endpoints": ["mqtt://mqtt.example.com:1883"],
            "options": {"topic": "{deviceid}/telemetry"},
        },
        "format": "CloudEvents/1.0",
        "definitionGroups": ["#/definitionGroups/com.example.telemetryEvents"],
    },
    "elsewhere": {
        "format": "CloudEvents/1.0",
        "definitionGroups": [
            "https://site.example.com/registry/definitiongroups/com.example.telemetryEvents",
            "https://example.com/a.cereg#/definitionGroups/com.example.telemetryEvents",
        ],
    },
    "http": config(
        "HTTP/1.1",
        {
            "method": "POST",
            "headers": [{"name": "Content-Type", "value": "application/json"}],
            "query": {"operation": "send"},
        },
    ),
    "amqp": config(
        "AMQP/1.0",
        {
            "node": "myqueue",
            "durable": True,
            "link-properties": {"my-link-property": "my-link-property-value"},
            "connection-properties": {"my-connection-property": "my-connection-property-value"},
            "distribution-mode": "move",
        },
    ),
    "mqtt": config(
        "MQTT/5.0",
        {
            "topic": "mytopic",
            "qos": 1,
            "retain": False,
            "clean-session": False,
            "will-topic": "mytopic",
            "will-message": "#/definitionGroup/mygroup/definitions/my-will-message",
        },
    ),
    "kafka": config("Kafka/2.0", {"topic": "mytopic", "acks": 1, "key": "mykey"}),
    "nats": config("NATS/1.0.0", {"subject": "mysubject"}),
    "deprecated": {"deprecated": {}},
    "alternative": {
        "deprecated": {
            "removal": "2030-12-19T00:00:00-00:00",
            "alternative": "https://example.com/endpoints/123",
        }
    },
    "channel": {"channel": "queue1", "origin": "https://example.com/endpoints/1"},
}
DEFINITIONS = (AMQP, CLOUDEVENT, TELEMETRY, HTTP, MQTT, KAFKA, BORROWED)


@pytest.mark.parametrize(
    ("body", "protocol", "options"),
    [
        (
            MQTT,
            "MQTT/5.0",
            {
                "qos": 1,
                "retain": False,
                "topic_name": "mytopic",
                "user_properties": [
                    {"name": "my-application-property", "value": "my-application-property-value"}
                ],
            },
        ),
        (KAFKA, "KAFKA", {"topic": "mytopic", "key": "thisdevice"}),
        (
            HTTP,
            "HTTP",
            {
                "path": "/foo/{bar}",
                "method": "POST",
                "headers": [
                    {"name": "Content-Type", "value": "application/json", "required": False}
                ],
                "query": [{"name": "foo", "value": "bar", "required": False}],
            },
        ),
    ],
)
def test_a_format_that_is_a_protocol_becomes_one(
    body: dict[str, Any], protocol: str, options: dict[str, Any]
) -> None:
    native = stored("definition", body)
    assert (native["protocol"], native["protocoloptions"]) == (protocol, options)


def test_an_endpoint_has_the_newest_shape_natively() -> None:
    native = stored("endpoint", ENDPOINTS["telemetry"])
    assert native["usage"] == ["consumer"]
    assert native["messagegroups"] == ["/messagegroups/com.example.telemetryEvents"]
    assert (
        native["protocoloptions"].items()
        >= {
            "endpoints": [{"uri": "mqtt://mqtt.example.com:1883"}],
            "topic": "{deviceid}/telemetry",
            "deployed": False,
        }.items()
    )
    mqtt = stored("endpoint", ENDPOINTS["mqtt"])["protocoloptions"]
    assert (mqtt["cleanstart"], mqtt["willtopic"]) == (False, "mytopic")
    assert mqtt["willmessage"] == "/messagegroups/mygroup/messages/my-will-message"


def test_options_that_are_strings_are_what_the_model_wants() -> None:
    body = config("MQTT/5.0", {"qos": "1", "retain": "true"})
    native = stored("endpoint", body)
    assert native["protocoloptions"].items() >= {"qos": 1, "retain": True}.items()
    assert from_entity("endpoint", native, fill_of("endpoint")) == body


def test_a_native_change_is_shown_in_place_of_what_was_written() -> None:
    native = stored("definition", TELEMETRY)
    native["envelopemetadata"]["subject"] = {"type": "string", "required": True}
    shown = from_entity("definition", native, fill_of("definition"))
    attributes = shown["metadata"]["attributes"]
    assert attributes["subject"] == {"type": "string", "required": True}
    assert attributes["time"]["type"] == "timestamp"
    assert shown["schemaurl"] == TELEMETRY["schemaurl"]


def test_other_usages_of_an_endpoint_outlive_a_write_of_the_one_that_is_shown() -> None:
    before = {"usage": ["consumer", "producer"]}
    assert from_entity("endpoint", before) == {"usage": "consumer"}
    assert to_entity("endpoint", {"usage": "consumer"}, before)["usage"] == before["usage"]
    assert to_entity("endpoint", {"usage": "producer"}, before)["usage"] == ["producer"]


def test_what_an_address_has_beside_its_uri_outlives_a_write() -> None:
    address = {"uri": "https://a", "region": "eu"}
    before = {"protocol": "HTTP", "protocoloptions": {"endpoints": [address], "deployed": True}}
    shown = from_entity("endpoint", before)
    assert shown["config"]["endpoints"] == ["https://a"]
    assert to_entity("endpoint", shown, before) == before


def test_the_scheme_of_a_kafka_broker_is_its_security_protocol() -> None:
    config = {"protocol": "KAFKA", "strict": True, "endpoints": ["SSL://b1:9093,b2:9093"]}
    native = to_entity("endpoint", {"config": config})
    assert native["protocoloptions"]["endpoints"] == [
        {"bootstrap.servers": ["b1:9093", "b2:9093"], "security.protocol": "SSL"}
    ]
    assert from_entity("endpoint", native)["config"] == config


def test_a_message_with_envelope_and_protocol_is_shown_by_its_envelope() -> None:
    native = {"envelope": "CloudEvents/1.0", "envelopemetadata": {}, "protocol": "HTTP"}
    shown = from_entity("definition", native)
    assert shown == {"format": "CloudEvents/1.0", "metadata": {"attributes": {}}}
    assert shown_of("definition", native) == {"envelope", "envelopemetadata"}


@pytest.mark.parametrize(
    ("authority", "origin"),
    [("https://there", "https://there/endpoints/e"), ("urn:uuid:1", "/endpoints/e")],
)
def test_an_endpoint_of_another_authority_names_its_origin(authority: str, origin: str) -> None:
    now = datetime.now(UTC)
    entity = Entity(
        xid="/endpoints/x",
        kind="group",
        authority=authority,
        origin="/endpoints/e",
        epoch=1,
        attributes={REGISTRY04_ATTRIBUTE: {"origin": "https://elsewhere"}},
        createdat=now,
        modifiedat=now,
    ).sealed()
    types = next(types for types in types_in(MODEL) if types.group.singular == "endpoint")
    assert SHOW.group(entity, types, 0)["origin"] == origin


def test_names_that_mean_something_else_natively_do_not_get_there() -> None:
    body = {
        "labels": 1,
        "protocol": "x",
        "type": "endpoint",
        "Upper": 2,
        "xid": "/",
        REGISTRY04_ATTRIBUTE: 3,
    }
    native = to_entity("endpoint", body)
    assert native == {REGISTRY04_ATTRIBUTE: body}
    assert from_entity("endpoint", native) == body


@pytest.mark.parametrize(
    ("pointer", "xid"),
    [
        ("#/definitionGroups/g", "/messagegroups/g"),
        ("#/definitionGroups/g/definitions/d", "/messagegroups/g/messages/d"),
        ("#/schemaGroups/g/schemas/s/versions/1", "/schemagroups/g/schemas/s/versions/1"),
        ("#/endpoints/a~0b/definitions/d", "/endpoints/a~b/messages/d"),
        ("https://example.com/#/endpoints/e", "https://example.com/#/endpoints/e"),
        ("#/endpoints/e/schemas/s", "#/endpoints/e/schemas/s"),
        ("#/definitionGroups/not an id", "#/definitionGroups/not an id"),
    ],
)
def test_pointers_into_the_registry_are_xids(pointer: str, xid: str) -> None:
    assert REFERENCES.native(pointer) == xid
    assert REFERENCES.own(xid) == pointer


IDS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._~:@-]{0,8}", fullmatch=True)
PLACES = st.one_of(
    st.sampled_from(["endpoints", "messagegroups"]).flatmap(
        lambda groups: st.builds(Xid, st.just(groups), IDS, st.just("messages"), IDS, IDS)
    ),
    st.builds(Xid, st.just("schemagroups"), IDS, st.just("schemas"), IDS, IDS),
).flatmap(lambda xid: st.sampled_from([xid, xid.resource, xid.group]))


def pointer_to(path: str) -> str:
    return "#" + path.replace("~", "~0")


@given(PLACES)
def test_every_native_form_of_a_reference_has_one_of_edition_04(xid: Xid) -> None:
    forms = {
        str(xid): pointer_to(path_of(xid)),
        pointer_to(str(xid)): pointer_to(path_of(xid)),
        f"{BASE}{xid}": f"{BASE}/registry/0.4{path_of(xid)}",
        f"{ALIAS}{xid}": f"{ALIAS}/registry/0.4{path_of(xid)}",
        f"https://elsewhere.example{xid}": f"https://elsewhere.example{xid}",
    }
    for native, own in forms.items():
        assert REFERENCES.own(native) == own
        assert REFERENCES.native(own, ["x", native]) == native
        assert REFERENCES.own(REFERENCES.native(own)) == own


@given(IDS, st.data())
def test_references_of_any_entity_come_back_as_they_were_written(
    id: str, data: st.DataObject
) -> None:
    forms = st.sampled_from(
        [
            lambda xid: pointer_to(path_of(xid)),
            lambda xid: f"{BASE}/registry/0.4{path_of(xid)}",
            lambda xid: f"{BASE}{xid}",
            lambda xid: pointer_to(str(xid)),
            str,
        ]
    )
    groups = [draw(Xid("messagegroups", id)) for draw in data.draw(st.lists(forms, max_size=3))]
    owner = data.draw(st.sampled_from(["messagegroups", "endpoints"]))
    options = {"will-message": data.draw(forms)(Xid(owner, id, "messages", id))}
    config = {"protocol": "MQTT/5.0", "strict": False, "options": options}
    endpoint = {"definitionGroups": groups, "config": config}
    native = stored("endpoint", endpoint, REFERENCES)
    assert from_entity("endpoint", native, fill_of("endpoint"), REFERENCES) == endpoint
    schema = Xid("schemagroups", id, "schemas", id, data.draw(st.sampled_from(["", id])))
    definition = {
        "schemaurl": data.draw(forms)(schema),
        "schemaformat": "Avro",
        "uri": data.draw(forms)(Xid("messagegroups", id, "messages", id)),
    }
    native = stored("definition", definition, REFERENCES)
    assert from_entity("definition", native, fill_of("definition"), REFERENCES) == definition


@given(PLACES, st.sampled_from(["{0}", "#{0}", f"{BASE}{{0}}", "https://elsewhere.example{0}"]))
def test_a_write_of_the_references_that_are_shown_changes_none(xid: Xid, form: str) -> None:
    reference = form.format(xid)
    native = {"messagegroups": [reference], "usage": ["consumer"]}
    shown = from_entity("endpoint", native, references=REFERENCES)
    assert to_entity("endpoint", shown, native, references=REFERENCES) == native
    native = {"dataschemauri": reference, "basemessage": reference}
    shown = from_entity("definition", native, references=REFERENCES)
    assert to_entity("definition", shown, native, references=REFERENCES) == native


def test_a_path_has_the_older_names() -> None:
    xid = Xid("messagegroups", "g", "messages", "m", "1")
    assert path_of(xid) == "/definitionGroups/g/definitions/m/versions/1"


@pytest.mark.parametrize(
    ("vids", "latest", "last"),
    [
        (["1", "2", "10"], "10", 10),
        (["1.0", "2.0", "10.0"], "10.0", 0),
        (["v1", "3"], "3", 3),
        (["007", "5"], "5", 5),
    ],
)
def test_the_latest_version_is_the_largest(vids: list[str], latest: str, last: int) -> None:
    assert latest_of(vids) == latest
    assert last_number(vids) == last


def test_a_number_is_not_given_twice() -> None:
    assert last_number(["1"], [range(2, 5)]) == 4


def test_versions_are_numbers_where_they_can_be() -> None:
    vids = ["0", "12", "1.0", "01", "v"]
    assert [shown_number(vid) for vid in vids] == [
        0,
        12,
        "1.0",
        "01",
        "v",
    ]


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1)
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,10}", fullmatch=True)
VALUES = st.recursive(
    TEXTS | st.integers(-(2**40), 2**40) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
EXTENSIONS = st.dictionaries(NAMES.map(lambda name: f"ext{name}"), VALUES, max_size=3)
COMMON = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXTS,
        "description": TEXTS,
        "createdBy": TEXTS,
        "modifiedBy": TEXTS,
        "type": TEXTS,
        "tags": st.dictionaries(NAMES, TEXTS, max_size=3),
        "docs": st.just("https://example.com/docs"),
    },
)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            ["string", "uritemplate", "uri", "urireference", "symbol", "timestamp", "integer"]
        ),
        "value": TEXTS | st.integers(0, 9) | st.booleans(),
        "required": st.just(True),
        "description": TEXTS,
    },
)
CLOUDEVENTS = st.dictionaries(
    st.sampled_from(["id", "type", "source", "subject", "time", "myextension"]), PROPERTIES
)
FORMATS = st.one_of(
    CLOUDEVENTS.map(lambda found: {"format": "CloudEvents/1.0", "metadata": {"attributes": found}}),
    st.dictionaries(
        st.sampled_from(["message-id", "user-id", "to", "group-sequence"]), PROPERTIES
    ).map(lambda found: {"format": "AMQP", "metadata": {"properties": found}}),
    st.dictionaries(st.sampled_from(["content-type", "topic-name"]), PROPERTIES).map(
        lambda found: {
            "format": "MQTT",
            "metadata": {k: {**v, "value": "x"} for k, v in found.items()},
        }
    ),
    st.dictionaries(NAMES, PROPERTIES).map(
        lambda found: {
            "format": "Kafka/0.11",
            "metadata": {"headers": {k.lower(): v for k, v in found.items()}},
        }
    ),
    VALUES.map(lambda found: {"format": "BunnyMQ/0.9.1", "metadata": {"any": found}}),
    st.just({}),
)
CONFIGS = st.fixed_dictionaries(
    {"protocol": st.sampled_from(["HTTP/2", "MQTT", "mqtt/3.1.1", "NATS", "KAFKA/3.5", "Bunny/1"])},
    optional={
        "strict": st.booleans(),
        "endpoints": st.lists(
            st.from_regex(r"(tcp://|SSL://|)[a-z]{1,8}:9", fullmatch=True), max_size=3
        ),
        "options": st.dictionaries(
            NAMES.map(lambda name: f"x{name}") | st.just("clean-session"), st.booleans(), max_size=3
        ),
        "more": VALUES,
    },
)
ENDPOINT = st.fixed_dictionaries(
    {},
    optional={
        "usage": st.sampled_from(["subscriber", "consumer", "producer"]),
        "format": st.sampled_from(["CloudEvents/1.0", "AMQP/1.0", "cloudevents"]),
        "channel": TEXTS,
        "origin": TEXTS,
        "config": CONFIGS,
        "definitionGroups": st.lists(
            st.sampled_from(["#/definitionGroups/g", "/messagegroups/g", "https://a.example/b"])
        ),
    },
)


@given(COMMON, FORMATS, EXTENSIONS)
def test_any_definition_comes_back_as_it_was(
    common: dict[str, Any], format: dict[str, Any], extensions: dict[str, Any]
) -> None:
    body = {**common, **format, **extensions}
    assert from_entity("definition", stored("definition", body), fill_of("definition")) == body


@given(COMMON, ENDPOINT, EXTENSIONS)
def test_any_endpoint_comes_back_as_it_was(
    common: dict[str, Any], endpoint: dict[str, Any], extensions: dict[str, Any]
) -> None:
    body = {**common, **endpoint, **extensions}
    assert from_entity("endpoint", stored("endpoint", body), fill_of("endpoint")) == body


@given(COMMON, FORMATS)
def test_a_write_of_what_is_shown_changes_nothing(
    common: dict[str, Any], format: dict[str, Any]
) -> None:
    native = stored("definition", {**common, **format})
    shown = from_entity("definition", native, fill_of("definition"))
    assert to_entity("definition", shown, native, fill_of("definition")).keys() == native.keys()
    assert stored("definition", shown) == native


NATIVE_MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXTS,
        "labels": st.dictionaries(NAMES.map(str.lower), TEXTS, max_size=3),
        "documentation": st.just("https://example.com"),
        "envelope": st.just("CloudEvents/1.0"),
        "protocol": st.sampled_from(["HTTP", "KAFKA", "MQTT/5.0", "AMQP/1.0", "NATS", "X/1"]),
        "dataschemaformat": TEXTS,
        "dataschema": VALUES,
        REGISTRY04_ATTRIBUTE: VALUES,
        "icon": st.just("https://example.com/i"),
    },
)


@given(NATIVE_MESSAGES)
def test_a_message_of_any_kind_shows_what_both_editions_have(native: dict[str, Any]) -> None:
    shown = from_entity("definition", native, fill_of("definition"))
    pairs = {
        "name": "name",
        "labels": "tags",
        "documentation": "docs",
        "dataschemaformat": "schemaformat",
        "dataschema": "schema",
    }
    for ours, own in pairs.items():
        assert shown.get(own) == native.get(ours)
    assert shown.get("format") == native.get("envelope", native.get("protocol"))
    back = to_entity("definition", shown, native, fill_of("definition"))
    assert {k: v for k, v in back.items() if k != REGISTRY04_ATTRIBUTE} == {
        k: native[k] for k in shown_of("definition", native)
    }


PROTOCOLS = ("HTTP", "KAFKA", "MQTT/5.0", "MQTT/3.1.1", "AMQP/1.0", "NATS")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(options=VALUES)
def test_options_of_any_shape_can_be_shown(protocol: str, options: Any) -> None:
    names = ("query", "headers", "user_properties", "header", "endpoints", "willmessage")
    for native in (options, [options], {"a": options}, [{"name": options}]):
        found = {"protocol": protocol, "protocoloptions": dict.fromkeys(names, native)}
        assert from_entity("definition", found)["format"] == protocol
        assert from_entity("endpoint", found)["config"]["protocol"] == protocol
