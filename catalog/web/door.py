"""The way of every request: admission, handling, and the end of the answer.

`Door.handler_of` makes once the decisions that depend on the route alone. Each request then passes
in order:

1. an id for the log, the trace, and the clock of the metrics;
2. `admit`: the caller, the caller's rate and right, the host, the origin and the path;
3. the handler, within the operation's time; again, if the configuration was replaced meanwhile;
4. after an error in a step: the audit records a refusal, and the error becomes a problem
   document;
5. `finish`, before the first byte is sent.
"""

from __future__ import annotations

import random
import re
import time

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from structlog.contextvars import bind_contextvars, clear_contextvars

from catalog.audit.audittrail import note_refusal
from catalog.context import CLIENT, CONTEXT, SharedState
from catalog.http.body import release_body
from catalog.http.clientconnections import ClientConnection, client_address, source_of
from catalog.http.conditions import NEVER_KEPT, answer_conditionally
from catalog.http.problems import PROBLEM, cut_short, has_begun, point_to_authority
from catalog.http.route import Route
from catalog.load.longwork import begin_work
from catalog.model.errors import ServerBusy, XRegistryError
from catalog.model.tracecontext import TRACEPARENT, TRACESTATE, TraceContext, current_trace
from catalog.store.connections import StatementsOutdated
from catalog.store.locks import ConfigurationChanged
from catalog.telemetry.tracing import Span
from catalog.web.admit import admit, check_capabilities
from catalog.web.finish import REQUEST_HEADER, REQUEST_ID

_METHODS = hdrs.METH_ALL - {"*"}
_SANE_ID = re.compile(r"[A-Za-z0-9\-._~:/+=@]{1,128}")
# Probes and metrics would be most of the spans of a node.
_UNTRACED = ("/metrics", "/health/")
_LONGEST_PATH = 256
_MOST_ATTEMPTS = 3
_BROKEN_OFF = "broken off"
_READS = (hdrs.METH_GET, hdrs.METH_HEAD)


class Door:
    """Leads the requests of a node to the handlers of its operations."""

    def __init__(self, shared: SharedState) -> None:
        self._shared = shared

    def handler_of(self, route: Route) -> Handler:
        """The handler of a route for aiohttp."""
        metrics, label = self._shared.metrics, route.operation.template
        is_traced = not route.operation.path.startswith(_UNTRACED)

        async def handle(request: web.Request) -> web.StreamResponse:
            began, status = time.monotonic(), 0
            span = self._begin(request, label, is_traced=is_traced)
            try:
                response = await self._answer(request, route)
                status = response.status
                return response
            finally:
                _end(span, status)
                seconds = time.monotonic() - began
                told = str(status) if status else _BROKEN_OFF
                metrics.observe_request(label, method_of(request), told, seconds)

        return handle

    def _begin(self, request: web.Request, label: str, *, is_traced: bool) -> Span | None:
        """Set the id and the trace under which the work on a request is logged and traced."""
        if isinstance(request.protocol, ClientConnection):
            request.protocol.begin_request()
        given = request.headers.get(REQUEST_HEADER)
        is_sane = given is not None and _SANE_ID.fullmatch(given)
        id = given if given is not None and is_sane else f"{random.getrandbits(64):016x}"
        request[REQUEST_ID] = id
        # The requests of a connection share a task, and with the task the context variables.
        clear_contextvars()
        bind_contextvars(request=id)
        parent = _trace_of(request) if TRACEPARENT in request.headers else None
        tracing = self._shared.tracing
        if not (tracing.is_told and is_traced):
            current_trace.set(parent)
            return None
        method = method_of(request)
        attributes = {
            "http.request.method": method,
            "http.route": label,
            "url.path": request.path[:_LONGEST_PATH],
            "concord.request": id,
        }
        span = tracing.begin(f"{method} {label}", parent, kind="server", attributes=attributes)
        current_trace.set(span.context)
        return span

    async def _answer(self, request: web.Request, route: Route) -> web.StreamResponse:
        """Answer a request, or an error; the connection is cut if an answer has begun."""
        request[CLIENT] = client = source_of(client_address(request))
        begin_work(client)
        try:
            await admit(request, route.operation)
            response = await self._handled(request, route)
            if response.prepared:
                return response
            if not route.operation.is_kept:
                response.headers[hdrs.CACHE_CONTROL] = NEVER_KEPT
            is_read = request.method in _READS
            return answer_conditionally(request, response) if is_read else response
        except BaseException as error:
            # The headers have been sent, so that no problem document can tell the client of the
            # error.
            if has_begun(request):
                cut_short(request, error)
                raise
            if not isinstance(error, Exception):
                raise
            return await self._refused(request, route, error)
        finally:
            # A connection keeps the last request, and would keep the body in memory.
            release_body(request)

    async def _handled(self, request: web.Request, route: Route) -> web.StreamResponse:
        """Handle a request, and repeat after a change of the configuration or of a table.

        The configuration can be replaced before the write of the request, and a different version
        of Concord can change a table.
        """
        shared = self._shared
        for _ in range(_MOST_ATTEMPTS):
            try:
                # In each attempt, as the new configuration may offer less.
                check_capabilities(request, route.operation, shared.configuration.capabilities)
                return await route.answer(request, shared.settings)
            except ConfigurationChanged:
                await shared.reload()
            except StatementsOutdated:
                # A repetition after a commit could write twice.
                if request[CONTEXT].database.has_committed:
                    raise
        raise ServerBusy(request.path, detail="The configuration is changing all the time.")

    async def _refused(self, request: web.Request, route: Route, error: Exception) -> web.Response:
        if isinstance(error, XRegistryError):
            note_refusal(request, error)
            if CONTEXT in request:
                await point_to_authority(request[CONTEXT], error)
        response = route.answer_error(request, error)
        self._shared.metrics.problems.labels(response[PROBLEM]).inc()
        return response


def _end(span: Span | None, status: int) -> None:
    """End the span of a request; the status is 0 if the request was broken off."""
    if span is None:
        return
    if status:
        span.note({"http.response.status_code": status})
    span.end("" if 0 < status < 500 else str(status) if status else _BROKEN_OFF)


def method_of(request: web.Request) -> str:
    """The method if HTTP defines the method, else "other": clients may invent methods."""
    return request.method if request.method in _METHODS else "other"


def _trace_of(request: web.Request) -> TraceContext | None:
    parents = request.headers.getall(TRACEPARENT)
    if len(parents) > 1:
        return None
    return TraceContext.parse(parents[0], ",".join(request.headers.getall(TRACESTATE, ())))
