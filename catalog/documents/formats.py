"""The `format` of early editions, which named the envelope or the protocol of messages."""

from __future__ import annotations

from catalog.documents.rewrites import DocumentPart, RewriteRule

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
    """Give a protocol the name that its options are defined for."""
    value = part.members.get("protocol")
    if isinstance(value, str):
        part.set("protocol", _newest(value), _PROTOCOL)


def family(protocol: object) -> str:
    """What a protocol is called without its version."""
    return protocol.partition("/")[0].lower() if isinstance(protocol, str) else ""


def _newest(protocol: str) -> str:
    if family(protocol) in ("kafka", "nats"):
        return family(protocol).upper()
    return _PROTOCOLS.get(protocol.lower(), protocol)
