"""Describes single operations as OpenAPI: bodies, answers and flags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from catalog.api.documents import ASYNCAPI, DOCUMENTS, PATHS
from catalog.api.openapi_positions import position_headers, wait_parameters
from catalog.api.openapi_schemas import Json
from catalog.api.requesttarget import RequestTarget
from catalog.model.capabilities import Capabilities

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
        "parameters": [
            *(_query(name, _FLAGS[name]) for name in flags),
            *wait_parameters(method),
        ],
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
