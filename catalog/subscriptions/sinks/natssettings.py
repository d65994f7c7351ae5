"""NATS as a delivery protocol: its settings (subscriptions-spec.md 3.2.2.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from catalog.model.credentials import SinkCredential
from catalog.operations.cacertificate import CaCertificate
from catalog.subscriptions.sinks.sink import DeliveryProtocol, ProtocolSettings, Unfit

DEFAULT_PORT = 4222

# A protocol line has at most 4096 bytes by default, and the subject is only a part of the line.
_LONGEST_SUBJECT = 512
_NO_TOKEN = re.compile("[\\s\x00-\x1f\x7f-\x9f\ud800-\udfff*>]")


class NatsSettings(ProtocolSettings):
    """The settings of a NATS sink; `contentmode` and `cacertificate` are additions."""

    subject: str = Field(min_length=1, max_length=_LONGEST_SUBJECT)
    """Subject to publish to"""
    contentmode: Literal["binary", "structured"] = "binary"
    """Whether an event is in headers and payload, or is one JSON object"""
    cacertificate: CaCertificate | None = None
    """Certificates, as PEM, that the server's has to be signed by"""

    @field_validator("subject")
    @classmethod
    def _is_a_subject(cls, name: str) -> str:
        if _NO_TOKEN.search(name):
            raise ValueError("it must not contain the wildcards * and >, spaces or controls")
        if "" in name.split("."):
            raise ValueError("a dot stands between two tokens, none of which is empty")
        if name.startswith("$"):
            raise ValueError("names that begin with $ are reserved for servers")
        return name


def _why_unfit(sink: str, settings: Mapping[str, Any], _: SinkCredential | None) -> Unfit | None:
    try:
        parts = urlsplit(sink)
    except ValueError:
        return "sink", "it is not a URL"
    if parts.path not in ("", "/") or parts.query:
        return "sink", 'it names the server only; the subject belongs into "protocolsettings"'
    if parts.scheme == "nats" and settings["cacertificate"] is not None:
        return "protocolsettings.cacertificate", "only a sink of the scheme tls needs TLS"
    return None


NATS = DeliveryProtocol(
    schemes={"NATS": ("nats", "tls")},
    settings=NatsSettings,
    module="catalog.subscriptions.sinks.natssink",
    extra="nats",
    library="nats",
    why_unfit=_why_unfit,
)
"""Sinks are `nats://HOST:PORT`, or `tls` for servers without TLS to be refused."""
