"""Older names of protocols, and older names, shapes and types of the metadata of messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from catalog.documents.rewriter import DocumentPart, RewriteRule
from catalog.documents.rewrites.attributes import lower_keys
from catalog.model.modelsource import default_model
from catalog.model.schema import Attribute

AMQP_SECTIONS = ("application-properties", "message-annotations", "delivery-annotations", "footer")
PLAIN_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "mqtt": (
        *("qos", "retain", "topic_name", "payload_format_indicator"),
        *("message_expiry_interval", "response_topic", "correlation_data", "content_type"),
    ),
    "kafka": ("topic", "partition", "key"),
    "http": ("path", "method", "status"),
    "nats": ("subject", "reply"),
}
_GONE = {"kafka": ("timestamp",)}
_LISTS = {"mqtt": ("user_properties",), "http": ("headers", "query"), "nats": ("headers",)}
# The types that the standard admits for the properties of a section, by name; no types if it admits
# every type. Properties that the standard does not name are at the name `*`.
AdmittedTypes: TypeAlias = Mapping[str, tuple[str, ...]]
OTHERS = "*"
_SYMBOLS = ("content-type", "content-encoding")

_MEMBERS = frozenset({"description", "name", "required", "specurl", "value"})

_DASHES = RewriteRule("sections and properties of AMQP have dashes in their names", "rc3")
_UNDERSCORES = RewriteRule("fields of a PUBLISH packet have underscores in their names", "0.5")
_VALUE = RewriteRule("an option of a protocol is its value", "rc2")
_KEYS = RewriteRule("keys of maps are in lower case")
_NAME = RewriteRule("a description keeps the name on the wire, which has capitals")
_TYPE = RewriteRule("properties have types of the standard", "0.5")
_ITEMS = RewriteRule("headers and properties are objects with a name", "0.5")
_NESTED = RewriteRule("options are members of protocoloptions", "rc3")
_SCHEMA = RewriteRule("headers are listed, not described by a schema", "rc2")

_STATUS = RewriteRule("a status code is text")
_ADDRESS = RewriteRule(
    "Kafka's brokers are bootstrap.servers with a security.protocol", "rc3", is_evidence=False
)
_KAFKA_ADDRESS = re.compile(
    r"(?:(?P<security>PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL)://)?"
    r"(?P<servers>[^:/,\s]+:[0-9{][^:/,\s]*(?:,[^:/,\s]+:[0-9{][^:/,\s]*)*)/?",
    re.IGNORECASE,
)

_PROTOCOLS = {
    "amqp": "AMQP/1.0",
    "http": "HTTP",
    "http/1.1": "HTTP",
    "http/2": "HTTP",
    "http/3": "HTTP",
    "mqtt": "MQTT/5.0",
}
_FAMILIES = frozenset({"amqp", "http", "kafka", "mqtt", "nats"})
_FORMAT = RewriteRule("the format of a message is its envelope, or its protocol", "0.5")
_PROTOCOL = RewriteRule("protocols have the names of the standard", "0.5")
_SAME = {"datetime": "timestamp", "var": "any"}
_RENAMED = RewriteRule("types of values have the names of the standard", "0.5")
_TIME = RewriteRule("the time of an event is a timestamp")
_NARROWED = RewriteRule(
    "the standard has no such type here: it is string, and `older` keeps the type"
)


def rewrite_format(part: DocumentPart) -> None:
    """Rewrite the `format` of an endpoint, message group or message."""
    value = part.members.get("format")
    if not isinstance(value, str):
        return
    if value.lower().startswith("cloudevents"):
        part.rename("format", "envelope", _FORMAT)
    elif family(value) in _FAMILIES:
        part.rename("format", "protocol", _FORMAT)
        if "format" not in part.members:
            rewrite_protocol(part)


def rewrite_protocol(part: DocumentPart) -> None:
    """Give a protocol the name for which the model defines the protocol's options."""
    value = part.members.get("protocol")
    if isinstance(value, str):
        part.set("protocol", _newest(value), _PROTOCOL)


