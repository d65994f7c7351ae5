"""The metaschema of AMQP (message catalog, 3.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from catalog.dialects.bodypath import BodyPath, checked_members, checked_object
from catalog.dialects.messagecatalog import dataschemas
from catalog.dialects.messagecatalog.valuetemplates import (
    check_template,
    constant_in,
    fits,
    is_base64,
    is_listed,
    is_time,
    members_of,
    templates_of,
    to_property,
)
from catalog.model.schema import EXTENDED_NAME

NATIVE: Mapping[str, str] = {"protocol": "AMQP/1.0"}
SCHEMA = "applicationdata.dataschema"
# The native name of each property, and the native types of a constant and of a template.
_PROPERTIES: Mapping[str, tuple[str, str, str]] = {
    "messageid": ("message-id", "string", "uritemplate"),
    "userid": ("user-id", "binary", "uritemplate"),
    "to": ("to", "string", "uritemplate"),
    "subject": ("subject", "string", "uritemplate"),
    "replyto": ("reply-to", "string", "uritemplate"),
    "correlationid": ("correlation-id", "string", "uritemplate"),
    "contenttype": ("content-type", "string", "uritemplate"),
    "contentencoding": ("content-encoding", "string", ""),
    "absoluteexpirytime": ("absolute-expiry-time", "timestamp", ""),
    "creationtime": ("creation-time", "timestamp", ""),
    "groupid": ("group-id", "string", "uritemplate"),
    "groupsequence": ("group-sequence", "integer", ""),
    "replytogroupid": ("reply-to-group-id", "string", "uritemplate"),
}
_OPEN = {
    "deliveryannotations": "delivery-annotations",
    "messageannotations": "message-annotations",
    "applicationproperties": "application-properties",
    "footer": "footer",
}
_SECTIONS = ("header", "properties", *_OPEN, "applicationdata")
_HEADER = {"durable": False, "priority": 4}
_ENCODINGS = ("Data", "Value", "Sequence")
_SYMBOL = re.compile(r"[\x21-\x7e]{1,255}")


def check(definition: Any, id: str, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for an invalid description of an AMQP message."""
    sections = checked_members(definition, _SECTIONS, place)
    _check_header(sections.get("header", {}), place.at("header"))
    properties, at = sections.get("properties", {}), place.at("properties")
    for name, value in checked_members(properties, _PROPERTIES, at).items():
        kind, text = _PROPERTIES[name][1], constant_in(check_template(value, at.at(name)))
        if text and kind == "timestamp" and not is_time(text):
            raise at.at(name).fault("it needs to be an RFC 3339 timestamp")
        if text and kind == "binary" and not is_base64(text):
            raise at.at(name).fault("it needs to be in base64")
    for section in _OPEN:
        _check_open(sections.get(section, {}), place.at(section))
    _check_data(sections.get("applicationdata", {}), place.at("applicationdata"))


def _check_header(value: Any, place: BodyPath) -> None:
    header = checked_members(value, ("durable", "priority", "ttl"), place)
    for name, kind, most in (("priority", "uinteger", 255), ("ttl", "uinteger", 2**32 - 1)):
        number = header.get(name)
        if number is not None and not (fits(kind, number) and number <= most):
            raise place.at(name).fault(f"it needs to be an integer from 0 to {most}")
    if not isinstance(header.get("durable"), bool | None):
        raise place.at("durable").fault("it needs to be a boolean")


def _check_open(value: Any, place: BodyPath) -> None:
    for name, template in checked_object(value, place).items():
        if not _SYMBOL.fullmatch(name):
            raise place.at(name).fault("its name needs to be an AMQP symbol: visible ASCII")
        check_template(template, place.at(name))


def _check_data(value: Any, place: BodyPath) -> None:
    data = checked_members(value, ("dataschema", "amqpencoding"), place)
    if data.get("dataschema") is not None:
        dataschemas.check_schema(data["dataschema"], place.at("dataschema"))
    if data.get("amqpencoding", "Data") not in _ENCODINGS:
        raise place.at("amqpencoding").fault(f"it needs to be one of {', '.join(_ENCODINGS)}")


def to_native(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The native attributes of a described message."""
    options: dict[str, Any] = {}
    if "header" in definition:
        given = {k: v for k, v in definition["header"].items() if v is not None}
        options["header"] = {**_HEADER, **given}
    properties = definition.get("properties", {})
    if properties:
        options["properties"] = {
            _PROPERTIES[name][0]: to_property(template, *_PROPERTIES[name][1:])
            for name, template in properties.items()
            if is_listed(template)
        }
    for section, native in _OPEN.items():
        if section in definition:
            options[native] = {
                name: to_property(template, "string", "uritemplate")
                for name, template in definition[section].items()
                if is_listed(template) and EXTENDED_NAME.fullmatch(name)
            }
    found: dict[str, Any] = {"protocol": "AMQP/1.0", "protocoloptions": options}
    if media_type := constant_in(properties.get("contenttype")):
        found["datacontenttype"] = media_type
    return found | dataschemas.to_attributes(
        definition.get("applicationdata", {}).get("dataschema")
    )


def from_native(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a message, from the native attributes."""
    options = members_of(attributes.get("protocoloptions"))
    shown: dict[str, Any] = {}
    if "header" in options:
        header = members_of(options["header"])
        shown["header"] = {n: header[n] for n in ("durable", "priority", "ttl") if n in header}
    found = templates_of(options.get("properties"))
    properties = {
        name: found[native] for name, (native, _, _) in _PROPERTIES.items() if native in found
    }
    if "datacontenttype" in attributes and "contenttype" not in properties:
        properties["contenttype"] = {"value": attributes["datacontenttype"]}
    if properties:
        shown["properties"] = properties
    for section, native in _OPEN.items():
        if native in options:
            shown[section] = templates_of(options[native])
    if schema := dataschemas.from_attributes(attributes):
        shown["applicationdata"] = {"dataschema": schema}
    return shown
