"""Describes the node to clients as OpenAPI 3.1, from its routes, model and capabilities."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import NullableSchema, WithDefaultSchema

from catalog.api.openapi.entities import (
    JSON_BODY,
    VERBS,
    Json,
    components,
    content,
    documents_at,
    entity_paths,
    path_item,
    position_components,
    position_headers,
    reference,
    refusals,
    wait_parameters,
)
from catalog.api.requesttarget import methods_of_route
from catalog.context import CONTEXT
from catalog.http.problems import problem_of
from catalog.http.responses import json_response
from catalog.http.route import ROUTES, Route
from catalog.load.workthread import in_thread
from catalog.model.capabilities import Capabilities
from catalog.model.configuration import Configuration
from catalog.model.roles import Permission
from catalog.operations.operation import LINES, Operation
from catalog.operations.subscriptions import NewSubscription, SubscriptionAnswer
from catalog.subscriptions.sinks.protocols import PROTOCOLS, DeliveryProtocol, why_missing

_TEMPLATE = "#/components/schemas/{model}"
_LINES: Json = {"type": "string", "description": "Lines of JSON; `x-line-schema` is of each."}
_REFUSED: Mapping[int, str] = {
    400: "The request is not as it is described here, or names what there cannot be.",
    403: "The caller may not do this, or may not grant this there.",
    404: "There is no such thing, or the caller does not see it.",
    409: "The present state does not allow it; the error document says what to do.",
    410: "The log does not go on from the cursor; the error document says what to do.",
    412: "The thing has another tag than the one in If-Match.",
    413: "The body is larger than this node accepts.",
    422: "The other catalog refuses, or does not answer as one.",
    429: "There are too many of these requests; Retry-After says when the next may come.",
    503: "Not now; Retry-After says when.",
}
_LEFT_OUT = frozenset({"title", "description", "default"})


class _WithoutNull(GenerateJsonSchema):
    """Schemas without null, since answers leave out members without a value."""

    def nullable_schema(self, schema: NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)


def has_models(operation: Operation[Any, Any]) -> bool:
    """Whether an operation has models or media types to describe; operations on entities do not."""
    has_content = operation.content.taken or operation.content.answered
    return bool(operation.takes or operation.answers or has_content)


def model_components(routes: Iterable[Route]) -> dict[str, Json]:
    """The schemas of the bodies and answers of the routes, by name."""
    models = dict.fromkeys(_models_of(routes))
    _, found = models_json_schema(
        [(model, "validation") for model in models],
        ref_template=_TEMPLATE,
        schema_generator=_WithoutNull,
    )
    return dict(found.get("$defs", {}))


def _models_of(routes: Iterable[Route]) -> Iterator[type[BaseModel]]:
    for route in routes:
        operation = route.operation
        dry = None if operation.dry is None else operation.dry.answers
        for model in (operation.takes, operation.answers, dry, *operation.content.models):
            if model is not None:
                yield model


def describe_modelled(route: Route) -> Json:
    """Describe an operation with models, or an operation without body and answer."""
    operation, problem = route.operation, content(JSON_BODY, reference("Problem"))
    described: Json = {
        "summary": route.summary,
        "parameters": [*_parameters(operation), *wait_parameters(operation.method)],
        "responses": {
            **_successes(operation),
            **{
                str(status): {"description": _REFUSED[status], "content": problem}
                for status in _refused(operation)
            },
            **refusals(),
        },
    }
    if operation.description:
        described["description"] = operation.description
    if taken := _content(operation.takes, operation.content.taken):
        described["requestBody"] = {"required": not operation.is_optional, "content": taken}
    return described


def _content(model: type[BaseModel] | None, others: Mapping[str, Mapping[str, Any]]) -> Json:
    """The media types and schemas of a body or an answer; for lines, the schema of a line."""
    shown = {} if model is None else content(JSON_BODY, reference(model.__name__))
    for media_type, schema in others.items():
        if media_type == LINES:
            shown[media_type] = {"schema": _LINES, "x-line-schema": schema}
        else:
            shown[media_type] = {"schema": schema}
    return shown


def _successes(operation: Operation[Any, Any]) -> Json:
    done: Json = {"description": "Done."}
    if answered := _content(operation.answers, operation.content.answered):
        done["content"] = answered
    headers = dict(operation.headers)
    if operation.answers and operation.query and "limit" in operation.query.model_fields:
        headers["Link"] = 'The next page, as `rel="next"`'
    if headers:
        done["headers"] = {
            name: {"description": description, "schema": {"type": "string"}}
            for name, description in headers.items()
        }
    others = {
        str(status): {**done, "description": description}
        for status, description in operation.outcomes.items()
    }
    if operation.method == "GET" and operation.is_kept and answered and LINES not in answered:
        others["304"] = {"description": "Nothing is new since its ETag."}
    status = operation.status if answered else HTTPStatus.NO_CONTENT
    found = {str(int(status)): done, **others}
    return found if operation.dry is None else _with_dry_run(found, operation.dry)


def _with_dry_run(found: Json, dry: Operation[Any, Any]) -> Json:
    status, (tried,) = str(dry.status), _successes(dry).values()
    if status not in found:
        return {**found, status: {**tried, "description": "The answer to a dry run."}}
    schemas = [each["content"][JSON_BODY]["schema"] for each in (found[status], tried)]
    return {**found, status: {**found[status], "content": content(JSON_BODY, {"anyOf": schemas})}}


def _refused(operation: Operation[Any, Any]) -> list[int]:
    """The declared statuses of refusals, and the statuses implied by right, path and body."""
    takes = bool(operation.takes or operation.content.taken)
    is_named = "{" in operation.path
    parts = {
        400: takes or operation.query is not None,
        403: isinstance(operation.needs, Permission),
        404: is_named,
        412: operation.conditions,
        413: takes,
    }
    return sorted({*operation.refuses, *(status for status, applies in parts.items() if applies)})


def _parameters(operation: Operation[Any, Any]) -> Iterator[Json]:
    optional = {"If-Match": "The tag that it has to have"} if operation.conditions else {}
    optional.update(operation.given)
    for name, description in {**optional, **operation.requires}.items():
        text: Json = {"type": "string"}
        shown: Json = {"name": name, "in": "header", "description": description, "schema": text}
        yield {**shown, "required": True} if name in operation.requires else shown
    if operation.query is None:
        return
    schema = operation.query.model_json_schema(schema_generator=_WithoutNull)
    for name, found in schema["properties"].items():
        described = {key: value for key, value in found.items() if key not in _LEFT_OUT}
        parameter: Json = {"name": name, "in": "query", "schema": described}
        if "description" in found:
            parameter["description"] = found["description"]
        if name in schema.get("required", ()):
            parameter["required"] = True
        if "" in described.get("enum", ()):
            parameter["allowEmptyValue"] = True
        yield parameter


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
        routes: the routes of every node, whose paths do not depend on the model. An API whose
            errors have a form of its own has its own description.
        base: the URL of the registry.
    """
    routes = [route for route in routes if route.answer_error is problem_of]
    paths = dict(_fixed_paths(routes, configuration.capabilities))
    paths |= dict(entity_paths(configuration))
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
                **components(configuration.model),
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
            yield path, path_item(path, operations)


def _fixed_operation(path: str, route: Route) -> Json:
    method = route.operation.method
    has_plain_data = method == "GET" or _writes_entities(route.operation)
    if has_models(route.operation) or not has_plain_data:
        return describe_modelled(route)
    headers = position_headers(method) if _writes_entities(route.operation) else {}
    done: Json = {"description": "Done.", **headers}
    if documents := documents_at(path):
        done["content"] = {**content(JSON_BODY, {"type": "object"}), **documents}
    operation: Json = {"summary": route.summary, "responses": {"2XX": done, **refusals()}}
    if parameters := wait_parameters(method):
        operation["parameters"] = parameters
    if method in ("PUT", "PATCH", "POST"):
        operation["requestBody"] = {"content": content(JSON_BODY, {})}
    return operation


def _writes_entities(operation: Operation[Any, Any]) -> bool:
    """Whether an operation changes entities or the model, so that its answer has a position."""
    return operation.needs is Permission.WRITE or operation.capability is not None


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
        "installed": not missing,
        "schemes": list(protocol.schemes[name]),
    }
    return {
        **schema,
        "title": f"{name} settings",
        "description": inspect.cleandoc(schema["description"]),
        "x-delivery-protocol": about if missing is None else {**about, "missing": missing},
    }
