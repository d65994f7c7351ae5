"""Says whether a message conforms to its definition: `POST /validate/<xid of the definition>`."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from catalog.api.body import parse_json, read_body
from catalog.api.definitions import Reader, Schema
from catalog.api.paths import parse_path
from catalog.api.responses import json_response
from catalog.api.stream import in_bounded_time
from catalog.context import CONTEXT, Context
from catalog.formats import UnusableSchema, is_supported
from catalog.messages import (
    Definition,
    Findings,
    Message,
    check_metadata,
    is_binary_event,
    read_binary_event,
    read_json_message,
)
from catalog.model.errors import MissingBody, NotFound
from catalog.model.ownerrors import UnsupportedMediaType
from catalog.model.schema import Model
from catalog.model.xid import Xid

_ROOT = "/validate"
_EVENT = "application/cloudevents+json"

routes = web.RouteTableDef()


@routes.post(f"{_ROOT}/messagegroups/{{messagegroupid}}/messages/{{messageid}}")
@routes.post(
    f"{_ROOT}/messagegroups/{{messagegroupid}}/messages/{{messageid}}/versions/{{versionid}}"
)
@routes.post(f"{_ROOT}/endpoints/{{endpointid}}/messages/{{messageid}}")
@routes.post(f"{_ROOT}/endpoints/{{endpointid}}/messages/{{messageid}}/versions/{{versionid}}")
async def post_message(request: web.Request) -> web.Response:
    """Check a message against its definition; both a yes and a no are answered with 200."""
    context = request.app[CONTEXT]
    async with in_bounded_time(request, context.settings.request_timeout_seconds):
        xid = _target(request, context.model)
        body = await read_body(request)
        inherited = Findings()
        async with context.database.snapshot() as connection:
            bases = [context.base_url(request), context.public_base]
            reader = Reader(connection=connection, model=context.model, bases=bases)
            definition, used = await reader.definition(xid, inherited)
            schema = await reader.schema(definition, inherited)
        message = _read_message(request, body, definition)
        findings = check_metadata(message, definition)
        findings.unchecked[:0] = inherited.unchecked
        if schema is not None and not findings.is_full:
            await _check_payload(context, message, definition, schema, findings)
        return json_response(_answer(used, findings))


def _target(request: web.Request, model: Model) -> Xid:
    """The definition's xid.

    Raises:
        NotFound: the model has no such type.
        MalformedId
    """
    groups, resources = request.path.split("/")[2:5:2]
    if model.resource_type(groups, resources) is None:
        raise NotFound(request.path)
    return parse_path(request.rel_url.raw_path.removeprefix(_ROOT), model).xid


def _read_message(request: web.Request, body: bytes, definition: Definition) -> Message:
    """The message that a request is (binary mode) or has (JSON).

    Raises:
        MissingBody
        ParsingData: it is no message.
        UnsupportedMediaType
    """
    media_type = request.content_type.lower()
    if media_type != _EVENT and is_binary_event(request.headers):
        return read_binary_event(request.headers.items(), body)
    if not body:
        raise MissingBody(request.path)
    if media_type not in (_EVENT, "application/json", "application/octet-stream", "text/plain"):
        raise UnsupportedMediaType(request.path, contenttype=media_type)
    value = parse_json(body, request.app[CONTEXT].settings.max_depth)
    return read_json_message(value, definition.protocol)


async def _check_payload(
    context: Context,
    message: Message,
    definition: Definition,
    schema: Schema,
    findings: Findings,
) -> None:
    """Hold the payload against its schema. A message without one cannot conform to it."""
    data = message.data
    if not is_supported(schema.format):
        findings.leave("dataschema", f"the format {schema.format or 'unknown'} is not checked here")
    elif data is None:
        findings.object("", "payload", "it has no payload, which the definition describes")
    else:
        contenttype = data.contenttype or _implied(definition, data.content)
        payload = data.encoded(contenttype)
        try:
            fault = await context.checker.conform(
                schema.format, schema.document, payload, contenttype, schema.part
            )
        except UnusableSchema as error:
            findings.leave("dataschema", f"the schema cannot be used: {error}")
            return
        if fault:
            findings.object(data.pointer, "payload", fault)


def _implied(definition: Definition, content: Any) -> str:
    """What a payload is whose message does not say so."""
    if definition.datacontenttype and not definition.datacontenttype.lower().startswith(
        "application/cloudevents"
    ):
        return definition.datacontenttype
    return "" if isinstance(content, str | bytes) else "application/json"


def _answer(used: str, findings: Findings) -> dict[str, Any]:
    return {
        "valid": not findings.violations,
        "definition": used,
        "violations": [
            {"pointer": one.pointer, "rule": one.rule, "detail": one.detail}
            for one in findings.violations
        ],
        "unchecked": [
            {
                "part": one.part,
                "reason": one.reason,
                **({"uri": one.uri} if one.uri else {}),
            }
            for one in findings.unchecked
        ],
    }
