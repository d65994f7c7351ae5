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
from functools import partial
from typing import Any
from urllib.parse import unquote

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from multidict import istr
from structlog.contextvars import bind_contextvars, clear_contextvars

from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import IDENTITY, Identity, demand
from catalog.access.ratelimits import RATE_HEADERS, RATE_LIMITS, key_of
from catalog.audit.audittrail import author_of, note_refusal
from catalog.context import CLIENT, CONTEXT, SHARED, Context, SharedState
from catalog.http.body import release_body
from catalog.http.clientconnections import ClientConnection, client_address, source_of
from catalog.http.conditions import NEVER_KEPT, answer_conditionally
from catalog.http.flags import Flags
from catalog.http.positionwait import READ_AS_OF, wait_for_positions
from catalog.http.problems import PROBLEM, cut_short, has_begun, point_to_authority
from catalog.http.requestchecks import (
    SHOWN_ONLY,
    TLS_ONLY,
    check_characters,
    check_host,
    check_origin,
    share_with_origins,
)
from catalog.http.responses import MORE_HEADERS, POSITION, leave_untyped
from catalog.http.route import Route
from catalog.load.workthread import begin_work
from catalog.model import errors
from catalog.model.caller import EVERYTHING, Author, Caller
from catalog.model.capabilities import Capabilities
from catalog.model.concorderrors import TooManyAttempts, Unauthenticated
from catalog.model.roles import Permission
from catalog.model.tracecontext import TRACEPARENT, TRACESTATE, TraceContext, current_trace
from catalog.operations.operation import READING, Anyone, Need, Operation
from catalog.store.connections import StatementsOutdated
from catalog.store.locks import ConfigurationChanged
from catalog.telemetry.tracing import Span

REQUEST_HEADER = istr("X-Request-ID")
_SHOWN_ONLY = [(istr(name), value) for name, value in SHOWN_ONLY.items()]
REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
_NODE = partial(Author, kind="node")
# The right that the operation of a request needs.
_NEED: web.RequestKey[Need] = web.RequestKey("need")
_ENCODED_SLASH = "%2f"
_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.\d{1,9})?(-[0-9a-z.-]{1,64})?", re.ASCII)
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
            began, status = time.monotonic(), 0  # 0 stays if the request is broken off.
            span = self._begin(request, label, is_traced=is_traced)
            try:
                response = await self._answer(request, route)
                status = response.status
                return response
            finally:
                if span is not None:
                    if status:
                        span.note({"http.response.status_code": status})
                    span.end("" if 0 < status < 500 else str(status) if status else _BROKEN_OFF)
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
        parents, states = (request.headers.getall(n, ()) for n in (TRACEPARENT, TRACESTATE))
        parent = TraceContext.parse(parents[0], ",".join(states)) if len(parents) == 1 else None
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
            is_read, operation = request.method in _READS, route.operation
            if not operation.is_kept or (operation.answers is not None and not is_read):
                response.headers[hdrs.CACHE_CONTROL] = NEVER_KEPT
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
        raise errors.ServerBusy(request.path, detail="The configuration is changing all the time.")

    async def _refused(self, request: web.Request, route: Route, error: Exception) -> web.Response:
        if isinstance(error, errors.XRegistryError):
            note_refusal(request, error)
            if CONTEXT in request:
                await point_to_authority(request[CONTEXT], error)
        response = route.answer_error(request, error)
        self._shared.metrics.problems.labels(response[PROBLEM]).inc()
        return response


def method_of(request: web.Request) -> str:
    """The method if HTTP defines the method, else "other": clients may invent methods."""
    return request.method if request.method in _METHODS else "other"


async def admit(request: web.Request, operation: Operation[Any, Any]) -> None:
    """Let a request pass if the caller has the right that the operation needs.

    A credential in the request has to be valid even if no credential is needed, except for
    operations that do not ask.

    Raises:
        XRegistryError: the request is refused.
    """
    need = operation.needs
    if request.method == hdrs.METH_OPTIONS:
        # OPTIONS only lists methods, and browsers send OPTIONS without a credential (Fetch, 4.8).
        need = Anyone.UNASKED
    request[_NEED] = need
    identity = await _identify(request, operation, need)
    shared = request.app[SHARED]
    context = request[CONTEXT] = shared.for_caller(_caller_of(request, identity))
    check_host(request, context)
    check_characters(request)
    check_origin(request, context)
    if not operation.has_slashes:
        _check_segments(request.rel_url.raw_path)
    # After the checks, so that a refused request never waits.
    await shared.catch_up()
    await wait_for_positions(request)


async def renew(request: web.Request) -> Context:
    """Identify the caller of a long request again, by the credential, the roles and the rules.

    Returns:
        the context of the caller from now on, which also replaces the context of the request.

    Raises:
        Unauthenticated: the credential is no longer valid.
        Forbidden: the caller no longer has the right.
    """
    authentication, context = request.app[AUTHENTICATION], request[CONTEXT]
    if not authentication.is_open and request[_NEED] is not Anyone.UNASKED:
        identity = await authentication.identify(request)
        identity = await _permitted(request, identity, request[_NEED])
        context = request[CONTEXT] = context.shared.for_caller(_caller_of(request, identity))
    return context


