"""Rules of the domains that the model language cannot express."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.modelsource import default_model, load_model
from catalog.model.xid import Xid
from catalog.rules.domainrules import DomainRules
from catalog.rules.fault import Fault, Subject

RULES = DomainRules(default_model())
MESSAGE = "/messagegroups/g/messages/m/versions/1"
ENDPOINT = "/endpoints/e"


@dataclass(frozen=True)
class World:
    """Entities by xid; of groups that it names it knows everything."""

    entities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    bases: tuple[str, ...] = ("https://catalog.example.com",)

    def find(self, xid: Xid) -> Subject | None:
        for path in (xid, xid.version("1")) if xid.kind == "resource" else (xid,):
            if (found := self.entities.get(str(path))) is not None:
                return Subject(xid=path, attributes=found)
        return None

    def is_absent(self, xid: Xid) -> bool:
        return str(xid.group) in self.entities and self.find(xid) is None


def examine(xid: str, attributes: Mapping[str, Any], **world: Mapping[str, Any]) -> list[Fault]:
    around = World({xid: attributes, **world})
    subject = Subject(xid=Xid.parse(xid), attributes=attributes)
    return RULES.examine(subject, around) + RULES.examine_references(subject, around)


def found(xid: str, attributes: Mapping[str, Any], **world: Any) -> list[tuple[str, str]]:
    return [(fault.rule.name, fault.pointer) for fault in examine(xid, attributes, **world)]


def http(**options: Any) -> dict[str, Any]:
    return {"protocol": "HTTP/1.1", "protocoloptions": options}


def kafka(**options: Any) -> dict[str, Any]:
    return {"protocol": "KAFKA", "protocoloptions": options}


def mqtt(**options: Any) -> dict[str, Any]:
    return {"protocol": "MQTT/5.0", "protocoloptions": options}


def nats(**options: Any) -> dict[str, Any]:
    return {"protocol": "NATS", "protocoloptions": options}


def event(**metadata: Any) -> dict[str, Any]:
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}


MESSAGES: list[tuple[Mapping[str, Any], str, str]] = [
    (
        {"dataschema": {}, "dataschemauri": "urn:s", "dataschemaformat": "Avro/1.9"},
        "dataschema_exclusive",
        "/dataschema",
    ),
    ({"dataschemauri": "urn:s"}, "dataschemaformat_missing", "/dataschemauri"),
    ({"dataschema": {}}, "dataschemaformat_missing", "/dataschema"),
    ({"dataschemaformat": "Avro"}, "dataschemaformat_malformed", "/dataschemaformat"),
    ({"datacontenttype": "json"}, "datacontenttype_malformed", "/datacontenttype"),
    ({"envelope": "CloudEvents"}, "envelope_malformed", "/envelope"),
    ({"protocol": " "}, "protocol_empty", "/protocol"),
    (
        {"envelopemetadata": {"type": {"value": "t"}}},
        "envelopemetadata_unused",
        "/envelopemetadata",
    ),
    (
        event(time={"type": "timestamp", "value": "noon"}),
        "value_malformed",
        "/envelopemetadata/time/value",
    ),
    (
        {
            "protocol": "AMQP/1.0",
            "protocoloptions": {"application-properties": {"n": {"type": "integer", "value": "x"}}},
        },
        "value_malformed",
        "/protocoloptions/application-properties/n/value",
    ),
    (event(my_attribute={}), "attribute_name_invalid", "/envelopemetadata/my_attribute"),
    (
        {
            **event(dataschema={"value": "https://example.com/b"}),
            "dataschemauri": "https://example.com/a",
            "dataschemaformat": "Avro/1.9",
        },
        "dataschema_differs",
        "/envelopemetadata/dataschema",
    ),
    (
        {**event(datacontenttype={"value": "text/xml"}), "datacontenttype": "application/json"},
        "datacontenttype_differs",
        "/envelopemetadata/datacontenttype",
    ),
    (kafka(key="k", key_base64="aw=="), "key_exclusive", "/protocoloptions/key_base64"),
    (kafka(key_base64="k"), "key_not_base64", "/protocoloptions/key_base64"),
    (kafka(topic=""), "topic_empty", "/protocoloptions/topic"),
    (kafka(headers={"": {"value": "a"}}), "header_name_empty", "/protocoloptions/headers/"),
    (http(status="200", method="GET"), "status_exclusive", "/protocoloptions/status"),
    (http(status="999"), "status_invalid", "/protocoloptions/status"),
    (http(method="GET IT"), "method_invalid", "/protocoloptions/method"),
    (http(headers=[{"name": "a b"}]), "header_name_invalid", "/protocoloptions/headers/0"),
    (http(headers=[{"value": "a"}]), "header_name_empty", "/protocoloptions/headers/0"),
    (http(query=[{"name": ""}]), "header_name_empty", "/protocoloptions/query/0"),
    (mqtt(topic_name=""), "topic_empty", "/protocoloptions/topic_name"),
    (mqtt(**{"topic-name": " "}), "topic_empty", "/protocoloptions/topic-name"),
    (mqtt(qos=3), "qos_invalid", "/protocoloptions/qos"),
    (
        mqtt(user_properties=[{"name": ""}]),
        "header_name_empty",
        "/protocoloptions/user_properties/0",
    ),
    (nats(subject=""), "topic_empty", "/protocoloptions/subject"),
    (nats(reply=""), "topic_empty", "/protocoloptions/reply"),
]

ENDPOINTS: list[tuple[Mapping[str, Any], str, str]] = [
    ({"usage": [], **http()}, "usage_empty", "/usage"),
    ({"usage": ["producer", "consumer"], "protocol": "NATS"}, "usage_combination", "/usage"),
    ({"usage": ["subscriber", "consumer"], **kafka()}, "usage_combination", "/usage"),
    ({"usage": ["subscriber", "consumer"], **http()}, "usage_combination", "/usage"),
    ({"usage": ["producer"]}, "selector_missing", ""),
    ({"channel": "", **http()}, "channel_empty", "/channel"),
    (
        http(headers=[{"name": "a", "value": " "}]),
        "header_value_empty",
        "/protocoloptions/headers/0",
    ),
    (
        http(authorization=[{"type": "Plain", "password": "p"}]),
        "authorization_credential",
        "/protocoloptions/authorization/0/password",
    ),
    (
        http(authorization=[{"type": "OAuth2", "clientsecret": "s"}]),
        "authorization_credential",
        "/protocoloptions/authorization/0/clientsecret",
    ),
    ({"envelope": ""}, "envelope_empty", "/envelope"),
    ({"protocol": ""}, "protocol_empty", "/protocol"),
    (
        {"envelopeoptions": {"mode": "binary", "format": "application/json"}, **http()},
        "envelope_format",
        "/envelopeoptions/format",
    ),
    (kafka(endpoints=[{"uri": "a:9092"}]), "address_missing", "/protocoloptions/endpoints/0"),
    (http(endpoints=[{}]), "address_missing", "/protocoloptions/endpoints/0"),
    (
        http(endpoints=[{"uri": "ftp://a"}]),
        "address_scheme",
        "/protocoloptions/endpoints/0/uri",
    ),
    (nats(endpoints=[{"uri": "nats://a"}]), "address_scheme", "/protocoloptions/endpoints/0/uri"),
    (http(endpoints=[{"uri": "a.b"}]), "address_scheme", "/protocoloptions/endpoints/0/uri"),
    (
        http(authorization=[{"type": ""}]),
        "authorization_empty",
        "/protocoloptions/authorization/0/type",
    ),
    (
        http(authorization=[{"type": "OAuth2", "mechanism": "PLAIN"}]),
        "authorization_mechanism",
        "/protocoloptions/authorization/0/mechanism",
    ),
    (mqtt(topic="a/#"), "topic_wildcard", "/protocoloptions/topic"),
    (mqtt(topic="a", topicfilter="a/+"), "topic_exclusive", "/protocoloptions/topicfilter"),
    (
        mqtt(sharedsubscriptiongroup="g"),
        "group_without_filter",
        "/protocoloptions/sharedsubscriptiongroup",
    ),
    (
        mqtt(topicfilter="a", sharedsubscriptiongroup="$share/g"),
        "shared_group_malformed",
        "/protocoloptions/sharedsubscriptiongroup",
    ),
    (nats(subject="a.*"), "topic_wildcard", "/protocoloptions/subject"),
    (nats(queuegroup="g"), "group_without_filter", "/protocoloptions/queuegroup"),
    (kafka(acks=2), "acks_range", "/protocoloptions/acks"),
    ({"usage": ["consumer"], **kafka()}, "consumergroup_missing", "/protocoloptions"),
    (
        {"usage": ["subscriber"], **kafka(consumergroup="g")},
        "consumergroup_misplaced",
        "/protocoloptions/consumergroup",
    ),
    (
        {"usage": ["producer"], **kafka(enableautocommit=True)},
        "consumption_misplaced",
        "/protocoloptions/enableautocommit",
    ),
    (kafka(headers={" ": "a"}), "header_name_empty", "/protocoloptions/headers/ "),
    (http(method="{"), "", ""),
    (http(method="?"), "method_invalid", "/protocoloptions/method"),
]


@pytest.mark.parametrize(("attributes", "rule", "pointer"), MESSAGES)
def test_what_a_message_breaks_is_named_with_its_place(
    attributes: Mapping[str, Any], rule: str, pointer: str
) -> None:
    assert found(MESSAGE, attributes) == [(rule, pointer)]


@pytest.mark.parametrize(("attributes", "rule", "pointer"), ENDPOINTS)
def test_what_an_endpoint_breaks_is_named_with_its_place(
    attributes: Mapping[str, Any], rule: str, pointer: str
) -> None:
    assert found(ENDPOINT, attributes) == ([(rule, pointer)] if rule else [])


@pytest.mark.parametrize(
    "attributes",
    [
        {**event(type={"value": "a"}), **kafka(topic="t", key="{id}", headers={"h": {}})},
        {"dataschemauri": "urn:s", "basemessage": "/messagegroups/other/messages/base"},
        http(status="{status}", headers=[{"name": "x-a"}]),
        http(status=404),
        mqtt(topic_name="a/{b}", qos=2),
        {
            **event(dataschema={"value": "{schema}"}),
            "dataschemauri": "/s",
            "dataschemaformat": "A/1",
        },
        {"datacontenttype": 'application/json; charset="utf-8"'},
        {"datacontenttype": "application/cloudevents+json", **event(datacontenttype="text/xml")},
        {"protocol": "Own/1", "protocoloptions": {"topic": ""}},
    ],
)
def test_a_message_that_is_as_it_should_be_is_clean(attributes: Mapping[str, Any]) -> None:
    assert found(MESSAGE, attributes) == []


@pytest.mark.parametrize(
    "attributes",
    [
        {"usage": ["subscriber", "consumer"], **mqtt(topicfilter="a/#")},
        {"usage": ["subscriber", "consumer"], "protocol": "amqp"},
        {"usage": ["consumer"], **kafka(consumergroup="g", autooffsetreset="latest")},
        {"usage": ["producer"], **kafka(acks=-1, endpoints=[{"bootstrap.servers": ["a:1"]}])},
        {"usage": ["consumer"], "protocol": "KAFKA"},
        {"usage": ["producer"], **nats(subject="a.b", endpoints=[{"uri": "nats://{host}"}])},
        {"usage": ["producer"], **http(endpoints=[{"uri": "{base}/events"}])},
        {"usage": ["producer"], **mqtt(endpoints=[{"uri": "mqtts://a:8883"}], topic="a/{b}")},
    ],
)
def test_an_endpoint_that_is_as_it_should_be_is_clean(attributes: Mapping[str, Any]) -> None:
    assert found(ENDPOINT, attributes) == []


def test_messages_have_the_envelope_and_the_protocol_of_their_group() -> None:
    group = {"/messagegroups/g": {"envelope": "CloudEvents/1.0", "protocol": "http"}}
    same = {"envelope": "cloudevents/1.0", "protocol": "HTTP/2"}
    assert found(MESSAGE, same, **group) == []
    other = {"envelope": "Other/1.0", "protocol": "NATS"}
    assert found(MESSAGE, other, **group) == [
        ("envelope_differs", "/envelope"),
        ("protocol_differs", "/protocol"),
    ]


@pytest.mark.parametrize(
    ("attributes", "pointer"),
    [
        ({"basemessage": "/messagegroups/g/messages/none"}, "/basemessage"),
        ({"basemessage": "#/messagegroups/g/messages/none"}, "/basemessage"),
        (
            {"basemessageuri": "https://catalog.example.com/messagegroups/g/messages/none"},
            "/basemessageuri",
        ),
        (
            {"dataschemauri": "/schemagroups/s/schemas/none", "dataschemaformat": "Avro/1"},
            "/dataschemauri",
        ),
        ({"dataschemaxid": "/schemagroups/s/schemas/none"}, "/dataschemaxid"),
    ],
)
def test_a_reference_that_leads_nowhere_is_told(
    attributes: Mapping[str, Any], pointer: str
) -> None:
    groups: dict[str, Any] = {"/messagegroups/g": {}, "/schemagroups/s": {}}
    assert found(MESSAGE, attributes, **groups) == [("reference_dangling", pointer)]
    assert found(MESSAGE, attributes) == [], "nothing is known of these groups"


@pytest.mark.parametrize(
    "part", ["", ":Order", "/versions/1", "/versions/1:orders/Order", "#/$defs/a"]
)
def test_a_reference_may_name_a_part_of_what_it_leads_to(part: str) -> None:
    schema = {"/schemagroups/s": {}, "/schemagroups/s/schemas/a/versions/1": {"format": "Avro/1"}}
    message = {"dataschemauri": f"/schemagroups/s/schemas/a{part}", "dataschemaformat": "Avro/1.9"}
    assert found(MESSAGE, message, **schema) == []


def test_endpoints_refer_to_groups_and_wills() -> None:
    endpoint = {"messagegroups": ["/messagegroups/g", "/messagegroups/h"], **mqtt(willmessage="/x")}
    assert found(ENDPOINT, endpoint, **{"/messagegroups/g": {}}) == []
    lost = mqtt(willmessage="/messagegroups/g/messages/none")
    assert found(ENDPOINT, lost, **{"/messagegroups/g": {}}) == [
        ("reference_dangling", "/protocoloptions/willmessage")
    ]


def test_a_message_is_not_among_its_own_bases() -> None:
    base = "/messagegroups/g/messages/b/versions/1"
    world = {base: {"basemessage": "/messagegroups/g/messages/m"}}
    message = {"basemessage": "/messagegroups/g/messages/b"}
    [fault] = examine(MESSAGE, message, **world)
    assert (fault.rule.name, fault.pointer) == ("basemessage_circular", "/basemessage")
    assert "/messagegroups/g/messages/b, /messagegroups/g/messages/m" in fault.message
    assert found(MESSAGE, {"basemessage": "/messagegroups/g/messages/m"}) == [
        ("basemessage_circular", "/basemessage")
    ]


def test_whoever_leads_into_a_circle_of_others_is_not_told_of_it() -> None:
    circle = {
        "/messagegroups/g/messages/b/versions/1": {"basemessage": "/messagegroups/g/messages/c"},
        "/messagegroups/g/messages/c/versions/1": {"basemessage": "/messagegroups/g/messages/b"},
    }
    assert found(MESSAGE, {"basemessage": "/messagegroups/g/messages/b"}, **circle) == []


def test_the_format_of_a_payload_is_that_of_its_schema() -> None:
    schema = {"/schemagroups/s/schemas/a/versions/1": {"format": "Avro/1.11"}}
    message = {"dataschemauri": "/schemagroups/s/schemas/a", "dataschemaformat": "Protobuf/3"}
    assert found(MESSAGE, message, **schema) == [("dataschemaformat_differs", "/dataschemaformat")]


def test_types_of_another_model_that_only_share_a_name_are_left_alone() -> None:
    source = {
        "groups": {"endpoints": {"singular": "endpoint", "attributes": {"*": {"type": "any"}}}}
    }
    rules = DomainRules(load_model(source))
    subject = Subject(xid=Xid.parse(ENDPOINT), attributes={"usage": []})
    assert rules.examine(subject, World()) == []


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from _names(inner)


def test_every_rule_says_what_to_do_and_where_it_is_from() -> None:
    faults = [f for a, *_ in MESSAGES for f in examine(MESSAGE, a)]
    faults += [f for a, *_ in ENDPOINTS for f in examine(ENDPOINT, a)]
    for fault in faults:
        assert fault.message.endswith("."), fault
        assert fault.rule.source.startswith(("message/spec.md, ", "endpoint/spec.md, ")), fault


# Every name that a rule looks at, and some that none does.
SOURCES = [attributes for attributes, *_ in (*MESSAGES, *ENDPOINTS)]
NAMES = st.sampled_from(sorted({"", "é", "~/", "xref", "basemessage", *_names(SOURCES)}))
SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["KAFKA", "HTTP", "MQTT/5.0", "NATS", "AMQP/1.0", "CloudEvents/1.0", "#"])
    | st.sampled_from(["/messagegroups/g/messages/m", "nats://[", "/schemagroups/s/schemas/a:b"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)
XIDS = st.sampled_from([MESSAGE, ENDPOINT, "/messagegroups/g", "/messagegroups/g/messages/m"])


@given(XIDS, st.dictionaries(NAMES, VALUES, max_size=8))
def test_no_value_is_too_strange_to_be_examined(xid: str, attributes: dict[str, Any]) -> None:
    for fault in examine(xid, attributes):
        assert fault.pointer == "" or fault.pointer.startswith("/")
