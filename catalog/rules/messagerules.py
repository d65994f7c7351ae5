"""Rules of message definitions, in message groups and in endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from catalog.formats.checker import Check, CheckedDocument, validation
from catalog.formats.families import is_supported
from catalog.indexing.references import BASES
from catalog.messages.definition import CLOUDEVENTS_ENVELOPE
from catalog.messages.message import pointer
from catalog.messages.messageprotocol import protocol_of
from catalog.messages.values import is_now, read
from catalog.rules.fault import (
    OPTIONS,
    EntityLookup,
    Fault,
    Rule,
    Subject,
    check_headers,
    check_method,
    family,
    has_placeholder,
    is_blank,
    normal_protocol,
    text,
)

_SPEC = "message/spec.md, "
_CLOUDEVENTS = f'{_SPEC}"CloudEvents/1.0"'
DATASCHEMA_EXCLUSIVE = Rule("dataschema_exclusive", f'{_SPEC}"dataschema"')
DATASCHEMAFORMAT_MISSING = Rule("dataschemaformat_missing", f'{_SPEC}"dataschemauri"')
DATASCHEMAFORMAT_MALFORMED = Rule("dataschemaformat_malformed", f'{_SPEC}"dataschemaformat"')
DATASCHEMA_DIFFERS = Rule("dataschema_differs", _CLOUDEVENTS)
DATACONTENTTYPE_DIFFERS = Rule("datacontenttype_differs", f'{_SPEC}"datacontenttype"')
DATACONTENTTYPE_MALFORMED = Rule("datacontenttype_malformed", f'{_SPEC}"datacontenttype"')
ATTRIBUTE_NAME_INVALID = Rule("attribute_name_invalid", _CLOUDEVENTS)
DATASCHEMA_INVALID = Rule("dataschema_invalid", f'{_SPEC}"dataschema"')
VALUE_MALFORMED = Rule("value_malformed", f'{_SPEC}"value"')
ENVELOPEMETADATA_UNUSED = Rule("envelopemetadata_unused", f'{_SPEC}"envelopemetadata"')
ENVELOPE_MALFORMED = Rule("envelope_malformed", f'{_SPEC}"envelope" (Message Group)')
ENVELOPE_DIFFERS = Rule("envelope_differs", f'{_SPEC}"envelope" (Message Group)')
PROTOCOL_DIFFERS = Rule("protocol_differs", f'{_SPEC}"protocol" (Message Group)')
MESSAGE_PROTOCOL_EMPTY = Rule("protocol_empty", f'{_SPEC}"protocol" (Message Group)')
KEY_EXCLUSIVE = Rule("key_exclusive", f'{_SPEC}"KAFKA" protocol')
KEY_NOT_BASE64 = Rule("key_not_base64", f'{_SPEC}"KAFKA" protocol')
STATUS_EXCLUSIVE = Rule("status_exclusive", f'{_SPEC}"HTTP/1.1", "HTTP/2", "HTTP/3" protocols')
STATUS_INVALID = Rule("status_invalid", STATUS_EXCLUSIVE.source)
MESSAGE_TOPIC_EMPTY = Rule("topic_empty", f'{_SPEC}"Message Protocols"')
QOS_INVALID = Rule("qos_invalid", f'{_SPEC}"MQTT/3.1.1" and "MQTT/5.0" protocols')

_NAME_AND_VERSION = re.compile(r"[^/\s]+/\S.*")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+*-]+\s*(?:;.*)?", re.ASCII)
_ATTRIBUTE = re.compile(r"[a-z0-9]+")
_STATUS = re.compile(r"[1-5][0-9][0-9]")
_OF_JSON = frozenset({"avro", "jsonschema", "jsonstructure"})
_MOST_SHOWN = 100
_TOPICS = ("topic", "topic_name", "subject", "response_topic", "reply-to")


def check_message(subject: Subject, lookup: EntityLookup) -> Iterator[Fault]:
    """Check all rules of a version of a message definition, except the rules of references."""
    group = lookup.find(subject.xid.group) or Subject(xid=subject.xid.group, attributes={})
    yield from _payload(subject)
    yield from check_selectors(subject, lookup)
    yield from _group(subject, group)
    yield from _values(subject)
    if subject.text("envelope").lower() == CLOUDEVENTS_ENVELOPE:
        yield from _cloudevent(subject)
    options = subject.attributes.get(OPTIONS)
    if isinstance(options, dict):
        yield from _options(subject.text("protocol") or group.text("protocol"), options)


def check_of_schema(subject: Subject) -> Check | None:
    """The check of the schema that a message embeds; `None` without a check for its format."""
    schema, format = subject.attributes.get("dataschema"), subject.text("dataschemaformat")
    if schema is None or not is_supported(format):
        return None
    is_document = isinstance(schema, str) and (
        family(format) not in _OF_JSON or schema.lstrip().startswith(("{", "["))
    )
    # In the formats that are JSON, a text other than a document is the name of a type.
    content = schema.encode() if is_document else orjson.dumps(schema)
    return validation(format, CheckedDocument.of(content))


def check_selectors(subject: Subject, lookup: EntityLookup) -> Iterator[Fault]:
    """Check the attributes of a message group or message that select further attributes."""
    envelope = subject.attributes.get("envelope")
    if isinstance(envelope, str) and not _NAME_AND_VERSION.fullmatch(envelope):
        yield ENVELOPE_MALFORMED.broken(
            "/envelope", f'"{envelope}" is no name and version; write it like CloudEvents/1.0.'
        )
    if is_blank(subject.attributes.get("protocol")):
        yield MESSAGE_PROTOCOL_EMPTY.broken("/protocol", "It is empty; name a protocol.")


def _values(subject: Subject) -> Iterator[Fault]:
    """Check that the value of each property has the property's type."""
    for owner in ("envelopemetadata", OPTIONS):
        for steps, declared in _properties((owner,), subject.attributes.get(owner)):
            kind, value = text(declared["type"]).lower(), declared.get("value")
            shown = "" if value is None else str(value)
            if not shown or has_placeholder(shown) or is_now(kind, value):
                continue
            try:
                read(kind, value, is_text=True)
            except ValueError as error:
                yield VALUE_MALFORMED.broken(
                    pointer(*steps, "value"), f'"{shown[:_MOST_SHOWN]}" is no {kind}: {error}.'
                )


