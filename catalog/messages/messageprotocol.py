"""The parts of the messages of protocols, and the bindings of CloudEvents to protocols.

Source: message/spec.md, "Message Protocols", and the protocol bindings of CloudEvents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The binding of CloudEvents to a protocol.

    Args:
        section: the section with the attributes of an event.
        prefixes: the possible prefixes of the names of attributes.
        contenttype: the path of the media type.
    """

    section: str
    prefixes: tuple[str, ...]
    contenttype: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageProtocol:
    """The messages of a protocol.

    Args:
        name: the name of the protocol.
        options: the types of the metadata with a single value each, by name.
        sections: the types of the standard entries of metadata with entries, by section and name.
        textual: whether sections contain text only.
        defaults: the values of options and entries that a message leaves out, by path.
        volatile: the paths of entries that change in transit.
        exclusive: options that exclude each other in a message.
        aliases: the canonical names of options and sections, by alternative name.
        separator: the replacement of - and _ in names.
        is_caseless: whether names of entries are compared without case.
        binding: the binding of CloudEvents; `None` for a protocol without binding.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    textual: bool = True
    defaults: Mapping[tuple[str, ...], object] = field(default_factory=dict)
    volatile: frozenset[tuple[str, ...]] = frozenset()
    exclusive: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    separator: str = ""
    is_caseless: bool = False
    binding: Binding | None = None

    def canonical(self, name: str) -> str:
        """The canonical name of an option or section; documents vary the spelling."""
        if self.separator:
            name = re.sub("[-_]", self.separator, name)
        return self.aliases.get(name, name)

    def key(self, name: str) -> str:
        """The name of an entry in the form for comparisons."""
        return name.lower() if self.is_caseless else name


_MQTT_3 = {"qos": "integer", "retain": "boolean", "topic_name": "uritemplate"}
_MQTT_DEFAULTS: Mapping[tuple[str, ...], object] = {("qos",): 0, ("retain",): False}
_MQTT_ALIASES = {"payload_format_indicator": "payload_format"}
_CONTENT_TYPE = ("headers", "content-type")

HTTP = MessageProtocol(
    name="HTTP",
    options={"method": "string", "path": "uritemplate", "status": "string"},
    sections={"headers": {}, "query": {}},
    exclusive=("method", "status"),
    is_caseless=True,
    binding=Binding(section="headers", prefixes=("ce-",), contenttype=_CONTENT_TYPE),
)
AMQP = MessageProtocol(
    name="AMQP/1.0",
    sections={
        "properties": {
            "message-id": "any",
            "user-id": "binary",
            "to": "uritemplate",
            "subject": "string",
            "reply-to": "uritemplate",
            "correlation-id": "string",
            "content-type": "string",
            "content-encoding": "string",
            "absolute-expiry-time": "timestamp",
            "creation-time": "timestamp",
            "group-id": "string",
            "group-sequence": "integer",
            "reply-to-group-id": "uritemplate",
        },
        "application-properties": {},
        "message-annotations": {},
        "delivery-annotations": {},
        "header": {
            "durable": "boolean",
            "priority": "integer",
            "ttl": "integer",
            "first-acquirer": "boolean",
            "delivery-count": "integer",
        },
        "footer": {},
    },
    textual=False,
    defaults={("header", "durable"): False, ("header", "priority"): 4},
    volatile=frozenset({("header", "first-acquirer"), ("header", "delivery-count")}),
    separator="-",
    binding=Binding(
        section="application-properties",
        prefixes=("cloudEvents:", "cloudEvents_"),
        contenttype=("properties", "content-type"),
    ),
)
MQTT_3 = MessageProtocol(
    name="MQTT/3.1.1", options=_MQTT_3, defaults=_MQTT_DEFAULTS, separator="_", textual=False
)
MQTT_5 = MessageProtocol(
    name="MQTT/5.0",
    options={
        **_MQTT_3,
        "payload_format": "integer",
        "message_expiry_interval": "integer",
        "response_topic": "uritemplate",
        "correlation_data": "binary",
        "content_type": "string",
    },
    sections={"user_properties": {}},
    defaults={**_MQTT_DEFAULTS, ("payload_format",): 0},
    aliases=_MQTT_ALIASES,
    separator="_",
    binding=Binding(section="user_properties", prefixes=("",), contenttype=("content_type",)),
)
KAFKA = MessageProtocol(
    name="KAFKA",
    options={"topic": "string", "partition": "integer", "key": "string", "key_base64": "binary"},
    sections={"headers": {}},
    exclusive=("key", "key_base64"),
    binding=Binding(section="headers", prefixes=("ce_",), contenttype=_CONTENT_TYPE),
)
NATS = MessageProtocol(
    name="NATS",
    options={"subject": "uritemplate", "reply-to": "uritemplate"},
    sections={"headers": {}},
    aliases={"reply": "reply-to", "reply_to": "reply-to"},
    binding=Binding(section="headers", prefixes=("ce-",), contenttype=_CONTENT_TYPE),
)

_BY_NAME = {"amqp": AMQP, "http": HTTP, "kafka": KAFKA, "mqtt": MQTT_5, "nats": NATS}


def protocol_of(name: str) -> MessageProtocol | None:
    """The protocol that a selector names; `None` if the protocol is not supported.

    The version matters for MQTT only: the messages of other protocols do not depend on the version.
    """
    family, _, version = name.lower().partition("/")
    if family == "mqtt" and version.startswith("3"):
        return MQTT_3
    return _BY_NAME.get(family)
