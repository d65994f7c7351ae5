"""Translates a definition's `metadata` to metadata of an envelope or a protocol, and back.

The native form leaves out values without an attribute or type in the standard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from catalog.dialects.registry04.names import CLOUDEVENTS_ENVELOPE, Json
from catalog.documents.rewrites.protocols import (
    AMQP_SECTIONS,
    OTHERS,
    PLAIN_OPTIONS,
    AdmittedTypes,
    amqp_types,
    event_types,
    family,
)

_PROPERTY = ("description", "specurl", "type", "value", "required")
_SAME_AS = {"symbol": "string", "uri": "string", "urireference": "string"}

_OWN_NAMES = {"payload_format_indicator": "payload-format"}
# The native names of attributes with plain native values by the names of edition 0.4, by protocol.
_PLAIN_ATTRIBUTES = {
    protocol: {
        _OWN_NAMES.get(name, name.replace("_", "-")): name
        for name in PLAIN_OPTIONS[family(protocol)]
    }
    for protocol in ("MQTT/5.0", "KAFKA", "HTTP", "NATS")
}
_PLAIN_ATTRIBUTES["MQTT/3.1.1"] = {
    name: _PLAIN_ATTRIBUTES["MQTT/5.0"][name] for name in ("qos", "retain", "topic-name")
}


def native_metadata(format: str, metadata: Json) -> Any:
    """The native form of a definition's metadata.

    Args:
        format: the standard's name of the envelope or protocol.
    """
    if format == CLOUDEVENTS_ENVELOPE:
        return _properties(metadata.get("attributes"), event_types())
    if format == "AMQP/1.0":
        return _to_amqp(metadata)
    if format not in _PLAIN_ATTRIBUTES:
        return metadata
    native = _renamed(metadata, _PLAIN_ATTRIBUTES[format])
    translate = _TO_NATIVE.get(format)
    return native | translate(metadata) if translate else native


def own_metadata(format: str, native: Json) -> Json:
    """A definition's metadata in the form of edition 0.4, from the native form."""
    if format == CLOUDEVENTS_ENVELOPE:
        return {"attributes": native}
    if format == "AMQP/1.0":
        return _from_amqp(native)
    if format not in _PLAIN_ATTRIBUTES:
        return native
    own = _wrapped(native, _PLAIN_ATTRIBUTES[format])
    if format == "HTTP":
        own = {name: attribute["value"] for name, attribute in own.items()}
    translate = _FROM_NATIVE.get(format)
    return own | translate(native) if translate else own


def _property(value: Any, admitted: Sequence[str]) -> Any:
    """A native property; a type without a similar type in the standard is left out."""
    if not isinstance(value, dict):
        return value
    native = {name: value[name] for name in _PROPERTY if name in value}
    if isinstance(kind := native.get("type"), str) and kind not in admitted:
        same = "timestamp" if kind == "datetime" else kind
        same = _SAME_AS.get(same, same) if admitted else same
        if admitted and same not in admitted:
            del native["type"]
        else:
            native["type"] = same
    if "value" in native and not isinstance(native["value"], str):
        native["value"] = orjson.dumps(native["value"]).decode()
    return native


def _properties(section: Any, types: AdmittedTypes) -> Any:
    if not isinstance(section, dict):
        return section
    return {name: _property(one, types.get(name, types[OTHERS])) for name, one in section.items()}


def _value_of(property: Any) -> Any:
    return property.get("value") if isinstance(property, dict) else property


def _text_of(property: Any) -> str:
    value = _value_of(property)
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _renamed(metadata: Json, names: Mapping[str, str]) -> Json:
    plain = {native: _value_of(metadata.get(own)) for own, native in names.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _wrapped(native: Json, names: Mapping[str, str]) -> Json:
    return {own: {"value": native[name]} for own, name in names.items() if name in native}


def _to_amqp(metadata: Json) -> Json:
    types = amqp_types()
    native: Json = {
        name: _properties(metadata[name], types[name])
        for name in ("properties", *AMQP_SECTIONS)
        if name in metadata
    }
    if isinstance(header := metadata.get("header"), dict):
        native["header"] = _renamed(header, {name: name for name in header})
    return native


def _from_amqp(native: Json) -> Json:
    own = dict(native)
    if isinstance(header := native.get("header"), dict):
        own["header"] = _wrapped(header, {name: name for name in header})
    return own


def _to_mqtt_5(metadata: Json) -> Json:
    given = metadata.get("user-properties")
    if not isinstance(given, list):
        return {}
    properties = [
        {"name": name, "value": _text_of(value)}
        for item in given
        if isinstance(item, dict)
        for name, value in item.items()
    ]
    return {"user_properties": properties}


def _from_mqtt_5(native: Json) -> Json:
    given = native.get("user_properties")
    if not isinstance(given, list):
        return {}
    return {"user-properties": [{i["name"]: _without_name(i)} for i in given if _has_name(i)]}


def _to_kafka(metadata: Json) -> Json:
    if not isinstance(headers := metadata.get("headers"), dict):
        return {}
    return {"headers": {n: {"name": n, "value": _text_of(v)} for n, v in headers.items()}}


def _from_kafka(native: Json) -> Json:
    if not isinstance(headers := native.get("headers"), dict):
        return {}
    return {"headers": {n: _without_name(v) for n, v in headers.items() if isinstance(v, dict)}}


def _to_http(metadata: Json) -> Json:
    native = _to_headers(metadata)
    if isinstance(query := metadata.get("query"), dict):
        native["query"] = [{"name": k, "value": _text_of(v)} for k, v in query.items()]
    return native


def _from_http(native: Json) -> Json:
    own = _from_headers(native)
    if isinstance(query := native.get("query"), list):
        own["query"] = {item["name"]: item.get("value", "") for item in query if _has_name(item)}
    return own


def _to_headers(metadata: Json) -> Json:
    if not isinstance(headers := metadata.get("headers"), list):
        return _from_headers(metadata)
    kept = ("name", "description", "specurl", "value", "required")
    headers = [
        {k: v for k, v in item.items() if k in kept} if isinstance(item, dict) else item
        for item in headers
    ]
    return {"headers": headers}


def _from_headers(native: Json) -> Json:
    return {"headers": native["headers"]} if "headers" in native else {}


def _has_name(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _without_name(item: Json) -> Json:
    return {name: value for name, value in item.items() if name != "name"}


# Translators of attributes without plain values, by protocol.
_TO_NATIVE: Mapping[str, Callable[[Json], Json]] = {
    "MQTT/5.0": _to_mqtt_5,
    "KAFKA": _to_kafka,
    "HTTP": _to_http,
    "NATS": _to_headers,
}
_FROM_NATIVE: Mapping[str, Callable[[Json], Json]] = {
    "MQTT/5.0": _from_mqtt_5,
    "KAFKA": _from_kafka,
    "HTTP": _from_http,
    "NATS": _from_headers,
}