def family(protocol: object) -> str:
    """The name of a protocol without its version, in lower case."""
    return protocol.partition("/")[0].lower() if isinstance(protocol, str) else ""


def _newest(protocol: str) -> str:
    if family(protocol) in ("kafka", "nats"):
        return family(protocol).upper()
    return _PROTOCOLS.get(protocol.lower(), protocol)


def rewrite_kafka_addresses(options: DocumentPart) -> None:
    """Rewrite URIs of an endpoint's brokers: the scheme is the security protocol."""
    if isinstance(addresses := options.members.get("endpoints"), list):
        options.set("endpoints", [kafka_address(item) for item in addresses], _ADDRESS)


def kafka_address(item: Any) -> Any:
    """An address of brokers with servers in place of the URI; anything else stays unchanged."""
    uri = item.get("uri") if isinstance(item, dict) else None
    found = _KAFKA_ADDRESS.fullmatch(uri) if isinstance(uri, str) else None
    if found is None or "bootstrap.servers" in item:
        return item
    rest = {name: value for name, value in item.items() if name != "uri"}
    security = {"security.protocol": found["security"].upper()} if found["security"] else {}
    return {"bootstrap.servers": found["servers"].split(","), **security, **rest}


def rewrite_message_options(message: DocumentPart) -> None:
    """Rewrite the protocol options of a message."""
    options = message.inside("protocoloptions")
    kind = family(message.members.get("protocol"))
    if options is None:
        return
    options.lift("options", options, _NESTED)
    if kind == "amqp":
        _rewrite_amqp(options)
    elif kind in PLAIN_OPTIONS:
        options.lift("properties", options, _NESTED)
    if kind == "mqtt":
        options.rename_all(lambda name: name.replace("-", "_"), _UNDERSCORES)
        options.rename("payload_format", "payload_format_indicator", _UNDERSCORES)
        options.rename("topic", "topic_name", _UNDERSCORES)
    for name in _GONE.get(kind, ()):
        options.leave_out(name, "messages of this protocol have no such option any more")
    for name in PLAIN_OPTIONS.get(kind, ()):
        _unwrap(options, name)
    if isinstance(status := options.members.get("status"), int) and kind == "http":
        options.set("status", str(status), _STATUS)
    for name in _LISTS.get(kind, ()):
        _rewrite_list(options, name)
    if kind == "kafka" and (headers := options.inside("headers")) is not None:
        _rewrite_headers(headers)


def _rewrite_amqp(options: DocumentPart) -> None:
    options.rename_all(_dashed, _DASHES)
    if (properties := options.inside("properties")) is not None:
        properties.rename_all(_dashed, _DASHES)
        for name, declared in properties.parts():
            if name in _SYMBOLS and declared.members.get("type") == "symbol":
                declared.set("type", "string", _TYPE)
    if (header := options.inside("header")) is not None:
        header.rename_all(_dashed, _DASHES)
        for name in list(header.members):
            _unwrap(header, name)
    for name in AMQP_SECTIONS:
        if (section := options.inside(name)) is not None:
            # The name on the wire may have capitals, and keys of maps have none.
            for key, declared in section.parts():
                if key != key.lower() and "description" not in declared.members:
                    declared.set("description", key, _NAME)
            lower_keys(options, name, _KEYS)
    for name in ("properties", *AMQP_SECTIONS):
        _rewrite_section_types(options, name)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _unwrap(options: DocumentPart, name: str) -> None:
    """Rewrite `{"value": 1}` to 1, and leave out members other than `value`."""
    declared = options.inside(name)
    if declared is None:
        return
    if "value" not in declared.members:
        options.leave_out(name, "an option of a protocol is a value, and it has none")
        return
    declared.drop("type", _VALUE)
    for other in [name for name in declared.members if name != "value"]:
        declared.leave_out(other, "an option of a protocol is its value only")
    options.set(name, declared.members["value"], _VALUE)


