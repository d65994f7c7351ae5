"""Describes the entities of a model as OpenAPI: their schemas, and single operations on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from catalog.api.documents import ASYNCAPI, DOCUMENTS, PATHS
from catalog.api.requesttarget import RequestTarget, TargetKind, methods_of
from catalog.http.positionwait import WAIT_FOR
from catalog.http.responses import POSITION
from catalog.model.capabilities import Capabilities
from catalog.model.configuration import Configuration
from catalog.model.schema import EXTENDED_NAME, Attribute, GroupType, Model, ResourceType
from catalog.model.xid import ID_PATTERN, Xid

_READS = ("GET", "HEAD")
Json = dict[str, Any]
_WORD = re.compile(r"\w+")
_PLACEHOLDER = re.compile(r"{(\w+)}")
_IN_PATH: Mapping[str, Json] = {"number": {"type": "integer", "minimum": 1}}
# The targets in this module represent every path of a kind.
_ANY = Xid()
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
JSON_BODY = "application/json"
_TEXT: Json = {"type": "string"}
_TEXTS: Json = {"type": "array", "items": _TEXT}
_SWITCH: Json = {"type": "string", "enum": [""]}
LIMIT: Json = {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1}}
"""The parameter for the largest number of entities in a page."""
_FLAGS: Mapping[str, Json] = {
    "binary": _SWITCH,
    "collections": _SWITCH,
    "doc": _SWITCH,
    "epoch": {"type": "integer", "minimum": 0},
    "filter": _TEXTS,
    "ignore": _TEXTS,
    "inline": _TEXTS,
    "setdefaultversionid": _TEXT,
    "sort": _TEXT,
    "specversion": _TEXT,
}
_DOCUMENT: Json = {
    "description": "A registry as a document; the media type's parameter `specversion` names "
    "the edition that a client wants, and any edition is taken.",
    "type": "object",
}
_ASYNCAPI_DOCUMENT: Json = {
    "description": "An AsyncAPI document; the media type's parameter `version` names the version "
    "that a client wants, 3.0.0 or 2.6.0. `Concord-Notes` tells what it cannot express.",
    "type": "object",
}
_SHOWING = ("binary", "doc", "inline", "specversion")
VERBS = {
    "GET": "Read",
    "HEAD": "Read the headers of",
    "PUT": "Create or replace",
    "PATCH": "Create or update",
    "POST": "Add to",
    "DELETE": "Delete",
}


def position_components() -> Json:
    """The parameters and the header that operations refer to."""
    return {
        "parameters": {
            "WaitFor": {
                "name": WAIT_FOR,
                "in": "header",
                "description": f"Values of `{POSITION}`, with commas between. The answer shows "
                "these writes, which were made here or at catalogs that this one follows.",
                "schema": {"type": "string"},
            },
            "Wait": {
                "name": "Prefer",
                "in": "header",
                "description": f"How many seconds to wait for what `{WAIT_FOR}` names.",
                "schema": {"type": "string", "pattern": "^wait=[0-9]{1,4}$"},
            },
        },
        "headers": {
            "Position": {
                "description": f"The position of the write, which `{WAIT_FOR}` takes.",
                "schema": {"type": "string"},
            }
        },
    }


def wait_parameters(method: str) -> list[Json]:
    """The parameters by which a read waits; empty for methods that write."""
    names = ("WaitFor", "Wait") if method in _READS else ()
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def position_headers(method: str) -> Json:
    """The headers of the successful answer to a write, as a member of its description."""
    if method in _READS:
        return {}
    return {"headers": {POSITION: {"$ref": "#/components/headers/Position"}}}


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


def operation_on(
    able: Capabilities, target: RequestTarget, method: str, *, taken: Json, shown: Json
) -> Json:
    """Describe one method of a kind of path.

    Args:
        taken: the schemas of the request body by media type, for methods with a body.
        shown: the schemas of the body of a successful answer by media type; may be empty.
    """
    flags = [name for name in _flags_for(target, method) if name in able.flags]
    operation: Json = {
        "summary": f"{VERBS[method]} the {target.plural or target.kind}.",
        "parameters": [*(_query(name, _FLAGS[name]) for name in flags), *wait_parameters(method)],
        "responses": {**_successes(target, method, shown), **refusals()},
    }
    if method == "GET" and target.kind == "collection" and able.pagination:
        operation["parameters"].append(LIMIT)
    if method in ("PUT", "PATCH", "POST"):
        operation["requestBody"] = {"required": True, "content": taken}
    elif method == "DELETE" and target.kind == "collection":
        operation["requestBody"] = {"content": taken}
    return operation


def _flags_for(target: RequestTarget, method: str) -> Iterator[str]:
    if method != "DELETE":
        yield from _SHOWING
    elif target.kind != "collection":
        yield "epoch"
    if method != "DELETE":
        yield "filter"
        if target.kind == "collection":
            yield "sort"
    if method in ("GET", "HEAD"):
        if target.kind in ("registry", "group"):
            yield "collections"
        return
    yield "ignore"
    if target.kind in ("resource", "meta", "version") or target.plural == "versions":
        yield "setdefaultversionid"


def _successes(target: RequestTarget, method: str, shown: Json) -> Json:
    headers = position_headers(method)
    done: Json = {"description": "Done.", **headers, **({"content": shown} if shown else {})}
    match method:
        case "GET":
            return {"200": done, "304": {"description": "Nothing is new since its ETag."}}
        case "HEAD":
            return {"200": {"description": "Done."}, "304": {"description": "Nothing is new."}}
        case "DELETE":
            return {"204": {"description": "Done.", **headers}}
        case "POST" if target.kind != "resource":
            return {"200": done}
        case _:
            return {"200": done, "201": {**done, "description": "Created."}}


def refusals() -> Json:
    """The refusals of every operation."""
    refused = {"$ref": "#/components/responses/Refused"}
    return {"4XX": refused, "5XX": refused}


def content(media_type: str, schema: Json) -> Json:
    """A body of one media type."""
    return {media_type: {"schema": schema}}


def _query(name: str, schema: Json) -> Json:
    shown: Json = {"name": name, "in": "query", "schema": schema}
    if schema is _SWITCH:
        shown["allowEmptyValue"] = True
    return shown


def documents_at(path: str) -> Json:
    """The media types of the documents that represent the registry at a path."""
    shown: Json = {name: {"schema": _DOCUMENT} for name in DOCUMENTS if path in PATHS}
    if path == "/export":
        shown |= {name: {"schema": _ASYNCAPI_DOCUMENT} for name in ASYNCAPI}
    return shown


def entity_paths(configuration: Configuration) -> Iterator[tuple[str, Json]]:
    model, able = configuration.model, configuration.capabilities
    yield _entry(able, "/", RequestTarget("registry", _ANY), reference("registry"))
    for groups, group in model.groups.items():
        one = f"/{groups}/{{{group.singular}id}}"
        yield _entry(able, f"/{groups}", RequestTarget("collection", _ANY), map_of(group.singular))
        yield _entry(
            able, one, RequestTarget("group", _ANY), reference(group.singular), group.own_attributes
        )
        for resources, kind in group.resources.items():
            yield from _resource_paths(able, f"{one}/{resources}", group, kind)


def _resource_paths(
    able: Capabilities, collection: str, group: GroupType, kind: ResourceType
) -> Iterator[tuple[str, Json]]:
    name = name_of(group, kind)
    one = f"{collection}/{{{kind.singular}id}}"
    versions = RequestTarget("collection", _ANY, plural="versions")
    yield _entry(able, collection, RequestTarget("collection", _ANY), map_of(name))
    yield _entry(able, f"{one}/meta", RequestTarget("meta", _ANY), reference(f"{name}.meta"))
    yield _entry(able, f"{one}/versions", versions, map_of(f"{name}.version"))
    yield from _versioned_paths(able, one, "resource", reference(name), kind)
    version = f"{one}/versions/{{versionid}}"
    yield from _versioned_paths(able, version, "version", reference(f"{name}.version"), kind)


def _versioned_paths(
    able: Capabilities, path: str, what: TargetKind, shown: Json, kind: ResourceType
) -> Iterator[tuple[str, Json]]:
    """The paths of the metadata and of the document, if any, of a resource or version."""
    if kind.hasdocument:
        yield _document_entry(able, path, RequestTarget(what, _ANY, resource_type=kind))
        path = f"{path}$details"
    target = RequestTarget(what, _ANY, details=True, resource_type=kind)
    yield _entry(able, path, target, shown, kind.version_attributes)


def _entry(
    able: Capabilities,
    path: str,
    target: RequestTarget,
    shown: Json,
    settable: Mapping[str, Attribute] | None = None,
) -> tuple[str, Json]:
    """Describe a path that takes and shows metadata."""
    operations, documents = {}, documents_at(path)
    for method in _methods(target, able):
        is_map_of_maps = method == "POST" and target.kind in ("registry", "group")
        answer = {"type": "object"} if is_map_of_maps else shown
        taken = answer
        if method == "PUT" and settable:
            taken = {"allOf": [shown, {"required": required_of(settable)}]}
        operations[method.lower()] = operation_on(
            able,
            target,
            method,
            taken={**content(JSON_BODY, taken), **documents},
            shown={**content(JSON_BODY, answer), **documents},
        )
    return path, path_item(path, operations)


def _document_entry(able: Capabilities, path: str, target: RequestTarget) -> tuple[str, Json]:
    """Describe a path of documents, with metadata in `xRegistry-` headers."""
    operations = {
        method.lower(): operation_on(able, target, method, taken=content("*/*", {}), shown={})
        for method in _methods(target, able)
    }
    operations["get"]["responses"]["303"] = {"description": "The document is elsewhere."}
    return path, path_item(path, operations)


def _methods(target: RequestTarget, able: Capabilities) -> Iterator[str]:
    return (method for method in methods_of(target, able) if method in VERBS)


def path_item(path: str, operations: Json) -> Json:
    names = _PLACEHOLDER.findall(path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _IN_PATH.get(name, ID)}
        for name in names
    ]
    named = {
        method: {"operationId": _operation_id(method, path), **operation}
        for method, operation in operations.items()
    }
    return {**({"parameters": parameters} if parameters else {}), **named}


def _operation_id(method: str, path: str) -> str:
    """The id of an operation whose handler serves several operations."""
    words = _WORD.findall(path) or ["registry"]
    # Two drafts have the same path, one with and one without a final slash.
    ending = ["slash"] if path != "/" and path.endswith("/") else []
    return "_".join([method, *words, *ending])
