"""Gives each request an id and its part in a trace, which log, spans and the answer tell."""

from __future__ import annotations

import random
import re

from aiohttp import web
from aiohttp.typedefs import Handler

from catalog.context import CONTEXT
from catalog.http.requestmetrics import method_of, route_of
from catalog.model.logfields import begin_log_fields
from catalog.model.tracecontext import TRACEPARENT, TRACESTATE, TraceContext, current_trace
from catalog.tracing import Tracing

REQUEST_ID = "X-Request-ID"
_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
_SANE = re.compile(r"[A-Za-z0-9\-._~:/+=@]{1,128}")
# What watches a node would be most of what its traces tell.
_UNTRACED = ("/metrics", "/health/")
_LONGEST_PATH = 256


@web.middleware
async def correlating_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let all that is done for a request tell its id and its trace."""
    given = request.headers.get(REQUEST_ID)
    id = given if given is not None and _SANE.fullmatch(given) else f"{random.getrandbits(64):016x}"
    request[_ID] = id
    begin_log_fields(request=id)
    parent = _trace_of(request) if TRACEPARENT in request.headers else None
    tracing = request.app[CONTEXT].tracing
    if not tracing.is_told or request.path.startswith(_UNTRACED):
        current_trace.set(parent)
        return await handler(request)
    return await _traced(request, handler, parent, tracing)


def show_request_id(request: web.Request, response: web.StreamResponse) -> None:
    """Tell the client the id by which the log names its request."""
    if (id := request.get(_ID)) is not None:
        response.headers[REQUEST_ID] = id


def _trace_of(request: web.Request) -> TraceContext | None:
    parents = request.headers.getall(TRACEPARENT)
    if len(parents) > 1:
        return None
    return TraceContext.parse(parents[0], ",".join(request.headers.getall(TRACESTATE, ())))


async def _traced(
    request: web.Request, handler: Handler, parent: TraceContext | None, tracing: Tracing
) -> web.StreamResponse:
    method = method_of(request)
    span = tracing.begin(
        f"{method} {route_of(request)}",
        parent,
        kind="server",
        attributes={
            "http.request.method": method,
            "http.route": route_of(request),
            "url.path": request.path[:_LONGEST_PATH],
            "concord.request": request[_ID],
        },
    )
    current_trace.set(span.context)
    error = "broken off"
    try:
        response = await handler(request)
        span.note({"http.response.status_code": response.status})
        error = str(response.status) if response.status >= 500 else ""
        return response
    finally:
        span.end(error)
