"""The Message Catalog API's translations: what is written reads back, whoever reads it."""

from __future__ import annotations

import re
import string
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catalog.dialects.messagecatalog.dataschemas import fits
from catalog.dialects.messagecatalog.translate import (
    group_to_entity,
    show_group,
    show_version,
    version_to_entity,
)
from catalog.dialects.messagecatalog.uris import DefinitionUri, parse_uri
from catalog.model.attributes import check_attributes
from catalog.model.entity import Entity
from catalog.model.modelsource import default_model
from catalog.model.schema import Attribute
from catalog.model.xid import Xid

AT = datetime(2026, 3, 4, tzinfo=UTC)
NODE = "https://node.example"
MODEL = default_model()
GROUPS = MODEL.groups["messagegroups"]
MESSAGES = GROUPS.resources["messages"]
ASSIGNED = ("createdtimeutc", "updatedtimeutc", "version")

texts = st.text(st.characters(codec="utf-8", exclude_characters="{}\0"), max_size=12)
words = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8)
values = st.one_of(
    texts,
    st.builds("/{{{}}}/{}{{?{},{}*}}".format, words, words, words, words),
    st.builds("{{{}:3}}".format, words),
)


def objects(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(required, optional=optional)


def template(value: st.SearchStrategy[Any] = values) -> st.SearchStrategy[Any]:
    more = {"value": st.none() | value, "required": st.booleans(), "description": texts}
    return objects({}, more)


document = {"$schema": "http://json-schema.org/draft-07/schema", "type": "string"}
schema = st.one_of(
    objects(
        {},
        {
            "value": st.sampled_from(["https://example.com/s", "https://a/b#/c", "urn:a:b"]),
            **({"schematype": st.just(kind)} if kind else {}),
            "schema": st.sampled_from(schemas),
        },
    )
    for kind, schemas in {
        "": ["anything", {"type": "object"}],
        "JSON": [{"type": "object"}, document, '{"type": "object"}'],
        "Avro": [{"type": "string"}, '"string"'],
        "Avro/1.11": [{"type": "string"}],
        "Protobuf": ['syntax = "proto3";'],
        "XML": ["<schema/>"],
    }.items()
)
sections = {"dataschema": schema}
symbols = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=8)
times = st.sampled_from(["", "2020-10-30T17:31:00Z", "01-01-0000T00:00:00Z", "{time}"])
binaries = st.sampled_from(["", "aGVsbG8=", "{user}"])
properties = {
    **dict.fromkeys(("messageid", "to", "subject", "replyto", "correlationid"), template()),
    **dict.fromkeys(("contenttype", "contentencoding", "groupid"), template()),
    **dict.fromkeys(("groupsequence", "replytogroupid"), template()),
    **dict.fromkeys(("absoluteexpirytime", "creationtime"), template(times)),
    "userid": template(binaries),
}
annotations = st.dictionaries(symbols, template(), max_size=3)
amqp = objects(
    {},
    {
        "header": objects(
            {},
            {
                "durable": st.booleans(),
                "priority": st.integers(0, 255),
                "ttl": st.integers(0, 2**32 - 1),
            },
        ),
        "properties": objects({}, properties),
        **dict.fromkeys(
            ("deliveryannotations", "messageannotations", "applicationproperties", "footer"),
            annotations,
        ),
        "applicationdata": objects(
            {}, {**sections, "amqpencoding": st.sampled_from(["Data", "Value", "Sequence"])}
        ),
    },
)
# Nothing is published to a topic with a wildcard.
topics = values.filter(lambda text: not re.search(r"[+#]", text))
both = {"qos": st.integers(0, 2), "retain": st.booleans(), "topicname": topics}
newest = {
    "mqttversion": st.just("5.0"),
    "payloadformat": st.integers(0, 1),
    "expiryinterval": st.integers(0, 2**32 - 1),
    "responsetopic": topics,
    "contenttype": values,
    "correlationdata": binaries,
}
mqtt = objects(
    {},
    {
        "publish": objects({}, {**both, **newest})
        | objects({"mqttversion": st.just("3.1.1")}, both),
        "userproperty": st.dictionaries(texts.filter(bool), template(), max_size=3),
        "payload": objects({}, sections),
    },
)
# A subject has no blanks.
subjects = values.filter(lambda text: not re.search(r"\s", text))
nats = objects(
    {},
    {
        "pub": objects({}, {"subject": subjects, "replyto": subjects}),
        "payload": objects({}, sections),
    },
)
cloudevents = st.builds(
    lambda known, others: {"attributes": {**others, **known}},
    objects(
        {"type": objects({"value": st.just("m")}, {"required": st.just(True)})},
        {
            "specversion": template(st.sampled_from(["", "1.0"])).filter(
                lambda one: one.get("required") is not False
            ),
            "subject": template(),
            "time": template(times),
            "datacontenttype": template(st.sampled_from(["", "a/b", "text/plain; charset=utf-8"])),
            "dataschema": schema | template(st.just("https://example.com/s")),
        },
    ),
    st.dictionaries(
        words.filter(lambda name: name not in ("data", "id", "source", "type")),
        template(),
        max_size=3,
    ),
)
custom = st.recursive(st.none() | texts | st.integers(-9, 9), st.lists, max_leaves=4)
formats = st.one_of(
    st.tuples(st.just("CloudEvents"), cloudevents),
    st.tuples(st.just("AMQP"), amqp),
    st.tuples(st.just("MQTT"), mqtt),
    st.tuples(st.just("NATS"), nats),
    st.tuples(st.just("Smoke"), st.dictionaries(texts, custom, max_size=3)),
)
described = {
    "description": texts,
    "documentation": texts | st.just("https://example.com/docs"),
    "documentationformat": texts | st.sampled_from(["URL", "Markdown", "HTML"]),
    "tags": texts,
}
extras = st.dictionaries(
    st.text(string.ascii_letters, min_size=1, max_size=6), st.integers(-9, 9) | texts, max_size=2
)