def _caller_of(request: web.Request, identity: Identity | None) -> Caller:
    """The caller for whom a request is answered.

    Args:
        identity: `None` if the operation does not ask for a caller, and answers everybody alike.
    """
    return Caller(
        sees=EVERYTHING if identity is None else identity.visibility,
        writes=EVERYTHING if identity is None else identity.scope_of(Permission.WRITE),
        client=request[CLIENT],
        # The node itself is the author of data that it stores while answering a read.
        make_author=_NODE if request.method in READING else partial(author_of, request),
    )


async def _identify(
    request: web.Request, operation: Operation[Any, Any], need: Need
) -> Identity | None:
    """The caller of a request, who has the right; `None` if the operation does not ask.

    From here on, the work of a known caller counts for the caller, whatever the address.
    """
    authentication, rates = request.app[AUTHENTICATION], request.app[RATE_LIMITS]
    if authentication.is_open or need is Anyone.UNASKED:
        if operation.is_counted:
            rates.take(request, request[CLIENT], None)
        return None
    try:
        identity = await authentication.identify(request)
    # Without a known caller, the request counts towards the rate of the address.
    except (TooManyAttempts, Unauthenticated):
        rates.take(request, request[CLIENT], None)
        raise
    if identity.kind != "anonymous":
        request[CLIENT] = client = key_of(identity)
        begin_work(client)
    rates.take(request, request[CLIENT], identity)
    return await _permitted(request, identity, need)


async def _permitted(request: web.Request, identity: Identity, need: Need) -> Identity:
    if need not in identity.permissions:
        identity = await request.app[AUTHENTICATION].with_rules(identity)
    request[IDENTITY] = identity
    if not isinstance(need, Anyone):
        demand(request, need)
    return identity


def check_capabilities(
    request: web.Request, operation: Operation[Any, Any], able: Capabilities
) -> None:
    """Refuse a request that the capabilities in force do not offer.

    Raises:
        UnsupportedSpecVersion, NotAvailable, ActionNotSupported
    """
    if request.query_string:
        _check_specversion(request, able)
    name = operation.capability
    if name is None or request.method == hdrs.METH_OPTIONS:
        return
    if name not in able.available:
        raise errors.NotAvailable(name)
    if request.method in (hdrs.METH_PUT, hdrs.METH_PATCH) and not able.is_mutable(name):
        raise errors.ActionNotSupported(request.path, action=request.method, allow=READING)


def _check_segments(path: str) -> None:
    """Refuse paths with an empty segment, or with an encoded slash in a segment."""
    if "//" not in path and _ENCODED_SLASH not in path.lower():
        return
    for segment in path.removeprefix("/").removesuffix("/").split("/"):
        id = unquote(segment)
        if not id or "/" in id:
            fault = "it holds a slash" if id else "a segment of the path is empty"
            raise errors.MalformedId(unquote(path), id=id, error_detail=fault)


def _check_specversion(request: web.Request, capabilities: Capabilities) -> None:
    """Check the `specversion` flag (core/spec.md, "SpecVersion Flag")."""
    given = Flags(request, capabilities).value("specversion")
    if given is None:
        return
    known = capabilities.specversions
    version = _comparable(given)
    if version is None or version not in map(_comparable, known):
        raise errors.UnsupportedSpecVersion(request.path, specversion=given, list=",".join(known))


def _comparable(version: str) -> tuple[int, int, str] | None:
    """A version without the patch number, which makes no difference, and with the suffix."""
    found = _VERSION.fullmatch(version.strip().lower())
    return (int(found[1]), int(found[2]), found[3] or "") if found else None


async def finish(request: web.Request, response: web.StreamResponse) -> None:
    """Complete the headers of an answer, which aiohttp is about to send."""
    shared, headers = request.app[SHARED], response.headers
    # Asking the request for a missing key costs an exception.
    noted = {*request}
    # core/http.md, "xRegistry Root HTTP Header"
    headers.add(hdrs.LINK, f"<{shared.base_url(request)}>;rel=xregistry-root")
    leave_untyped(response)
    if REQUEST_ID in noted:
        headers[REQUEST_HEADER] = request[REQUEST_ID]
    if MORE_HEADERS in noted:
        headers.update(request[MORE_HEADERS])
    if READ_AS_OF in noted:
        headers[POSITION] = request[READ_AS_OF]
    if RATE_HEADERS in noted:
        headers.update(request[RATE_HEADERS])
    if IDENTITY in noted:
        _keep_private(request[IDENTITY], response)
    for name, value in _SHOWN_ONLY:
        headers.setdefault(name, value)
    # A proxy that ends TLS adds the header itself.
    if request.secure:
        headers.setdefault(*TLS_ONLY)
    share_with_origins(request, response, shared.settings.cors_origins)
    if not request.content.is_eof():
        # The rest of a refused body is not read, so that no request can follow on the connection.
        headers[hdrs.CONNECTION] = "close"
        response.force_close()


def _keep_private(identity: Identity, response: web.StreamResponse) -> None:
    """Let a shared cache keep only answers to requests without a credential.

    `Vary` keeps a cached answer from requests with a credential (RFC 9110, 12.5.5).
    """
    headers = response.headers
    headers.add(hdrs.VARY, hdrs.AUTHORIZATION)
    rule = headers.get(hdrs.CACHE_CONTROL)
    if identity.kind != "anonymous" and rule != NEVER_KEPT:
        headers[hdrs.CACHE_CONTROL] = "private" if rule is None else f"private, {rule}"
