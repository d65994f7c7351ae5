"""The names of message formats and protocols: `NAME/VERSION` here, the standard's own natively."""

from __future__ import annotations

CLOUDEVENTS_ENVELOPE = "CloudEvents/1.0"

# The standard knows these by their names alone, whatever their versions.
_VERSIONLESS = {"HTTP": "HTTP", "KAFKA": "KAFKA", "NATS": "NATS"}
_VERSIONED = {
    "AMQP": "AMQP/1.0",
    "AMQP/1.0": "AMQP/1.0",
    "MQTT": "MQTT/5.0",
    "MQTT/5.0": "MQTT/5.0",
    "MQTT/3.1.1": "MQTT/3.1.1",
}
_ENVELOPES = {"CLOUDEVENTS": CLOUDEVENTS_ENVELOPE, "CLOUDEVENTS/1.0": CLOUDEVENTS_ENVELOPE}


def native_protocol(name: str) -> str:
    """The standard's name for a protocol; an unknown one's name stays as it is."""
    upper = name.upper()
    return _VERSIONED.get(upper) or _VERSIONLESS.get(upper.partition("/")[0]) or name


def native_envelope(format: str) -> str | None:
    """The standard's name for a format that is an envelope; `None` for a protocol's."""
    if format.upper().partition("/")[0] != "CLOUDEVENTS":
        return None
    return _ENVELOPES.get(format.upper(), format)