def _properties(
    steps: tuple[str | int, ...], value: Any
) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """The properties with a type in an object or array, and in the sections of the object."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    for name, one in value.items() if isinstance(value, dict) else ():
        at = (*steps, name)
        if isinstance(one, dict) and isinstance(one.get("type"), str):
            yield at, one
        elif len(steps) == 1:
            yield from _properties(at, one)


def _payload(subject: Subject) -> Iterator[Fault]:
    given = [n for n in ("dataschema", "dataschemauri") if subject.attributes.get(n) is not None]
    if len(given) > 1:
        yield DATASCHEMA_EXCLUSIVE.broken(
            "/dataschema", "There is a dataschemauri, too; keep one of both."
        )
    format = subject.attributes.get("dataschemaformat")
    if given and format is None and not any(map(subject.text, BASES)):
        yield DATASCHEMAFORMAT_MISSING.broken(
            pointer(given[0]),
            "The format of the schema is unknown; name it as dataschemaformat.",
        )
    if isinstance(format, str) and not _NAME_AND_VERSION.fullmatch(format):
        yield DATASCHEMAFORMAT_MALFORMED.broken(
            "/dataschemaformat",
            f'"{format}" is no name and version; write it like JsonSchema/draft-07.',
        )
    contenttype = subject.attributes.get("datacontenttype")
    if isinstance(contenttype, str) and not _MEDIA_TYPE.fullmatch(contenttype):
        yield DATACONTENTTYPE_MALFORMED.broken(
            "/datacontenttype", f'"{contenttype}" is no media type; write it like application/json.'
        )


def _group(subject: Subject, group: Subject) -> Iterator[Fault]:
    """Check that a message has the envelope and protocol of the group, if the group names them."""
    own, wanted = subject.text("envelope"), group.text("envelope")
    is_named = own or wanted or any(map(subject.text, BASES))
    if subject.attributes.get("envelopemetadata") and not is_named:
        yield ENVELOPEMETADATA_UNUSED.broken(
            "/envelopemetadata", "There is no envelope that it would be of; name one."
        )
    # A message may be more precise than the group (endpoint/spec.md, "envelope").
    if own and wanted and not f"{own}/".lower().startswith(f"{wanted}/".lower()):
        yield ENVELOPE_DIFFERS.broken(
            "/envelope", f'All messages here have the envelope of their group, "{wanted}".'
        )
    own, wanted = subject.text("protocol"), group.text("protocol")
    if own and wanted and normal_protocol(own) != normal_protocol(wanted):
        yield PROTOCOL_DIFFERS.broken(
            "/protocol", f'All messages here have the protocol of their group, "{wanted}".'
        )


def _cloudevent(subject: Subject) -> Iterator[Fault]:
    metadata = subject.object("envelopemetadata")
    for name in metadata:
        if not _ATTRIBUTE.fullmatch(name):
            yield ATTRIBUTE_NAME_INVALID.broken(
                pointer("envelopemetadata", name),
                "Names of CloudEvents attributes consist of a to z and 0 to 9.",
            )
    own, stated = subject.text("dataschemauri"), text(metadata.get("dataschema"))
    is_same_kind = own.startswith(("/", "#")) == stated.startswith(("/", "#"))
    if own and stated and own != stated and is_same_kind and not has_placeholder(stated):
        yield DATASCHEMA_DIFFERS.broken(
            "/envelopemetadata/dataschema", f'It says "{stated}" where dataschemauri says "{own}".'
        )
    own, stated = subject.text("datacontenttype"), text(metadata.get("datacontenttype"))
    if _differ(subject, own, stated):
        yield DATACONTENTTYPE_DIFFERS.broken(
            "/envelopemetadata/datacontenttype",
            f'It says "{stated}" where the message\'s datacontenttype says "{own}".',
        )


def _differ(subject: Subject, own: str, stated: str) -> bool:
    """Whether two media types differ, apart from their parameters.

    Never in structured mode: the media type of the message is that of the envelope there.
    """
    is_structured = subject.object("envelopeoptions").get("mode") == "structured"
    is_envelope = own.lower().startswith("application/cloudevents")
    if not own or not stated or is_structured or is_envelope or has_placeholder(stated):
        return False
    return own.partition(";")[0].strip().lower() != stated.partition(";")[0].strip().lower()


def _options(name: str, given: Mapping[str, Any]) -> Iterator[Fault]:
    protocol = protocol_of(name)
    if protocol is None:
        return
    options = {protocol.canonical(key): (key, value) for key, value in given.items()}
    for option in _TOPICS:
        key, value = options.get(option, ("", None))
        if option in protocol.options and is_blank(value):
            yield MESSAGE_TOPIC_EMPTY.broken(
                pointer(OPTIONS, key), f"It is empty; name the {option}, or leave it out."
            )
    for section in ("headers", "user_properties", "query"):
        if section in protocol.sections and section in options:
            is_http = section == "headers" and protocol.name == "HTTP"
            yield from check_headers(*options[section], is_http=is_http)
    match family(name):
        case "http":
            yield from _http(given)
        case "kafka":
            yield from _kafka(given)
        case "mqtt":
            qos = given.get("qos")
            if isinstance(qos, int) and qos not in (0, 1, 2):
                message = f"{qos} is no quality of service; it is 0, 1 or 2."
                yield QOS_INVALID.broken(pointer(OPTIONS, "qos"), message)


def _http(options: Mapping[str, Any]) -> Iterator[Fault]:
    if options.get("status") is not None and options.get("method") is not None:
        yield STATUS_EXCLUSIVE.broken(
            pointer(OPTIONS, "status"),
            "A message is a request or a response: keep the status or the method.",
        )
    yield from check_method(options.get("method"))
    status = options.get("status")
    shown = str(status) if isinstance(status, int) else text(status)
    if status is not None and not _STATUS.fullmatch(shown) and not has_placeholder(shown):
        yield STATUS_INVALID.broken(
            pointer(OPTIONS, "status"), f'"{shown}" is no HTTP status code; they are 100 to 599.'
        )


def _kafka(options: Mapping[str, Any]) -> Iterator[Fault]:
    encoded = options.get("key_base64")
    if options.get("key") is not None and encoded is not None:
        yield KEY_EXCLUSIVE.broken(
            pointer(OPTIONS, "key_base64"), "There is a key, too; keep one of both."
        )
    try:
        read("binary", text(encoded), is_text=True)
    except ValueError:
        yield KEY_NOT_BASE64.broken(
            pointer(OPTIONS, "key_base64"), "It is no Base64; encode the key, or write it as key."
        )
