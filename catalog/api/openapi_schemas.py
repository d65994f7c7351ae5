"""JSON Schemas of the entities of a model, for the OpenAPI description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.model.schema import EXTENDED_NAME, Attribute, GroupType, Model, ResourceType
from catalog.model.xid import ID_PATTERN

Json = dict[str, Any]

ID: Json = {"type": "string", "pattern": f"^{ID_PATTERN.pattern}$"}

PROBLEM: Json = {
    "type": "object",
    "description": "What went wrong (core/http.md, Error Processing).",
    "required": ["type", "title"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string", "minLength": 1},
        "detail": {"type": "string"},
        "subject": {"type": "string"},
        "args": {"type": "object", "additionalProperties": {"type": "string"}},
        "instance": {"type": "string"},
        "violations": {"type": "array", "items": {"$ref": "#/components/schemas/Problem"}},
    },
}

_SCALARS: Mapping[str, Json] = {
    "any": {},
    "boolean": {"type": "boolean"},
    "decimal": {"type": "number"},
    "integer": {"type": "integer"},
    "string": {"type": "string"},
    "timestamp": {"type": "string", "format": "date-time"},
    "uinteger": {"type": "integer", "minimum": 0},
    "uri": {"type": "string", "format": "uri-reference"},
    "uriabsolute": {"type": "string", "format": "uri"},
    "urirelative": {"type": "string", "format": "uri-reference"},
    "uritemplate": {"type": "string", "format": "uri-template"},
    "url": {"type": "string", "format": "uri-reference"},
    "urlabsolute": {"type": "string", "format": "uri"},
    "urlrelative": {"type": "string", "format": "uri-reference"},
    "xid": {"type": "string", "pattern": "^/"},
    "xidtype": {"type": "string", "pattern": "^/"},
}


def components(model: Model) -> dict[str, Json]:
    """The schemas of errors and of each kind of entity of the model, by name."""
    groups = {plural: map_of(group.singular) for plural, group in model.groups.items()}
    made = {"Problem": PROBLEM, "registry": _object(model.attributes, groups)}
    for group in model.groups.values():
        names = {plural: name_of(group, kind) for plural, kind in group.resources.items()}
        resources = {plural: map_of(name) for plural, name in names.items()}
        made[group.singular] = _object(group.attributes, resources)
        for plural, kind in group.resources.items():
            made |= _resource(names[plural], kind)
    return made


def name_of(group: GroupType, kind: ResourceType) -> str:
    """The name of the schema of a resource type; schemas of meta and versions add a suffix."""
    return f"{group.singular}.{kind.singular}"


def reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def map_of(name: str) -> Json:
    """The schema of a collection: a map of entities by id."""
    return {"type": "object", "propertyNames": ID, "additionalProperties": reference(name)}


def required_of(attributes: Mapping[str, Attribute]) -> list[str]:
    """The names of the attributes that a client has to send."""
    return [name for name, a in attributes.items() if a.required and a.default is None]


def _resource(name: str, kind: ResourceType) -> dict[str, Json]:
    below = {"meta": reference(f"{name}.meta"), "versions": map_of(f"{name}.version")}
    return {
        name: _object({**kind.attributes, **kind.resourceattributes}, below),
        f"{name}.meta": _object(kind.metaattributes),
        f"{name}.version": _object(kind.attributes),
    }


def _object(attributes: Mapping[str, Attribute], below: Mapping[str, Json] | None = None) -> Json:
    """An object with the attributes, without the siblings that `ifvalues` may add."""
    own = {name: _value(attribute) for name, attribute in attributes.items() if name != "*"}
    return {"type": "object", "properties": {**own, **(below or {})}}


def _value(attribute: Attribute) -> Json:
    shown = _type(attribute)
    if attribute.description:
        shown["description"] = attribute.description
    if attribute.enum and attribute.strict and attribute.type != "array":
        shown["enum"] = list(attribute.enum)
    if attribute.default is not None:
        shown["default"] = attribute.default
    if attribute.readonly:
        shown["readOnly"] = True
    return shown


def _type(attribute: Attribute) -> Json:
    item = _value(attribute.item) if attribute.item is not None else {}
    match attribute.type:
        case "object":
            return _object(attribute.attributes)
        case "array":
            return {"type": "array", "items": item}
        case "map":
            return {
                "type": "object",
                "propertyNames": {"pattern": f"^{EXTENDED_NAME.pattern}$"},
                "additionalProperties": item,
            }
        case scalar:
            return dict(_SCALARS[scalar])