def _rewrite_list(options: DocumentPart, name: str) -> None:
    """Rewrite `{"a": "b"}` and `[{"a": {"value": "b"}}]` to `[{"name": "a", "value": "b"}]`."""
    value = options.members.get(name)
    if isinstance(value, dict):
        value = [{key: item} for key, item in value.items()]
    if isinstance(value, list):
        options.set(name, [_item(item) for item in value], _ITEMS)


def _item(item: Any) -> Any:
    if not isinstance(item, dict) or len(item) != 1 or not _MEMBERS.isdisjoint(item):
        return item
    [(name, declared)] = item.items()
    return {"name": name, **(declared if isinstance(declared, dict) else {"value": declared})}


def _rewrite_headers(headers: DocumentPart) -> None:
    described = headers.inside("properties")
    if described is not None and headers.members.get("type") == "object":
        headers.drop("type", _SCHEMA)
        headers.lift("properties", headers, _SCHEMA)
    for name in list(headers.members):
        if not isinstance(headers.members[name], dict):
            headers.set(name, {"value": headers.members[name]}, _ITEMS)
    for name, declared in headers.parts():
        if "name" not in declared.members:
            declared.set("name", name, _ITEMS)
        if declared.members.get("type") == "string":
            declared.drop("type", _ITEMS)
        else:
            declared.leave_out("type", "the headers of Kafka have no type")
        headers.rename(name, name.lower(), _KEYS)


def rewrite_envelope_types(metadata: DocumentPart) -> None:
    """Rewrite the types of the attributes of a CloudEvent."""
    _rewrite_types(metadata, event_types())


def _rewrite_section_types(options: DocumentPart, section: str) -> None:
    """Rewrite the types of the properties in a section of an AMQP message."""
    if (found := options.inside(section)) is not None:
        _rewrite_types(found, amqp_types()[section])


def _rewrite_types(properties: DocumentPart, admitted: AdmittedTypes) -> None:
    for name, declared in properties.parts():
        _rewrite_type(declared, admitted.get(name, admitted[OTHERS]))


def _rewrite_type(declared: DocumentPart, admitted: Sequence[str]) -> None:
    """Give a property a type that the standard admits.

    A type that becomes `string` is kept in the extension `older`, and the check of messages uses
    the kept type.

    Args:
        declared: the declaration of the property.
        admitted: the types that the standard has for the property; empty if every type is admitted.
    """
    kind = declared.members.get("type")
    if not isinstance(kind, str) or kind in admitted:
        return
    same = _SAME.get(kind, kind)
    if same != kind and (same in admitted or not admitted):
        declared.set("type", same, _RENAMED)
    elif admitted == ("timestamp",):
        declared.set("type", "timestamp", _TIME)
    elif "string" in admitted:
        declared.entity.keep(declared.pointer_of("type"), kind)
        declared.set("type", "string", _NARROWED)


@cache
def event_types() -> AdmittedTypes:
    """The types that the standard admits for the attributes of a CloudEvent."""
    return _admitted(_dependent("envelope", "CloudEvents/1.0", "envelopemetadata"), None)


@cache
def amqp_types() -> Mapping[str, AdmittedTypes]:
    """The types that the standard admits for the properties of an AMQP message, by section."""
    sections = _dependent("protocol", "AMQP/1.0", "protocoloptions")
    return {name: _admitted(one.attributes, one.item) for name, one in sections.items()}


def _admitted(definitions: Mapping[str, Attribute], others: Attribute | None) -> AdmittedTypes:
    admitted = {}
    for name, definition in (*definitions.items(), (OTHERS, others)):
        kind = definition.attributes.get("type") if definition is not None else None
        admitted[name] = () if kind is None else tuple(map(str, kind.enum))
    return admitted


def _dependent(selector: str, value: str, name: str) -> Mapping[str, Attribute]:
    """The members of an attribute of messages that depends on the value of another attribute.

    The default model is the only list of the types that the standard admits.

    Args:
        selector: the name of the attribute with the deciding value.
        value: the value of the selector.
        name: the name of the dependent attribute.
    """
    kind = default_model().resource_type("messagegroups", "messages")
    assert kind is not None, "the default model has messages"
    return kind.version_attributes[selector].siblings[value.lower()][name].attributes
