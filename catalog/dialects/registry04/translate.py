"""Translates attributes of edition 0.4 to native attributes, and back: pure functions.

The `config` of an endpoint becomes `protocol` and `protocoloptions`. Attributes that do not survive
the round trip are kept unchanged in the extension attribute `registry04`, and are shown again as
long as the native form has not changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from catalog.dialects.registry04.metadata import native_metadata, own_metadata
from catalog.dialects.registry04.names import (
    Json,
    Kind,
    References,
    native_envelope,
    native_protocol,
)
from catalog.documents.rewrites.protocols import kafka_address
from catalog.model.schema import EXTENDED_NAME, STRICT_NAME

_MQTT = {"will-topic": "willtopic", "will-message": "willmessage"}
# The names of protocol options in the standard, where the names differ.
_RENAMED: Mapping[str, Mapping[str, str]] = {
    "MQTT/5.0": _MQTT | {"clean-session": "cleanstart"},
    "MQTT/3.1.1": _MQTT | {"clean-session": "cleansession"},
    "KAFKA": {"consumer-group": "consumergroup"},
}
_NUMBERS = frozenset({"qos", "acks", "partition"})
_SWITCHES = frozenset({"retain", "durable", "cleanstart", "cleansession"})
_NUMBER = re.compile(r"-?[0-9]{1,15}")
_NO_OPTIONS = ("endpoints", "deployed")


def native_config(
    config: Mapping[str, Any], before: Mapping[str, Any], references: References
) -> Json:
    """The native attributes for an endpoint's `config`.

    Args:
        before: the present native attributes; a known address keeps the attributes beside the URI.
    """
    protocol = config.get("protocol")
    native: Json = {}
    if isinstance(protocol, str) and protocol:
        native["protocol"] = protocol = native_protocol(protocol)
    options = _native_options(str(protocol), config.get("options"))
    _refer_to_will(options, before, references)
    if isinstance(addresses := config.get("endpoints"), list):
        present = _by_uri(before)
        new = kafka_address if protocol == "KAFKA" else dict
        options["endpoints"] = [present.get(str(uri), new({"uri": uri})) for uri in addresses]
    options["deployed"] = config.get("strict", False)
    native["protocoloptions"] = options
    return native


def own_config(attributes: Mapping[str, Any], references: References) -> Json | None:
    """An endpoint's `config`; `None` if the native attributes have no part of a `config`."""
    config: Json = {}
    if "protocol" in attributes:
        config["protocol"] = attributes["protocol"]
    native = attributes.get("protocoloptions")
    if isinstance(native, dict):
        if "deployed" in native:
            config["strict"] = native["deployed"]
        if "endpoints" in native:
            config["endpoints"] = [*_by_uri(attributes)]
        options = _own_options(str(config.get("protocol")), native, references)
        if options:
            config["options"] = options
    return config or None


def _by_uri(attributes: Mapping[str, Any]) -> dict[str, Json]:
    """The addresses of an endpoint by URI, in order."""
    options = attributes.get("protocoloptions")
    addresses = options.get("endpoints") if isinstance(options, dict) else None
    return {
        uri: address
        for address in (addresses if isinstance(addresses, list) else ())
        if isinstance(address, dict) and (uri := _uri_of(address))
    }


def _uri_of(address: Mapping[str, Any]) -> str:
    """The URI of an address; for brokers of Kafka, the scheme is the security protocol."""
    servers = address.get("bootstrap.servers")
    if "uri" in address or not isinstance(servers, list):
        return str(address.get("uri", ""))
    scheme = f"{security}://" if (security := address.get("security.protocol")) else ""
    return scheme + ",".join(map(str, servers))


def _native_options(protocol: str, options: Any) -> Json:
    """Options under the standard's names, except options without a valid native name."""
    renamed = _RENAMED.get(protocol, {})
    charset = EXTENDED_NAME if protocol == "AMQP/1.0" else STRICT_NAME
    native: Json = {}
    for name, value in options.items() if isinstance(options, dict) else ():
        name = renamed.get(name, name)
        if name not in _NO_OPTIONS and charset.fullmatch(name):
            native[name] = _typed(name, value)
    return native


def _refer_to_will(options: Json, before: Mapping[str, Any], references: References) -> None:
    """Refer to a will message by the xid in a message group; drop every other reference."""
    held = before.get("protocoloptions")
    present = held.get("willmessage") if isinstance(held, Mapping) else None
    if isinstance(message := options.get("willmessage"), str):
        options["willmessage"] = will = references.native(message, (present,))
        if not will.startswith("/") or will.startswith("/endpoints/"):
            del options["willmessage"]


def _own_options(protocol: str, native: Mapping[str, Any], references: References) -> Json:
    names = {ours: own for own, ours in _RENAMED.get(protocol, {}).items()}
    options = {names.get(k, k): v for k, v in native.items() if k not in _NO_OPTIONS}
    message = options.get("will-message")
    if isinstance(message, str):
        options["will-message"] = references.own(message)
    return options


