"""Assembles the HTTP application of a node, with the routes of the native API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from catalog.access.administration import routes as access
from catalog.access.authentication import AUTHENTICATION, Authentication
from catalog.access.ratelimits import RATE_LIMITS, RateLimits
from catalog.access.requestedroles import routes as access_requests
from catalog.api import configuration
from catalog.api.answercache import ANSWERS, AnswerCache, default_bytes
from catalog.api.apply import get_apply, post_apply
from catalog.api.changes import routes as changes
from catalog.api.diff import routes as diff
from catalog.api.entitywrite import handle_entity, redirect
from catalog.api.openapi.description import get_openapi
from catalog.api.requesttarget import answer_options, methods_of_route
from catalog.api.search import routes as search
from catalog.api.validate import post_message
from catalog.api.validate import routes as validation
from catalog.audit.auditlog import routes as audit
from catalog.audit.audittrail import note_last_refused
from catalog.context import CONTEXT, SHARED, SharedState
from catalog.http.background import BACKGROUND_TASKS, BackgroundTasks
from catalog.http.body import BODY_MEMORY, BodyMemory
from catalog.http.inprocess import IN_PROCESS, InProcess
from catalog.http.positionwait import LINK_WAITS, LinkWaits
from catalog.http.route import ROUTES, Route, reads, writes
from catalog.http.stream import (
    LONG_POLLS,
    RENEW,
    SINK_TESTS,
    STREAMS,
    WAITING_READS,
    add_stream_shares,
)
from catalog.load.limiter import Bytes, Share
from catalog.model.errors import ActionNotSupported
from catalog.model.roles import Permission
from catalog.operations.operation import ANY_METHOD, READING, Operation
from catalog.subscriptions.eventstreams import add_event_streams
from catalog.subscriptions.eventstreams import routes as event_streams
from catalog.subscriptions.requests import routes as subscriptions
from catalog.subscriptions.webhookconsent import CALLBACK_RATE, callback_rate
from catalog.telemetry.processmetrics import Tally
from catalog.web.door import Door, finish, renew

_MESSAGES = tuple(
    f"{path}{version}"
    for path in (
        "/validate/messagegroups/{messagegroupid}/messages/{messageid}",
        "/validate/endpoints/{endpointid}/messages/{messageid}",
    )
    for version in ("", "/versions/{versionid}")
)


_ADMIN, _READ = Permission.ADMINISTER, Permission.READ
native_routes: Sequence[Route] = (
    reads("/model", configuration.get_model, capability="model"),
    reads("/modelsource", configuration.get_modelsource, capability="modelsource"),
    Route(
        Operation("PUT", "/modelsource", _ADMIN, capability="modelsource"),
        configuration.put_modelsource,
    ),
    reads("/export", configuration.get_export, capability="export"),
    reads("/capabilities", configuration.get_capabilities, capability="capabilities"),
    Route(
        Operation("PUT", "/capabilities", _ADMIN, capability="capabilities"),
        configuration.put_capabilities,
    ),
    Route(
        Operation("PATCH", "/capabilities", _ADMIN, capability="capabilities"),
        configuration.put_capabilities,
    ),
    reads("/capabilitiesoffered", configuration.get_offered, capability="capabilitiesoffered"),
    reads("/.well-known/xregistry", configuration.get_registries),
    reads("/.xregistry", configuration.get_registries),
    reads("/openapi.json", get_openapi),
    # POST needs the right to read only, since a check of a message writes nothing.
    *(Route(Operation("POST", path, _READ), post_message) for path in _MESSAGES),
    *validation,
    reads("/apply", get_apply),
    writes("POST", "/apply", post_apply),
    *subscriptions,
    *access,
    *access_requests,
    *audit,
    *search,
    *diff,
    *event_streams,
    *changes,
)
_ENTITY = "/{path:.*}"
_SHORT = "/~{key:[A-Za-z0-9_-]*}{below:($|[/$].*)}"
entity_routes: Sequence[Route] = (
    # A redirect of a write needs no right to write: the redirected request is checked on its own.
    Route(Operation(ANY_METHOD, _SHORT, _READ), redirect),
    # Only the body reveals that a PUT of the registry changes the configuration, so `answer_write`
    # asks for the permission itself. An answer from the cache needs no deadline.
    *(
        Route(
            Operation(
                method,
                _ENTITY,
                _READ if method in READING else Permission.WRITE,
                has_head=False,
                is_bounded=False,
            ),
            handle_entity,
        )
        for method in (*READING, ANY_METHOD)
    ),
)


def create_app(shared: SharedState, routes: Iterable[Route] = ()) -> web.Application:
    """Build the application: the native API, and further routes at its root.

    Args:
        shared: the state that requests share.
        routes: the routes of the dialects and of replication.
    """
    app = web.Application()
    app[SHARED] = shared
    app[RENEW] = renew
    app[CALLBACK_RATE] = callback_rate()
    app[IN_PROCESS] = InProcess()
    app[BODY_MEMORY] = BodyMemory(shared.settings)
    add_stream_shares(app, shared.settings)
    add_event_streams(app)
    app[LINK_WAITS] = LinkWaits(shared.database)
    app[ANSWERS] = AnswerCache(
        shared.database,
        most_bytes=shared.settings.cache_bytes or default_bytes(),
        staleness_seconds=shared.settings.staleness_seconds,
    )
    _tell_usage(app, shared)
    app[BACKGROUND_TASKS] = background = BackgroundTasks()
    app.on_shutdown.append(background.end)
    app.on_shutdown.append(_end_waits)
    app.on_cleanup.append(note_last_refused)
    app[AUTHENTICATION] = Authentication(shared.settings, shared.database, background.begin)
    app[RATE_LIMITS] = RateLimits(shared.settings)
    app[ROUTES] = all_routes(routes)
    door = Door(shared)
    [reading] = (each for each in entity_routes if each.operation.method == hdrs.METH_GET)
    answer_entity = door.handler_of(reading)
    for route in app[ROUTES]:
        operation, handler = route.operation, door.handler_of(route)
        if route.applies is not None:
            handler = _either(route.applies, handler, answer_entity)
        path = f"{operation.path}{{end:/?}}" if operation.has_slashes else operation.path
        app.router.add_route(operation.method, path, handler)
        if operation.method == hdrs.METH_GET and operation.has_head:
            app.router.add_route(hdrs.METH_HEAD, path, handler)
    app.on_response_prepare.append(finish)
    return app


def _either(
    applies: Callable[[web.Request], bool], answer: Handler, answer_entity: Handler
) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await (answer if applies(request) else answer_entity)(request)

    return handle


async def _end_waits(app: web.Application) -> None:
    """Answer the requests that wait for writes, so that the node can stop at once."""
    app[SHARED].database.signal.end()


def _tell_usage(app: web.Application, shared: SharedState) -> None:
    """Fill the metrics from the counters of caches, pools and shares at each collection."""
    metrics, checker, answers = shared.metrics, shared.checker, app[ANSWERS]
    shares: dict[str, Share | Bytes] = {
        "streams": app[STREAMS],
        "long_polls": app[LONG_POLLS],
        "waiting_reads": app[WAITING_READS],
        "sink_tests": app[SINK_TESTS],
        "checked_requests": shared.checked_requests.share,
        "body_bytes": app[BODY_MEMORY],
    }
    pools = shared.database.pools
    done, known, unfinished = (
        Tally(metrics.checks, name) for name in ("done", "known", "unfinished")
    )
    seconds = Tally(metrics.check_seconds)
    hits, misses = (Tally(metrics.cache_reads, result) for result in ("hit", "miss"))

    def read() -> None:
        for name, share in shares.items():
            metrics.share_used.labels(name).set(share.used)
            metrics.share_limit.labels(name).set(share.limit)
        for name in (field.name for field in fields(pools)):
            pool = getattr(pools, name)
            metrics.pool_used.labels(name).set(pool.used)
            metrics.pool_limit.labels(name).set(pool.limit)
            metrics.pool_waiting.labels(name).set(pool.waiting)
        done.tell(checker.done)
        known.tell(checker.known)
        unfinished.tell(checker.unfinished)
        seconds.tell(checker.spent)
        hits.tell(answers.hits)
        misses.tell(answers.misses)
        metrics.cache_bytes.set(answers.bytes)

    metrics.read_with(read)


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
        if all(route.applies is None for route in found) and all(
            route.operation.method != ANY_METHOD for route in found
        ):
            yield _refusal_beside(found)


def _refusal_beside(routes: Sequence[Route]) -> Route:
    """The route of the remaining methods of a fixed path, which the entity routes would match.

    Needs the right of the writes at the path, if the path has writes, so that a refusal reveals no
    more than a write does.
    """
    operations = [route.operation for route in routes]
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
        method=ANY_METHOD,
        path=known.path,
        needs=known.needs,
        capability=known.capability,
        has_slashes=known.has_slashes,
    )
    return Route(other, refuse, routes[0].answer_error)
