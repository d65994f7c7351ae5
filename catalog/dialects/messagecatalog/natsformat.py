"""The metaschema of NATS (message catalog, 3.5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from catalog.dialects.bodypath import BodyPath, checked_members, text_in
from catalog.dialects.messagecatalog import dataschemas
from catalog.dialects.messagecatalog.valuetemplates import (
    check_text,
    fits,
    members_of,
    without_expressions,
)

NATIVE: Mapping[str, str] = {"protocol": "NATS"}
SCHEMA = "payload.dataschema"
_FIELDS = {"subject": "subject", "replyto": "reply"}


def check(definition: Any, id: str, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for an invalid description of a NATS PUB message."""
    sections = checked_members(definition, ("pub", "payload"), place)
    at = place.at("pub")
    pub = checked_members(sections.get("pub", {}), _FIELDS, at)
    for name in pub:
        text = text_in(pub, name, at)
        check_text(text, at.at(name))
        if re.search(r"\s", without_expressions(text or "")):
            raise at.at(name).fault("a subject has no blanks")
    dataschemas.check_payload(sections.get("payload", {}), place.at("payload"))


def to_native(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The native attributes of a described message."""
    pub = definition.get("pub", {})
    options = {
        native: pub[name]
        for name, native in _FIELDS.items()
        if pub.get(name) and fits("uritemplate", pub[name])
    }
    found: dict[str, Any] = {"protocol": "NATS", "protocoloptions": options}
    return found | dataschemas.to_attributes(definition.get("payload", {}).get("dataschema"))


def from_native(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a message, from the native attributes."""
    options = members_of(attributes.get("protocoloptions"))
    pub = {name: options[native] for name, native in _FIELDS.items() if native in options}
    shown: dict[str, Any] = {"pub": pub} if pub else {}
    if schema := dataschemas.from_attributes(attributes):
        shown["payload"] = {"dataschema": schema}
    return shown
