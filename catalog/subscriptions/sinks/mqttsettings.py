"""MQTT as a delivery protocol: its settings (subscriptions-spec.md 3.2.2.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from catalog.model.credentials import PlainCredential, SinkCredential
from catalog.operations.cacertificate import CaCertificate
from catalog.subscriptions.sinks.sink import DeliveryProtocol, ProtocolSettings, Unfit

DEFAULT_PORT = 1883
DEFAULT_TLS_PORT = 8883

_LONGEST_TOPIC = 1024
# Servers end the connection of a client that sends such a character (MQTT 5.0 1.5.4).
_DISALLOWED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_CONTEXT_ATTRIBUTES = frozenset(
    {
        *("specversion", "id", "source", "type"),
        *("subject", "time", "datacontenttype", "dataschema", "data"),
    }
)


class _MqttSettings(ProtocolSettings):
    """The settings of both versions of the protocol."""

    topicname: str = Field(min_length=1, max_length=_LONGEST_TOPIC)
    """Topic to publish to"""
    qos: int = Field(default=1, ge=0, le=2, strict=True)
    """Quality of service: at most once (0), at least once (1), exactly once (2)"""
    retain: bool = Field(default=False, strict=True)
    """Whether the server keeps the last event of the topic for new subscribers"""
    cacertificate: CaCertificate | None = None
    """Certificates, as PEM, that the server's has to be signed by"""

    @field_validator("topicname")
    @classmethod
    def _is_a_topic(cls, name: str) -> str:
        if _DISALLOWED.search(name):
            raise ValueError("it must not contain control characters or noncharacters")
        if "+" in name or "#" in name:
            raise ValueError("it must not contain the wildcards + and #")
        if name.startswith("$"):
            raise ValueError("names that begin with $ are reserved for servers (MQTT 5.0 4.7.2)")
        return name


class Mqtt3Settings(_MqttSettings):
    """The settings of an MQTT 3.1.1 sink.

    `contentmode` and `cacertificate` are additions. The protocol has no place for attributes, so
    the content mode is always structured (mqtt-protocol-binding.md 3).
    """

    contentmode: Literal["structured"] = "structured"
    """An event is one JSON object"""


class Mqtt5Settings(_MqttSettings):
    """The settings of an MQTT 5.0 sink; `contentmode` and `cacertificate` are additions."""

    contentmode: Literal["binary", "structured"] = "binary"
    """Whether an event is in properties and payload, or is one JSON object"""
    expiry: int | None = Field(default=None, ge=1, lt=2**32, strict=True)
    """Seconds after which the server drops an event that nobody took"""
    userproperties: dict[str, str] = Field(default_factory=dict, max_length=32)
    """User properties of every message"""

    @field_validator("userproperties")
    @classmethod
    def _properties_are_ours_to_send(cls, properties: dict[str, str]) -> dict[str, str]:
        for name, value in properties.items():
            if not 0 < len(name) <= 128 or len(value) > 1024:
                raise ValueError("a name has 1 to 128 characters, and a value no more than 1024")
            if _DISALLOWED.search(name + value):
                fault = "names and values must not contain control characters or noncharacters"
                raise ValueError(fault)
            if name in _CONTEXT_ATTRIBUTES:
                raise ValueError(f'"{name}" is the name of a context attribute of the event')
        return properties


def _why_unfit(
    sink: str, settings: Mapping[str, Any], credential: SinkCredential | None
) -> Unfit | None:
    try:
        parts = urlsplit(sink)
    except ValueError:
        return "sink", "it is not a URL"
    if parts.path not in ("", "/") or parts.query:
        return "sink", 'it names the server only; the topic belongs into "protocolsettings"'
    if parts.scheme == "mqtt" and settings["cacertificate"] is not None:
        return "protocolsettings.cacertificate", "only a sink of the scheme mqtts uses TLS"
    if isinstance(credential, PlainCredential) and _DISALLOWED.search(credential.identifier):
        fault = "it must not contain control characters or noncharacters"
        return "sinkcredential.PLAIN.identifier", fault
    return None


MQTT5 = DeliveryProtocol(
    schemes={"MQTT5": ("mqtt", "mqtts")},
    settings=Mqtt5Settings,
    module="catalog.subscriptions.sinks.mqttsink",
    extra="mqtt",
    library="paho",
    credentials=(PlainCredential,),
    masked=("userproperties",),
    why_unfit=_why_unfit,
)
"""Sinks are `mqtt://HOST:PORT`, or `mqtts` with TLS."""

MQTT3 = DeliveryProtocol(
    schemes={"MQTT3": ("mqtt", "mqtts")},
    settings=Mqtt3Settings,
    module="catalog.subscriptions.sinks.mqttsink",
    extra="mqtt",
    library="paho",
    credentials=(PlainCredential,),
    why_unfit=_why_unfit,
)
"""Sinks are `mqtt://HOST:PORT`, or `mqtts` with TLS."""
