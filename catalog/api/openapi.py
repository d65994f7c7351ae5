"""Describes the node to clients as OpenAPI 3.1, from its routes, model and capabilities."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiohttp import web

from catalog.api import openapi_schemas as schemas
from catalog.api.openapi_models import describe_modelled, has_models, model_components
from catalog.api.openapi_operations import (
    JSON_BODY,
    VERBS,
    content,
    documents_at,
    operation_on,
    refusals,
)
from catalog.api.openapi_positions import position_components, position_headers, wait_parameters
from catalog.api.openapi_schemas import Json, map_of, reference
from catalog.api.requesttarget import RequestTarget, TargetKind, methods_of, methods_of_route
from catalog.context import CONTEXT
from catalog.http.responses import json_response
from catalog.http.route import ROUTES, Route
from catalog.load.longwork import in_thread
from catalog.model.capabilities import Capabilities
from catalog.model.configuration import Configuration
from catalog.model.roles import Permission
from catalog.model.schema import Attribute, GroupType, ResourceType
from catalog.model.xid import Xid
from catalog.operations.operation import Operation
from catalog.operations.subscriptions import NewSubscription, SubscriptionAnswer
from catalog.subscriptions.sinks.protocol import DeliveryProtocol
from catalog.subscriptions.sinks.protocols import PROTOCOLS, why_missing

_WORD = re.compile(r"\w+")
_PLACEHOLDER = re.compile(r"{(\w+)}")
_IN_PATH: Mapping[str, Json] = {"number": {"type": "integer", "minimum": 1}}
# The targets in this module represent every path of a kind.
_ANY = Xid()


async def get_openapi(request: web.Request) -> web.Response:
    """Answer with this description of the node."""
    context = request[CONTEXT]
    base = context.base_url(request)
    document = await in_thread(describe, context.configuration, request.app[ROUTES], base)
    return json_response(document)


def describe(configuration: Configuration, routes: Sequence[Route], base: str) -> Json:
    """Describe a node.

    Args:
        configuration: the model, with the paths and schemas of entities, and the capabilities, with
            the flags.
        routes: the routes of every node, whose paths do not depend on the model.
        base: the URL of the registry.
    """
    paths = dict(_fixed_paths(routes, configuration.capabilities))
    paths |= dict(_entity_paths(configuration))
    models = model_components(routes)
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
            "schemas": {
                **schemas.components(configuration.model),
                **models,
                **_name_protocols(models),
            },
            "responses": {
                "Refused": {
                    "description": "Refused; the error document says why.",
                    "content": content(JSON_BODY, reference("Problem")),
                }
            },
            **position_components(),
        },
    }


def _fixed_paths(routes: Sequence[Route], able: Capabilities) -> Iterator[tuple[str, Json]]:
    """The paths of the routes, which do not depend on the model."""
    by_path: dict[str, list[Route]] = {}
    for route in routes:
        by_path.setdefault(route.operation.template, []).append(route)
    of_handler = Counter(route.name for route in routes)
    for path, found in by_path.items():
        capability = found[0].operation.capability
        allowed = methods_of_route(capability, {each.operation.method for each in found}, able)
        operations = {
            each.operation.method.lower(): {
                **({"operationId": each.name} if of_handler[each.name] == 1 else {}),
                **_fixed_operation(path, each),
            }
            for each in found
            if each.operation.method in allowed and each.operation.method in VERBS
        }
        if operations:
            yield path, _path(path, operations)


def _fixed_operation(path: str, route: Route) -> Json:
    method = route.operation.method
    has_plain_data = method == "GET" or _writes_entities(route.operation)
    if has_models(route.operation) or not has_plain_data:
        return describe_modelled(route)
    headers = position_headers(method) if _writes_entities(route.operation) else {}
    done: Json = {"description": "Done.", **headers}
    if documents := documents_at(path):
        done["content"] = {**content(JSON_BODY, {"type": "object"}), **documents}
    operation: Json = {
        "summary": route.summary,
        "responses": {"2XX": done, **refusals()},
    }
    if parameters := wait_parameters(method):
        operation["parameters"] = parameters
    if method in ("PUT", "PATCH", "POST"):
        operation["requestBody"] = {"content": content(JSON_BODY, {})}
    return operation


def _operation_id(method: str, path: str) -> str:
    """The id of an operation whose handler serves several operations."""
    words = _WORD.findall(path) or ["registry"]
    # Two drafts have the same path, one with and one without a final slash.
    ending = ["slash"] if path != "/" and path.endswith("/") else []
    return "_".join([method, *words, *ending])


def _writes_entities(operation: Operation[Any, Any]) -> bool:
    """Whether an operation changes entities or the model, so that its answer has a position."""
    return operation.needs is Permission.WRITE or operation.capability is not None


def _entity_paths(configuration: Configuration) -> Iterator[tuple[str, Json]]:
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
    name = schemas.name_of(group, kind)
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
            taken = {"allOf": [shown, {"required": schemas.required_of(settable)}]}
        operations[method.lower()] = operation_on(
            able,
            target,
            method,
            taken={**content(JSON_BODY, taken), **documents},
            shown={**content(JSON_BODY, answer), **documents},
        )
    return path, _path(path, operations)


def _document_entry(able: Capabilities, path: str, target: RequestTarget) -> tuple[str, Json]:
    """Describe a path of documents, with metadata in `xRegistry-` headers."""
    operations = {
        method.lower(): operation_on(able, target, method, taken=content("*/*", {}), shown={})
        for method in _methods(target, able)
    }
    operations["get"]["responses"]["303"] = {"description": "The document is elsewhere."}
    return path, _path(path, operations)


def _methods(target: RequestTarget, able: Capabilities) -> Iterator[str]:
    return (method for method in methods_of(target, able) if method in VERBS)


def _path(path: str, operations: Json) -> Json:
    names = _PLACEHOLDER.findall(path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _IN_PATH.get(name, schemas.ID)}
        for name in names
    ]
    named = {
        method: {"operationId": _operation_id(method, path), **operation}
        for method, operation in operations.items()
    }
    return {**({"parameters": parameters} if parameters else {}), **named}


def _name_protocols(models: Mapping[str, Json]) -> dict[str, Json]:
    """Add the delivery protocols and references to their settings to the schemas of subscriptions.

    The member `x-delivery-protocol` of a schema of settings says whether the protocol is installed
    on the node, how to install a missing protocol, and the schemes of its URLs.

    Returns:
        the schemas of the settings.
    """
    for model in (NewSubscription, SubscriptionAnswer):
        if (found := models.get(model.__name__)) is not None:
            members = found["properties"]
            members["protocol"]["enum"] = [*PROTOCOLS]
            members["protocolsettings"] = {
                "anyOf": [reference(_name_of(each)) for each in PROTOCOLS]
            }
    return {_name_of(name): _settings_of(name, protocol) for name, protocol in PROTOCOLS.items()}


def _name_of(protocol: str) -> str:
    return f"protocolsettings.{protocol}"


def _settings_of(name: str, protocol: DeliveryProtocol) -> Json:
    schema = protocol.settings.model_json_schema()
    missing = why_missing(protocol)
    about: Json = {
        "name": name,
        "installed": missing is None,
        "schemes": list(protocol.schemes[name]),
    }
    return {
        **schema,
        "title": f"{name} settings",
        "description": inspect.cleandoc(schema["description"]),
        "x-delivery-protocol": about if missing is None else {**about, "missing": missing},
    }
