"""The definition formats of the message catalog (section 3), and the format of an entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from catalog.dialects.bodypath import BodyPath
from catalog.dialects.messagecatalog import amqpformat, cloudeventsformat, mqttformat, natsformat

CATALOG_ATTRIBUTE = "messagecatalog"


class DefinitionFormat(Protocol):
    """The module of a format: the rules of the metaschema, and the native form.

    `NATIVE` are the attributes of a group of the format; `SCHEMA` is the path of the payload's
    schema in a definition.
    """

    NATIVE: Mapping[str, str]
    SCHEMA: str

    def check(self, definition: Any, id: str, place: BodyPath) -> None: ...

    def to_native(self, definition: Mapping[str, Any]) -> dict[str, Any]: ...

    def from_native(self, attributes: Mapping[str, Any]) -> dict[str, Any]: ...


DEFINITION_FORMATS: Mapping[str, DefinitionFormat] = {
    "CloudEvents": cloudeventsformat,
    "AMQP": amqpformat,
    "MQTT": mqttformat,
    "NATS": natsformat,
}
_BY_FAMILY = {name.lower(): name for name in DEFINITION_FORMATS}


def check_format(value: Any, place: BodyPath) -> str:
    """The name of a format; raises `InvalidAttribute` for a misspelt name of section 3."""
    if not isinstance(value, str) or not value:
        raise place.fault("it needs to be a non-empty string")
    known = _BY_FAMILY.get(value.lower(), value)
    if known != value:
        raise place.fault(f'the format is called "{known}"')
    return value


def format_of(attributes: Mapping[str, Any]) -> str | None:
    """The format of a group or a message, independent of the API that wrote the entity.

    An envelope takes precedence over a protocol, since the envelope describes the message itself.
    """
    texts = [attributes[name] for name in ("envelope", "protocol") if attributes.get(name)]
    families = [_BY_FAMILY.get(str(text).partition("/")[0].lower()) for text in texts]
    kept = kept_in(attributes).get("format")
    named = kept if isinstance(kept, str) else None
    return next(filter(None, [*families, named, *map(str, texts)]), None)


def kept_in(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of the Message Catalog API without a native form."""
    kept = attributes.get(CATALOG_ATTRIBUTE)
    return kept if isinstance(kept, dict) else {}
