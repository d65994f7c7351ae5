"""Checks the attributes of CloudEvents by the specification and a message definition.

Sources: cloudevents/spec.md, "Context Attributes" and "Type System"; message/spec.md,
"CloudEvents/1.0".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from catalog.messages.definition import MessageDefinition, Property
from catalog.messages.message import CarriedEvent, is_json_type
from catalog.messages.violations import Violations

_NAME = re.compile(r"[a-z0-9]+")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_LARGEST = 2**31

# The attributes of the CloudEvents specification, which must not be empty.
_CORE: Mapping[str, Property] = {
    "specversion": Property(value="1.0", required=True),
    "id": Property(required=True),
    "type": Property(required=True),
    "source": Property(type="urireference", required=True),
    "subject": Property(),
    "time": Property(type="timestamp"),
    "dataschema": Property(type="uri"),
    "datacontenttype": Property(),
}
# The types of attributes, for definitions without a type (the table of message/spec.md).
_TYPES = {"source": "uritemplate", "time": "timestamp", "dataschema": "uritemplate"}


def check_event(event: CarriedEvent, definition: MessageDefinition, findings: Violations) -> None:
    """Check an event; attributes that the definition does not name are allowed by CloudEvents."""
    faulty = _check_core(event, findings)
    metadata = definition.envelopemetadata if definition.is_cloudevent else {}
    for name, wanted in _wanted(metadata, definition.dataschemauri, findings).items():
        # A second violation of a faulty attribute would often repeat the first.
        if name not in faulty:
            findings.check(wanted, event.attributes.get(name), event.pointer(name))
    _check_data(event, findings)


def _check_core(event: CarriedEvent, findings: Violations) -> set[str]:
    """Check an event by the specification, and return the names of the faulty attributes."""
    before = len(findings.violations)
    faulty: set[str] = set()
    findings.spend(len(event.attributes))
    for name in sorted({*event.attributes, *_CORE}):
        value, pointer = event.attributes.get(name), event.pointer(name)
        if name in _CORE:
            findings.check(_CORE[name], value, pointer)
            if value == "":
                findings.object(pointer, "value", "it must not be empty")
        else:
            _check_extension(name, value, pointer, findings)
        if len(findings.violations) > before:
            faulty.add(name)
            before = len(findings.violations)
    return faulty


def _check_extension(name: str, value: Any, pointer: str, findings: Violations) -> None:
    if not _NAME.fullmatch(name):
        findings.object(pointer, "name", "a name has small letters and digits only")
    elif isinstance(value, int) and not isinstance(value, bool):
        if not -_LARGEST <= value < _LARGEST:
            findings.object(pointer, "type", "an integer of CloudEvents has 32 bits")
    elif not isinstance(value, str | bool):
        findings.object(pointer, "type", "an attribute is a string, an integer or a boolean")


def _wanted(
    metadata: Mapping[str, Any], dataschemauri: str, findings: Violations
) -> dict[str, Property]:
    wanted = {
        name: Property.of(
            source,
            type=_TYPES.get(name, "string"),
            is_text=True,
            is_media_type=name == "datacontenttype",
        )
        for name, source in metadata.items()
        if name != "*"
    }
    schema = wanted.get("dataschema", Property(is_text=True))
    if schema.value is None and _ABSOLUTE.match(dataschemauri):
        wanted["dataschema"] = replace(schema, type="uri", value=dataschemauri)
    elif isinstance(schema.value, str) and schema.value.startswith(("/", "#")):
        # A relative reference names a schema of the registry; an event has an absolute URI.
        findings.leave("envelopemetadata/dataschema", "it is relative", schema.value)
        wanted["dataschema"] = replace(schema, value=None)
    return wanted


def _check_data(event: CarriedEvent, findings: Violations) -> None:
    payload = event.payload
    if payload is None or payload.is_text_or_bytes or is_json_type(payload.contenttype):
        return
    findings.object(payload.pointer, "payload", f"{payload.contenttype} needs text or data_base64")