def stored(xid: Xid, attributes: dict[str, Any], definitions: Any, **entity: Any) -> Entity:
    """An entity as the engine keeps it; natively nothing may be wrong with it."""
    known: dict[str, Attribute] = definitions
    kept, violations = check_attributes(attributes, known, subject=str(xid), model=MODEL)
    assert not violations, violations[0].title
    return Entity(
        xid=str(xid),
        kind=xid.kind,
        authority=entity.get("authority", NODE),
        origin=str(xid),
        epoch=1,
        attributes=kept,
        createdat=AT,
        modifiedat=AT,
    ).sealed()


def version(attributes: dict[str, Any], **entity: Any) -> Entity:
    xid = Xid("messagegroups", "g", "messages", "m", "1")
    return stored(xid, attributes, MESSAGES.version_attributes, **entity)


def shown(entity: Entity) -> dict[str, Any]:
    found = show_version(entity, entity, NODE)
    return {name: value for name, value in found.items() if name not in ASSIGNED}


@given(formats, objects({}, {**described, "authority": st.just("urn:a:b")}), extras)
def test_a_version_reads_back_as_it_was_written(
    definition: tuple[str, Any], described: dict[str, Any], extra: dict[str, Any]
) -> None:
    format, content = definition
    body = {**extra, **described, "id": "m", "format": format, "definition": content}
    entity = version(version_to_entity("m", body, format, "/m"))
    assert shown(entity) == body


@given(
    st.sampled_from(["CloudEvents", "AMQP", "MQTT", "NATS", "Smoke"]),
    objects({}, {**described, "compatibility": st.sampled_from(["none", "full"])}),
    extras,
)
def test_a_group_reads_back_as_it_was_written(
    format: str, described: dict[str, Any], extra: dict[str, Any]
) -> None:
    body = {**extra, **described, "id": "g", "format": format}
    native = group_to_entity("g", body, {}, "/g")
    entity = stored(Xid("messagegroups", "g"), native, GROUPS.own_attributes)
    found = show_group(entity)
    assert {name: value for name, value in found.items() if name not in ASSIGNED} == body


@given(formats)
def test_what_is_shown_of_a_native_message_can_be_written_and_says_the_same(
    definition: tuple[str, Any],
) -> None:
    format, content = definition
    body = {"id": "m", "definition": content}
    native = version_to_entity("m", body, format, "/m")
    native.pop("messagecatalog", None)
    if "type" not in native.get("envelopemetadata", {"type": 1}) or format == "Smoke":
        return
    found = shown(version(native))
    again = version_to_entity("m", found, format, "/m")
    assert shown(version({n: v for n, v in again.items() if n != "messagecatalog"})) == found


@example({"id": ""})
@given(
    st.recursive(
        st.none() | texts | st.integers(-9, 9), lambda s: st.lists(s) | st.dictionaries(words, s)
    )
)
def test_whatever_is_kept_in_place_of_a_definition_can_be_read(kept: Any) -> None:
    for native in (
        {"envelope": "CloudEvents/1.0"},
        {"protocol": "AMQP/1.0"},
        {"protocol": "MQTT/5.0"},
        {"protocol": "NATS"},
        {},
    ):
        for own in ({"definition": kept, "format": kept, "authority": kept}, kept):
            if own is not None:
                assert shown(version({**native, "messagecatalog": own}))["id"] == "m"


def test_a_replica_says_whose_it_is() -> None:
    body = {"id": "m", "definition": {"pub": {"subject": "s"}}}
    native = version_to_entity("m", body, "NATS", "/m")
    for authority, expected in (
        ("https://other.example", "https://other.example/messagecatalog"),
        ("urn:uuid:1", "urn:uuid:1"),
    ):
        assert shown(version(native, authority=authority))["authority"] == expected


@pytest.mark.parametrize(
    ("uri", "authority"),
    [
        ("https://example.com/messagecatalog/342", "https://example.com/messagecatalog"),
        (
            "http://messagecatalog.example.com/mygroup/messagedefinitions/myMessage/versions/2",
            "http://messagecatalog.example.com",
        ),
        ("http://messagecatalog.example.org/41751", "http://messagecatalog.example.org"),
        ("urn:example:messagecatalog:a1b2c3d4", "urn:example:messagecatalog"),
    ],
)
def test_a_uri_begins_with_the_authority(uri: str, authority: str) -> None:
    reference = parse_uri(uri)
    assert reference is not None
    assert reference.authority == authority


@pytest.mark.parametrize("authority", ["https://a.example/c/", "urn:a:b:", "https://a.example/"])
@pytest.mark.parametrize("versions", ["versions", "version"])
def test_a_uri_of_a_version_is_taken_apart(authority: str, versions: str) -> None:
    reference = parse_uri(f"{authority}g/messagedefinitions/m.v1/{versions}/12")
    assert reference == DefinitionUri(
        authority=authority[:-1], group="g", definition="m.v1", vid="12"
    )


@given(st.text(max_size=60))
def test_any_text_is_a_uri_or_none(text: str) -> None:
    reference = parse_uri(text)
    assert reference is None or reference.authority


def test_a_uri_template_has_to_fit_natively_to_be_there() -> None:
    native = version_to_entity(
        "m", {"id": "m", "definition": {"pub": {"subject": "a<b"}}}, "NATS", "/m"
    )
    assert not fits("uritemplate", "a<b")
    assert native["protocoloptions"] == {}
    assert native["messagecatalog"] == {"definition": {"pub": {"subject": "a<b"}}}
