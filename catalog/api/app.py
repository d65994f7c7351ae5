"""Assembles the HTTP application of a node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from aiohttp import hdrs, web

from catalog.access.authentication import AUTHENTICATION, Authentication
from catalog.access.ratelimits import RATE_LIMITS, RateLimits
from catalog.api.answercache import ANSWERS, AnswerCache, default_bytes
from catalog.api.requesttarget import answer_options, methods_of_route
from catalog.api.routes import entity_routes
from catalog.api.routes import routes as native_routes
from catalog.audit.audittrail import note_last_refused
from catalog.context import CONTEXT, SHARED, SharedState
from catalog.http.background import BACKGROUND_TASKS, BackgroundTasks
from catalog.http.body import BODY_MEMORY, BodyMemory
from catalog.http.clientconnections import protocol_options
from catalog.http.positionwait import LINK_WAITS, LinkWaits
from catalog.http.route import ROUTES, Route
from catalog.http.stream import RENEW, add_stream_shares
from catalog.http.usage import tell_usage
from catalog.model.errors import ActionNotSupported
from catalog.operations.operation import ANY_METHOD, READING, Operation
from catalog.subscriptions.consents import CALLBACK_RATE, callback_rate
from catalog.web.admit import renew
from catalog.web.door import Door
from catalog.web.finish import finish


def create_app(shared: SharedState, routes: Iterable[Route] = ()) -> web.Application:
    """Build the application: the native API, and further routes at its root.

    Args:
        shared: the state that requests share.
        routes: the routes of the dialects and of replication.
    """
    app = web.Application(handler_args=protocol_options(shared.settings))
    app[SHARED] = shared
    app[RENEW] = renew
    app[CALLBACK_RATE] = callback_rate()
    app[BODY_MEMORY] = BodyMemory(shared.settings)
    add_stream_shares(app, shared.settings)
    app[LINK_WAITS] = LinkWaits(shared.database)
    app[ANSWERS] = AnswerCache(
        shared.database,
        most_bytes=shared.settings.cache_bytes or default_bytes(),
        staleness_seconds=shared.settings.staleness_seconds,
    )
    app[ANSWERS].tell_in(shared.metrics)
    tell_usage(app, shared)
    app[BACKGROUND_TASKS] = background = BackgroundTasks()
    app.on_shutdown.append(background.end)
    app.on_shutdown.append(_end_waits)
    app.on_cleanup.append(note_last_refused)
    app[AUTHENTICATION] = Authentication(shared.settings, shared.database, background.begin)
    app[RATE_LIMITS] = RateLimits(shared.settings)
    app[ROUTES] = all_routes(routes)
    door = Door(shared)
    for route in app[ROUTES]:
        operation, handler = route.operation, door.handler_of(route)
        app.router.add_route(operation.method, operation.path, handler)
        if operation.method == hdrs.METH_GET and operation.has_head:
            app.router.add_route(hdrs.METH_HEAD, operation.path, handler)
    app.on_response_prepare.append(finish)
    return app


async def _end_waits(app: web.Application) -> None:
    """Answer the requests that wait for writes, so that the node can stop at once."""
    app[SHARED].database.signal.end()


def all_routes(routes: Iterable[Route]) -> list[Route]:
    """The routes of a node: native routes, further routes at the root, and routes of entities."""
    # The patterns of entity paths match every path, so their routes come last.
    return [*_with_refusals([*native_routes, *routes]), *entity_routes]


def _with_refusals(routes: Iterable[Route]) -> Iterator[Route]:
    """The routes, grouped by path, each path with a refusal of the remaining methods."""
    by_path = defaultdict(list)
    for route in routes:
        by_path[route.operation.path].append(route)
    for found in by_path.values():
        yield from found
        yield _refusal_beside([route.operation for route in found])


def _refusal_beside(operations: Sequence[Operation[Any, Any]]) -> Route:
    """The route of the remaining methods of a fixed path, which the entity routes would match.

    Needs the right of the writes at the path, if the path has writes, so that a refusal reveals no
    more than a write does.
    """
    # The minimum is a write if the path has one, since False sorts before True.
    known = min(operations, key=lambda operation: operation.method in READING)
    defined = {operation.method for operation in operations}
    if any(operation.has_head for operation in operations if operation.method == hdrs.METH_GET):
        defined.add(hdrs.METH_HEAD)

    async def refuse(request: web.Request) -> web.StreamResponse:
        able = request[CONTEXT].capabilities
        allow = methods_of_route(known.capability, defined, able)
        if request.method == hdrs.METH_OPTIONS:
            return answer_options(allow)
        raise ActionNotSupported(request.path, action=request.method, allow=allow)

    other = Operation(
        method=ANY_METHOD, path=known.path, needs=known.needs, capability=known.capability
    )
    return Route(other, refuse)
