"""What a definition says of a message's headers: `metadata` here, envelope and protocol natively.

The standard's shapes are narrower: what has no place in them is left out of the native form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import orjson

from catalog.dialects.registry04.formats import CLOUDEVENTS_ENVELOPE

Json: TypeAlias = dict[str, Any]

_PROPERTY = ("description", "specurl", "type", "value", "required")
_TEXTS = frozenset({"string", "uritemplate"})
_PLAIN = frozenset({"string", "uritemplate", "integer", "number", "boolean"})
_SAME_AS = {"datetime": "timestamp", "symbol": "string", "uri": "string", "urireference": "string"}

# Which types of values the standard has, where it has not any.
_CLOUDEVENTS_TYPES: Mapping[str, frozenset[str]] = {
    "specversion": frozenset({"string"}),
    "id": _TEXTS,
    "source": _TEXTS,
    "subject": _TEXTS,
    "time": frozenset({"timestamp"}),
}
_AMQP_TYPES: Mapping[str, frozenset[str]] = {
    "message-id": _TEXTS | {"ulong", "uuid", "binary"},
    "user-id": _TEXTS | {"binary"},
    "correlation-id": _TEXTS | {"binary"},
    "content-encoding": frozenset({"string"}),
    "absolute-expiry-time": frozenset({"timestamp"}),
    "creation-time": frozenset({"timestamp"}),
    "group-sequence": frozenset({"integer"}),
}
_AMQP_MAPS = ("application-properties", "message-annotations", "delivery-annotations", "footer")
_MQTT_3 = {"qos": "qos", "retain": "retain", "topic-name": "topic_name"}
_MQTT_5 = {
    **_MQTT_3,
    "payload-format": "payload_format_indicator",
    "message-expiry-interval": "message_expiry_interval",
    "response-topic": "response_topic",
    "correlation-data": "correlation_data",
    "content-type": "content_type",
}
_KAFKA = {"topic": "topic", "partition": "partition", "key": "key"}
_HTTP = {"path": "path", "method": "method"}
_NATS = {"subject": "subject", "reply": "reply"}


def native_metadata(format: str, metadata: Json) -> Any:
    """The native form of a definition's metadata.

    Args:
        format: the standard's name of the envelope or protocol.
    """
    if format == CLOUDEVENTS_ENVELOPE:
        attributes = metadata.get("attributes")
        return _properties(attributes, _CLOUDEVENTS_TYPES, None)
    translate = _TO_NATIVE.get(format)
    return metadata if translate is None else translate(metadata)


def own_metadata(format: str, native: Json) -> Json:
    """A definition's metadata as edition 0.4 has it, of its native form."""
    if format == CLOUDEVENTS_ENVELOPE:
        return {"attributes": native}
    translate = _FROM_NATIVE.get(format)
    return native if translate is None else translate(native)


def _property(value: Any, allowed: frozenset[str] | None) -> Any:
    """One property; its type is left out where the standard has nothing like it there."""
    if not isinstance(value, dict):
        return value
    native = {name: value[name] for name in _PROPERTY if name in value}
    if (kind := native.get("type")) is not None and isinstance(kind, str):
        known = kind if allowed is None or kind in allowed else _SAME_AS.get(kind)
        known = "timestamp" if known == "datetime" else known
        if known is not None and (allowed is None or known in allowed):
            native["type"] = known
        else:
            del native["type"]
    if "value" in native and not isinstance(native["value"], str):
        native["value"] = orjson.dumps(native["value"]).decode()
    return native


def _properties(
    section: Any, types: Mapping[str, frozenset[str]], otherwise: frozenset[str] | None
) -> Any:
    if not isinstance(section, dict):
        return section
    return {name: _property(value, types.get(name, otherwise)) for name, value in section.items()}


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
    native: Json = {}
    if "properties" in metadata:
        native["properties"] = _properties(metadata["properties"], _AMQP_TYPES, _TEXTS)
    if isinstance(header := metadata.get("header"), dict):
        native["header"] = _renamed(header, {name: name for name in header})
    for name in _AMQP_MAPS:
        if name in metadata:
            native[name] = _properties(metadata[name], {}, _PLAIN)
    return native


def _from_amqp(native: Json) -> Json:
    own = dict(native)
    if isinstance(header := native.get("header"), dict):
        own["header"] = _wrapped(header, {name: name for name in header})
    return own


def _to_mqtt_5(metadata: Json) -> Json:
    native = _renamed(metadata, _MQTT_5)
    given = metadata.get("user-properties")
    if isinstance(given, list):
        native["user_properties"] = [
            {"name": name, "value": _text_of(value)}
            for item in given
            if isinstance(item, dict)
            for name, value in item.items()
        ]
    return native


def _from_mqtt_5(native: Json) -> Json:
    own = _wrapped(native, _MQTT_5)
    given = native.get("user_properties")
    if isinstance(given, list):
        own["user-properties"] = [
            {item["name"]: {k: v for k, v in item.items() if k != "name"}}
            for item in given
            if _has_name(item)
        ]
    return own


def _to_kafka(metadata: Json) -> Json:
    native = _renamed(metadata, _KAFKA)
    if isinstance(headers := metadata.get("headers"), dict):
        native["headers"] = {
            name: {"name": name, "value": _text_of(value)} for name, value in headers.items()
        }
    return native


def _from_kafka(native: Json) -> Json:
    own = _wrapped(native, _KAFKA)
    if isinstance(headers := native.get("headers"), dict):
        own["headers"] = {
            name: {k: v for k, v in value.items() if k != "name"}
            for name, value in headers.items()
            if isinstance(value, dict)
        }
    return own


def _to_http(metadata: Json) -> Json:
    native = _renamed(metadata, _HTTP)
    if "headers" in metadata:
        native["headers"] = _named(metadata["headers"])
    if isinstance(query := metadata.get("query"), dict):
        native["query"] = [{"name": k, "value": _text_of(v)} for k, v in query.items()]
    return native


def _from_http(native: Json) -> Json:
    own: Json = {name: native[name] for name in ("headers", "path", "method") if name in native}
    if isinstance(query := native.get("query"), list):
        own["query"] = {item["name"]: item.get("value", "") for item in query if _has_name(item)}
    return own


def _has_name(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _named(headers: Any) -> Any:
    if not isinstance(headers, list):
        return headers
    kept = ("name", "description", "specurl", "value", "required")
    return [
        {k: v for k, v in item.items() if k in kept} if isinstance(item, dict) else item
        for item in headers
    ]


def _to_nats(metadata: Json) -> Json:
    native = _renamed(metadata, _NATS)
    if "headers" in metadata:
        native["headers"] = _named(metadata["headers"])
    return native


def _from_nats(native: Json) -> Json:
    own = _wrapped(native, _NATS)
    if "headers" in native:
        own["headers"] = native["headers"]
    return own


_TO_NATIVE: Mapping[str, Callable[[Json], Json]] = {
    "AMQP/1.0": _to_amqp,
    "MQTT/5.0": _to_mqtt_5,
    "MQTT/3.1.1": lambda metadata: _renamed(metadata, _MQTT_3),
    "KAFKA": _to_kafka,
    "HTTP": _to_http,
    "NATS": _to_nats,
}
_FROM_NATIVE: Mapping[str, Callable[[Json], Json]] = {
    "AMQP/1.0": _from_amqp,
    "MQTT/5.0": _from_mqtt_5,
    "MQTT/3.1.1": lambda native: _wrapped(native, _MQTT_3),
    "KAFKA": _from_kafka,
    "HTTP": _from_http,
    "NATS": _from_nats,
}