def _typed(name: str, value: Any) -> Any:
    """The value of an option. Edition 0.4 defines strings, but the examples have further types."""
    if not isinstance(value, str):
        return value
    if name in _NUMBERS and _NUMBER.fullmatch(value):
        return int(value)
    return value == "true" if name in _SWITCHES and value in ("true", "false") else value


Attributes: TypeAlias = Mapping[str, Any]
Fill: TypeAlias = Callable[[Json], Json]

REGISTRY04_ATTRIBUTE = "registry04"
# Attributes that the server sets.
SERVED = frozenset({"id", "version", "epoch", "self", "createdOn", "modifiedOn"})

_COMMON = {
    "name": "name",
    "description": "description",
    "tags": "labels",
    "docs": "documentation",
    "createdBy": "createdby",
    "modifiedBy": "modifiedby",
}
_NAMES: Mapping[Kind, Mapping[str, str]] = {
    "endpoint": {"channel": "channel", "deprecated": "deprecated"},
    "definitionGroup": {},
    "schemaGroup": {"format": "format"},
    "definition": {"schemaformat": "dataschemaformat", "schema": "dataschema"},
    "schema": {"format": "format"},
}
_REFERENCES: Mapping[Kind, Mapping[str, str]] = {
    "definition": {"schemaurl": "dataschemauri", "uri": "basemessage"}
}
_ENVELOPE = ("envelope", "envelopemetadata")
_PROTOCOL = ("protocol", "protocoloptions")
# Native names that no extension can have in edition 0.4.
_TAKEN = frozenset(
    {*_COMMON.values(), *_ENVELOPE, *_PROTOCOL}
    | {"xid", "shortself", "createdat", "modifiedat", "authority", "origin", "type", "icon"}
    | {"versionid", "ancestorid", "isdefault", "contenttype", "meta", "metaurl", "versions"}
    | {"versionsurl", "versionscount", "readonly", "compatibility", "xref", "epoch", "self"}
    | {"compatibilityvalidated", "compatibilityvalidatedreason", "defaultversionid"}
    | {"formatvalidated", "formatvalidatedreason", "defaultversionsticky"}
    | {"usage", "channel", "deprecated", "messagegroups", "envelopeoptions", "format"}
    | {"dataschemaformat", "dataschema", "dataschemauri", "dataschemaxid", "datacontenttype"}
    | {"basemessage", "basemessageuri", "messages", "messagesurl", "messagescount", "messageid"}
    | {"schemas", "schemasurl", "schemascount", "schemaid", "schema", "schemabase64"}
    | {"schemaurl", "endpointid", "messagegroupid", "schemagroupid"}
    | {REGISTRY04_ATTRIBUTE, "messagecatalog", "discovery"}
)


_POINTERS = References()


def _as_it_is(attributes: Json) -> Json:
    return attributes


def to_entity(
    kind: Kind,
    body: Attributes,
    before: Attributes | None = None,
    fill: Fill = _as_it_is,
    references: References = _POINTERS,
) -> Json:
    """The native attributes of an entity with attributes of edition 0.4.

    Args:
        body: the attributes except `SERVED`; a null attribute counts as absent.
        before: the present native attributes; hidden attributes are not in the result.
        fill: adds the default values of the model.
        references: translates references to the registry.
    """
    given = {name: value for name, value in body.items() if value is not None}
    native = _to_native(kind, given, before or {}, references)
    back = _from_native(kind, fill(native), references)
    if kept := {name: value for name, value in given.items() if back.get(name) != value}:
        native[REGISTRY04_ATTRIBUTE] = kept
    return native


def from_entity(
    kind: Kind, attributes: Attributes, fill: Fill = _as_it_is, references: References = _POINTERS
) -> Json:
    """The attributes of edition 0.4 of an entity with native attributes.

    Args:
        fill: adds the default values of the model.
    """
    shown = _from_native(kind, attributes, references)
    kept = attributes.get(REGISTRY04_ATTRIBUTE)
    if not isinstance(kept, dict):
        return shown
    kept = {name: value for name, value in kept.items() if name not in SERVED}
    visible = {name: attributes[name] for name in shown_of(kind, attributes)}

    def is_current(candidate: Json) -> bool:
        native = fill(_to_native(kind, candidate, attributes, references))
        return {k: v for k, v in native.items() if k in visible or k not in attributes} == visible

    # A native write may have outdated kept attributes. If so, each is shown only if it still
    # translates to the present native form.
    whole = shown | kept
    if is_current(whole):
        return whole
    for name, value in kept.items():
        if is_current(candidate := {**shown, name: value}):
            shown = candidate
    return shown


