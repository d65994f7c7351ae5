"""Describes the node to clients as OpenAPI 3.1, from its routes, its model and its capabilities."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping

from aiohttp import web

from catalog.api.methods import methods_of, methods_of_route
from catalog.api.openapi_schemas import (
    ID,
    Json,
    components,
    map_of,
    name_of,
    reference,
    required_of,
)
from catalog.api.paths import Target, TargetKind
from catalog.api.responses import json_response
from catalog.context import CONTEXT
from catalog.model.capabilities import Capabilities
from catalog.model.configuration import Configuration
from catalog.model.schema import Attribute, GroupType, ResourceType
from catalog.model.xid import Xid

_JSON = "application/json"
_PLACEHOLDER = re.compile(r"{(\w+)}")

_TEXT: Json = {"type": "string"}
_TEXTS: Json = {"type": "array", "items": _TEXT}
_SWITCH: Json = {"type": "string", "enum": [""]}
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
_SHOWING = ("binary", "doc", "inline", "specversion")
_VERBS = {
    "GET": "Read",
    "HEAD": "Read the headers of",
    "PUT": "Create or replace",
    "PATCH": "Create or update",
    "POST": "Add to",
    "DELETE": "Delete",
}

routes = web.RouteTableDef()


@routes.get("/openapi.json")
async def get_openapi(request: web.Request) -> web.Response:
    """This description of the node."""
    context = request.app[CONTEXT]
    document = describe(context.configuration, request.app.router, context.base_url(request))
    return json_response(document)


def describe(configuration: Configuration, router: web.UrlDispatcher, base: str) -> Json:
    """The whole description.

    Args:
        configuration: its model gives the paths and schemas of entities, its capabilities
            the flags.
        router: gives the paths that every node has.
        base: URL of the registry's root.
    """
    paths = dict(_fixed_paths(router, configuration.capabilities))
    paths |= dict(_entity_paths(configuration))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Concord",
            "version": configuration.capabilities.specversions[0],
            "description": "A catalog of endpoints, messages and schemas: an xRegistry server.",
        },
        "servers": [{"url": base}],
        "paths": paths,
        "components": {
            "schemas": components(configuration.model),
            "responses": {
                "Refused": {
                    "description": "Refused; the error document says why.",
                    "content": _content(_JSON, reference("Problem")),
                }
            },
        },
    }


def _fixed_paths(router: web.UrlDispatcher, able: Capabilities) -> Iterator[tuple[str, Json]]:
    """Paths that do not depend on the model, as their handlers' docstrings describe them."""
    for resource in router.resources():
        defined = {route.method: route for route in resource if route.method in _VERBS}
        allowed = methods_of_route(resource.canonical, defined, able)
        operations = {
            method.lower(): _fixed_operation(route)
            for method, route in defined.items()
            if method in allowed and method != "HEAD"
        }
        if operations:
            yield resource.canonical, _path(resource.canonical, operations)


def _fixed_operation(route: web.AbstractRoute) -> Json:
    about = (inspect.getdoc(route.handler) or "").partition("\n")[0]
    operation: Json = {
        "summary": about,
        "responses": {"2XX": {"description": "Done."}, **_refusals()},
    }
    if route.method in ("PUT", "PATCH", "POST"):
        operation["requestBody"] = {"content": {_JSON: {"schema": {}}}}
    return operation


def _entity_paths(configuration: Configuration) -> Iterator[tuple[str, Json]]:
    model, able = configuration.model, configuration.capabilities
    yield _entry(able, "/", _target("registry"), reference("registry"))
    for groups, group in model.groups.items():
        one = f"/{groups}/{{{group.singular}id}}"
        yield _entry(able, f"/{groups}", _target("collection"), map_of(group.singular))
        yield _entry(able, one, _target("group"), reference(group.singular), group.own_attributes)
        for resources, kind in group.resources.items():
            yield from _resource_paths(able, f"{one}/{resources}", group, kind)


def _resource_paths(
    able: Capabilities, collection: str, group: GroupType, kind: ResourceType
) -> Iterator[tuple[str, Json]]:
    name = name_of(group, kind)
    one = f"{collection}/{{{kind.singular}id}}"
    versions = _target("collection", plural="versions")
    yield _entry(able, collection, _target("collection"), map_of(name))
    yield _entry(able, f"{one}/meta", _target("meta"), reference(f"{name}.meta"))
    yield _entry(able, f"{one}/versions", versions, map_of(f"{name}.version"))
    yield from _versioned_paths(able, one, "resource", reference(name), kind)
    version = f"{one}/versions/{{versionid}}"
    yield from _versioned_paths(able, version, "version", reference(f"{name}.version"), kind)


