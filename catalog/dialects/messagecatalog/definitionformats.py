"""The definition formats of the message catalog (section 3), and the format of an entity."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.dialects.bodypath import BodyPath
from catalog.dialects.messagecatalog import amqpformat, cloudeventsformat, mqttformat, natsformat

CATALOG_ATTRIBUTE = "messagecatalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionFormat:
    """A format: its metaschema's rules, and its native form.

    `native` are the attributes of a group of this format. MQTT has none, since the messages of
    a group may be of either version of the protocol. `schema` is the path of the payload's
    schema in a definition.
    """

    name: str
    native: Mapping[str, str]
    schema: str
    check: Callable[[Any, str, BodyPath], None]
    to_native: Callable[[Mapping[str, Any]], dict[str, Any]]
    from_native: Callable[[Mapping[str, Any]], dict[str, Any]]


DEFINITION_FORMATS: Mapping[str, DefinitionFormat] = {
    "CloudEvents": DefinitionFormat(
        name="CloudEvents",
        native={"envelope": "CloudEvents/1.0"},
        schema="attributes.dataschema",
        check=cloudeventsformat.check,
        to_native=cloudeventsformat.to_native,
        from_native=cloudeventsformat.from_native,
    ),
    "AMQP": DefinitionFormat(
        name="AMQP",
        native={"protocol": "AMQP/1.0"},
        schema="applicationdata.dataschema",
        check=amqpformat.check,
        to_native=amqpformat.to_native,
        from_native=amqpformat.from_native,
    ),
    "MQTT": DefinitionFormat(
        name="MQTT",
        native={},
        schema="payload.dataschema",
        check=mqttformat.check,
        to_native=mqttformat.to_native,
        from_native=mqttformat.from_native,
    ),
    "NATS": DefinitionFormat(
        name="NATS",
        native={"protocol": "NATS"},
        schema="payload.dataschema",
        check=natsformat.check,
        to_native=natsformat.to_native,
        from_native=natsformat.from_native,
    ),
}
_BY_FAMILY = {name.lower(): name for name in DEFINITION_FORMATS}


def check_format(value: Any, place: BodyPath) -> str:
    """The name of a format; those of section 3 have to be spelled exactly.

    Raises:
        InvalidAttribute
    """
    if not isinstance(value, str) or not value:
        raise place.fault("it needs to be a non-empty string")
    known = _BY_FAMILY.get(value.lower(), value)
    if known != value:
        raise place.fault(f'the format is called "{known}"')
    return value


def format_of(attributes: Mapping[str, Any]) -> str | None:
    """The format of a group or a message, through whichever API it was written.

    An envelope takes precedence over a protocol, since it describes the message itself.
    """
    texts = [attributes[name] for name in ("envelope", "protocol") if attributes.get(name)]
    families = [_BY_FAMILY.get(str(text).partition("/")[0].lower()) for text in texts]
    kept = kept_in(attributes).get("format")
    named = kept if isinstance(kept, str) else None
    return next(filter(None, [*families, named, *map(str, texts)]), None)


def kept_in(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of this API that have no native form."""
    kept = attributes.get(CATALOG_ATTRIBUTE)
    return kept if isinstance(kept, dict) else {}
