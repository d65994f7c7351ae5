"""The metaschema of CloudEvents (message catalog, 3.2)."""

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
    is_listed,
    is_time,
    templates_of,
    to_property,
)
from catalog.model.schema import STRICT_NAME

NATIVE: Mapping[str, str] = {"envelope": "CloudEvents/1.0"}
SCHEMA = "attributes.dataschema"
# The attributes that CloudEvents requires of every event.
_REQUIRED = frozenset({"id", "source", "specversion", "type"})
_KINDS = {"time": "timestamp", "source": "uritemplate", "subject": "uritemplate"}
_NAME = re.compile(r"[a-z0-9]{1,128}")
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+*'%`|~\-]+/[\w!#$&^.+*'%`|~\-]+(?:\s*;.*)?", re.ASCII)


def check(definition: Any, id: str, place: BodyPath) -> None:
    """Raise `InvalidAttribute` for an invalid description of a CloudEvent of the type `id`."""
    sections = checked_members(definition, ("attributes",), place)
    place = place.at("attributes")
    attributes = checked_object(sections.get("attributes"), place)
    for name, value in attributes.items():
        if not _NAME.fullmatch(name):
            raise place.at(name).fault("its name needs to be of a to z and 0 to 9")
        if name == "data":
            raise place.at(name).fault("CloudEvents has no attribute of this name")
        check_template(value, place.at(name))
    if "dataschema" in attributes:
        dataschemas.check_schema(attributes["dataschema"], place.at("dataschema"))
    if (attributes.get("type") or {}).get("value") != id:
        raise place.at("type").fault(f'its value needs to be the id, "{id}"')
    _check_known(attributes, place)


def _check_known(attributes: Mapping[str, Any], place: BodyPath) -> None:
    """Check the constraints of CloudEvents on the specification's attributes."""
    for name in _REQUIRED & attributes.keys():
        if attributes[name].get("required") is False:
            raise place.at(name).fault("CloudEvents requires it")
    if constant_in(attributes.get("specversion")) not in ("", "1.0"):
        raise place.at("specversion").fault('it needs to be "1.0"')
    time = constant_in(attributes.get("time"))
    if time and not is_time(time):
        raise place.at("time").fault("it needs to be an RFC 3339 timestamp")
    media_type = constant_in(attributes.get("datacontenttype"))
    if media_type and not _MEDIA_TYPE.fullmatch(media_type):
        raise place.at("datacontenttype").fault("it needs to be a media type (RFC 2046)")
    source = constant_in(attributes.get("source"))
    if source and not fits("uri", source):
        raise place.at("source").fault("it needs to be a URI reference")


def to_native(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The native attributes of a described message."""
    attributes = definition.get("attributes", {})
    metadata = {
        name: _to_property(name, template)
        for name, template in attributes.items()
        if is_listed(template) and STRICT_NAME.fullmatch(name)
    }
    found: dict[str, Any] = {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}
    if media_type := constant_in(attributes.get("datacontenttype")):
        found["datacontenttype"] = media_type
    if is_listed(attributes.get("dataschema")):
        found |= dataschemas.to_attributes(attributes["dataschema"])
    return found


def from_native(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The description of a message, from the native attributes."""
    shown = templates_of(attributes.get("envelopemetadata"))
    for name in _REQUIRED & shown.keys():
        shown[name].pop("required", None)
    schema = dataschemas.from_attributes(attributes)
    if schema:
        declared = shown.get("dataschema", {})
        if declared.get("value") == "":
            declared = {name: one for name, one in declared.items() if name != "value"}
        shown["dataschema"] = {**schema, **declared}
    if "datacontenttype" in attributes and "datacontenttype" not in shown:
        shown["datacontenttype"] = {"value": attributes["datacontenttype"]}
    return {"attributes": shown}


def _to_property(name: str, template: Mapping[str, Any]) -> Any:
    kind = _KINDS.get(name, "string")
    if name == "dataschema":
        kind = "uritemplate"
        if not fits("uritemplate", template.get("value") or ""):
            template = {**template, "value": ""}
    property = to_property(template, kind, "" if name == "time" else "uritemplate")
    if name in _REQUIRED:
        property["required"] = True
    if name == "specversion":
        property["type"] = "string"
        if property.get("value") != "1.0":
            property.pop("value", None)
    return property