def _versioned_paths(
    able: Capabilities, path: str, what: TargetKind, shown: Json, kind: ResourceType
) -> Iterator[tuple[str, Json]]:
    """A resource's or version's metadata, and its document where it has one."""
    if kind.hasdocument:
        yield _document_entry(able, path, _target(what, resource_type=kind))
        path = f"{path}$details"
    target = _target(what, details=True, resource_type=kind)
    yield _entry(able, path, target, shown, kind.version_attributes)


def _target(
    kind: TargetKind,
    *,
    plural: str = "",
    details: bool = False,
    resource_type: ResourceType | None = None,
) -> Target:
    """What stands for all paths of a kind."""
    return Target(kind=kind, xid=Xid(), plural=plural, details=details, resource_type=resource_type)


def _entry(
    able: Capabilities,
    path: str,
    target: Target,
    shown: Json,
    settable: Mapping[str, Attribute] | None = None,
) -> tuple[str, Json]:
    """A path that takes and shows metadata."""
    operations = {}
    for method in _methods(target, able):
        is_map_of_maps = method == "POST" and target.kind in ("registry", "group")
        answer = {"type": "object"} if is_map_of_maps else shown
        taken = answer
        if method == "PUT" and settable:
            taken = {"allOf": [shown, {"required": required_of(settable)}]}
        operations[method.lower()] = _operation(
            able, target, method, _content(_JSON, taken), _content(_JSON, answer)
        )
    return path, _path(path, operations)


def _document_entry(able: Capabilities, path: str, target: Target) -> tuple[str, Json]:
    """A path that takes and shows a document, with its metadata in `xRegistry-` headers."""
    operations = {
        method.lower(): _operation(able, target, method, _content("*/*", {}), {})
        for method in _methods(target, able)
    }
    operations["get"]["responses"]["303"] = {"description": "The document is elsewhere."}
    return path, _path(path, operations)


def _methods(target: Target, able: Capabilities) -> Iterator[str]:
    return (method for method in methods_of(target, able) if method in _VERBS)


def _operation(able: Capabilities, target: Target, method: str, taken: Json, shown: Json) -> Json:
    flags = [name for name in _flags_for(target, method) if name in able.flags]
    operation: Json = {
        "summary": f"{_VERBS[method]} the {target.plural or target.kind}.",
        "parameters": [_query(name, _FLAGS[name]) for name in flags],
        "responses": {**_successes(target, method, shown), **_refusals()},
    }
    if method == "GET" and target.kind == "collection" and able.pagination:
        operation["parameters"].append(_query("limit", {"type": "integer", "minimum": 1}))
    if method in ("PUT", "PATCH", "POST"):
        operation["requestBody"] = {"required": True, "content": taken}
    elif method == "DELETE" and target.kind == "collection":
        operation["requestBody"] = {"content": taken}
    return operation


def _flags_for(target: Target, method: str) -> Iterator[str]:
    if method != "DELETE":
        yield from _SHOWING
    elif target.kind != "collection":
        yield "epoch"
    if method in ("GET", "HEAD"):
        yield "filter"
        if target.kind in ("registry", "group"):
            yield "collections"
        if target.kind == "collection":
            yield "sort"
        return
    yield "ignore"
    if target.kind in ("resource", "meta", "version") or target.plural == "versions":
        yield "setdefaultversionid"


def _successes(target: Target, method: str, shown: Json) -> Json:
    done: Json = {"description": "Done.", **({"content": shown} if shown else {})}
    match method:
        case "GET":
            return {"200": done, "304": {"description": "Nothing is new since its ETag."}}
        case "HEAD":
            return {"200": {"description": "Done."}, "304": {"description": "Nothing is new."}}
        case "DELETE":
            return {"204": {"description": "Done."}}
        case "POST" if target.kind != "resource":
            return {"200": done}
        case _:
            return {"200": done, "201": {**done, "description": "Created."}}


def _refusals() -> Json:
    refused = {"$ref": "#/components/responses/Refused"}
    return {"4XX": refused, "5XX": refused}


def _content(media_type: str, schema: Json) -> Json:
    return {media_type: {"schema": schema}}


def _query(name: str, schema: Json) -> Json:
    shown: Json = {"name": name, "in": "query", "schema": schema}
    if schema is _SWITCH:
        shown["allowEmptyValue"] = True
    return shown


def _path(path: str, operations: Json) -> Json:
    names = _PLACEHOLDER.findall(path)
    parameters = [{"name": n, "in": "path", "required": True, "schema": ID} for n in names]
    return {**({"parameters": parameters} if parameters else {}), **operations}