def shown_of(kind: Kind, attributes: Attributes) -> set[str]:
    """The names of the native attributes that edition 0.4 shows in some form."""
    names = {*_COMMON.values(), *_NAMES[kind].values(), *_REFERENCES.get(kind, {}).values()}
    if kind == "endpoint":
        names |= {"envelope", "usage", "messagegroups", *_PROTOCOL}
    elif kind in ("definition", "definitionGroup"):
        names |= {*(_ENVELOPE if "envelope" in attributes else _PROTOCOL)}
    return {name for name in attributes if name in names or name not in _TAKEN}


def _to_native(kind: Kind, body: Attributes, before: Attributes, references: References) -> Json:
    names = {**_COMMON, **_NAMES[kind]}
    native: Json = {name: body[own] for own, name in names.items() if own in body}
    for own, name in _REFERENCES.get(kind, {}).items():
        if isinstance(value := body.get(own), str):
            native[name] = references.native(value, (before.get(name),))
    if isinstance(native.get("labels"), dict):
        native["labels"] = {k: v for k, v in native["labels"].items() if EXTENDED_NAME.fullmatch(k)}
    if kind == "endpoint":
        native |= _endpoint(body, before, references)
    elif kind in ("definition", "definitionGroup"):
        native |= _format(body, before)
    ours = {*_COMMON, *_OWN[kind]}
    for name, value in body.items():
        if name not in ours and name not in _TAKEN and STRICT_NAME.fullmatch(name):
            native.setdefault(name, value)
    return native


_OWN: Mapping[Kind, frozenset[str]] = {
    "endpoint": frozenset({*_NAMES["endpoint"], "usage", "format", "config", "definitionGroups"}),
    "definitionGroup": frozenset({"format"}),
    "schemaGroup": frozenset({"format"}),
    "definition": frozenset(
        {*_NAMES["definition"], *_REFERENCES["definition"], "format", "metadata"}
    ),
    "schema": frozenset({"format"}),
}


def names_of(kind: Kind) -> frozenset[str]:
    """The names of an entity's attributes in edition 0.4, except `SERVED`."""
    return frozenset(_COMMON) | _OWN[kind]


def _endpoint(body: Attributes, before: Attributes, references: References) -> Json:
    native: Json = {}
    if isinstance(usage := body.get("usage"), str):
        held = before.get("usage")
        is_same = isinstance(held, list) and held[:1] == [usage]
        native["usage"] = held if is_same else [usage]
    if isinstance(format := body.get("format"), str) and (envelope := native_envelope(format)):
        native["envelope"] = envelope
    if isinstance(config := body.get("config"), dict):
        native |= native_config(config, before, references)
    if isinstance(groups := body.get("definitionGroups"), list):
        held = before.get("messagegroups")
        held = held if isinstance(held, list) else ()
        native["messagegroups"] = [
            references.native(group, held) if isinstance(group, str) else group for group in groups
        ]
    return native


def _format(body: Attributes, before: Attributes) -> Json:
    """The envelope or protocol of a format, and the metadata of the envelope or protocol."""
    format = body.get("format")
    if not isinstance(format, str):
        return {}
    envelope = format if before.get("envelope") == format else native_envelope(format)
    name = native_protocol(format) if envelope is None else envelope
    names = _PROTOCOL if envelope is None else _ENVELOPE
    native: Json = {names[0]: name}
    if isinstance(metadata := body.get("metadata"), dict):
        details = native_metadata(name, metadata)
        if details is not None:
            native[names[1]] = details
    return native


def _from_native(kind: Kind, attributes: Attributes, references: References) -> Json:
    names = {**_COMMON, **_NAMES[kind]}
    own: Json = {name: attributes[ours] for name, ours in names.items() if ours in attributes}
    for name, native in _REFERENCES.get(kind, {}).items():
        if isinstance(value := attributes.get(native), str):
            own[name] = references.own(value)
    if kind == "endpoint":
        own |= _own_endpoint(attributes, references)
    elif kind in ("definition", "definitionGroup"):
        own |= _own_format(attributes)
    for name, value in attributes.items():
        if name not in _TAKEN:
            own.setdefault(name, value)
    return own


def _own_endpoint(attributes: Attributes, references: References) -> Json:
    own: Json = {}
    usage = attributes.get("usage")
    if isinstance(usage, list) and usage:
        own["usage"] = usage[0]
    if "envelope" in attributes:
        own["format"] = attributes["envelope"]
    if (config := own_config(attributes, references)) is not None:
        own["config"] = config
    if isinstance(groups := attributes.get("messagegroups"), list):
        own["definitionGroups"] = [
            references.own(group) if isinstance(group, str) else group for group in groups
        ]
    return own


def _own_format(attributes: Attributes) -> Json:
    names = _ENVELOPE if "envelope" in attributes else _PROTOCOL
    if names[0] not in attributes:
        return {}
    own: Json = {"format": attributes[names[0]]}
    if isinstance(details := attributes.get(names[1]), dict):
        own["metadata"] = own_metadata(str(own["format"]), details)
    return own
