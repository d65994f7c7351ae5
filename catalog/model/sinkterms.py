"""The terms between the node and a sink: consents, keys that sign, and origins."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from urllib.parse import urlsplit

SignatureScheme = Literal["hmac-sha256", "ed25519"]
_SCHEMES = {
    **{"http": ("HTTP", 80), "https": ("HTTP", 443)},
    **{"kafka": ("KAFKA", 9092), "kafkas": ("KAFKA", 9092)},
    **{"mqtt": ("MQTT5", 1883), "mqtts": ("MQTT5", 8883)},
    **{"nats": ("NATS", 4222), "tls": ("NATS", 4222)},
    **{"amqp": ("AMQP", 5672), "amqps": ("AMQP", 5671)},
}
DEFAULT_PORTS = {scheme: port for scheme, (_, port) in _SCHEMES.items()}
"""The port of a sink whose URL names none, by the scheme."""


def protocol_of(sink: str) -> str:
    """The delivery protocol for the scheme of a sink's URL; HTTP for an unknown scheme."""
    return _SCHEMES.get(sink.partition(":")[0].lower(), ("HTTP", 0))[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConsent:
    """The consent of a sink, at a time, to the delivery of events (http-webhook.md 4).

    Each request has to state `origin`, the host name that the consent was given to. `rate` is the
    maximum number of requests in a minute; `None` is no limit.
    """

    at: datetime
    origin: str
    rate: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key of a subscription, which signs deliveries (Standard Webhooks 1.0).

    `secret` is the shared secret for HMAC, or the seed of the private key for ed25519. The node
    stops signing with the key at `endsat`; `None` for the current key.
    """

    id: str
    scheme: SignatureScheme
    secret: bytes = field(repr=False)
    createdat: datetime
    endsat: datetime | None = None

    def is_valid(self, at: datetime) -> bool:
        """Whether the node signs with the key at a given time."""
        return self.endsat is None or at < self.endsat


def origin_of(url: str) -> str:
    """The scheme, host and port of a URL, in lower case, so that equal origins are equal texts."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    # `hostname` leaves out the brackets of an IPv6 address.
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{parts.port or DEFAULT_PORTS.get(parts.scheme, '')}"
