"""Assembles the HTTP application of a node."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import hdrs, web

from catalog.access.accesscontrol import access_middleware
from catalog.access.audittrail import note_last_refused, refusal_middleware
from catalog.access.authentication import AUTHENTICATION, Authentication
from catalog.access.privateanswers import keep_private
from catalog.access.ratelimits import RATE_LIMITS, RateLimits, rate_middleware, show_rate
from catalog.api.allowedmethods import answer_options, methods_of_route
from catalog.api.answercache import ANSWERS, AnswerCache
from catalog.api.documents import document_middleware
from catalog.api.entitypaths import handle_entity
from catalog.api.requestchecks import checking_middleware
from catalog.api.routedescription import DESCRIPTIONS, RouteDescription
from catalog.api.routes import routes as native_routes
from catalog.api.routes import short_path
from catalog.context import CONTEXT, Context
from catalog.http.authoritypointer import pointing_middleware
from catalog.http.background import BACKGROUND_TASKS, BackgroundTasks
from catalog.http.bodymemory import BODY_MEMORY, BodyMemory, releasing_middleware
from catalog.http.browserheaders import restrict_browsers
from catalog.http.correlation import correlating_middleware, show_request_id
from catalog.http.crossorigin import share_with_origins
from catalog.http.etag import conditional_middleware
from catalog.http.frameworkerrors import answer_framework_errors
from catalog.http.linkwaits import LINK_WAITS, LinkWaits
from catalog.http.positionwait import show_position, waiting_middleware
from catalog.http.problems import problem_middleware
from catalog.http.protocoloptions import protocol_options
from catalog.http.requestmetrics import measuring_middleware
from catalog.http.responses import leave_untyped
from catalog.http.streamshares import add_stream_shares
from catalog.http.usage import tell_usage
from catalog.model.errors import ActionNotSupported
from catalog.subscriptions.consentcallback import CALLBACK_RATES, CallbackRates


def create_app(context: Context, routes: Iterable[web.AbstractRouteDef] = ()) -> web.Application:
    """Build the application: the native API, and other routes at its root.

    Args:
        context: shared by all handlers.
        routes: the dialects' and replication's, with descriptions among them.
    """
    answer_framework_errors()
    app = web.Application(
        middlewares=[
            correlating_middleware,
            measuring_middleware,
            problem_middleware,
            refusal_middleware,
            pointing_middleware,
            releasing_middleware,
            rate_middleware,
            access_middleware,
            checking_middleware,
            waiting_middleware,
            conditional_middleware,
            document_middleware,
        ],
        handler_args=protocol_options(context.settings),
    )
    app[CONTEXT] = context
    app[CALLBACK_RATES] = CallbackRates()
    app[BODY_MEMORY] = BodyMemory(context.settings)
    add_stream_shares(app, context.settings)
    app[LINK_WAITS] = LinkWaits(context.database)
    app[ANSWERS] = AnswerCache(
        context.database,
        most_bytes=context.settings.cache_bytes,
        staleness_seconds=context.settings.staleness_seconds,
    )
    app[ANSWERS].tell_in(context.metrics)
    tell_usage(context)
    app[BACKGROUND_TASKS] = background = BackgroundTasks()
    app.on_shutdown.append(background.end)
    app.on_cleanup.append(note_last_refused)
    app[AUTHENTICATION] = Authentication(context.settings, context.database, background.begin)
    app[RATE_LIMITS] = RateLimits(context.settings)
    added = [*native_routes, *routes]
    app[DESCRIPTIONS] = [each for each in added if isinstance(each, RouteDescription)]
    app.add_routes(added)
    for resource in app.router.resources():
        _answer_other_methods(resource)
    app.add_routes([short_path, web.route("*", "/{path:.*}", handle_entity)])
    app.on_response_prepare.append(_prepare)
    return app


def _answer_other_methods(resource: web.AbstractResource) -> None:
    """Refuse other methods of a fixed path, which would be routed to an entity otherwise."""
    defined = {route.method for route in resource}

    async def answer(request: web.Request) -> web.StreamResponse:
        allow = methods_of_route(resource.canonical, defined, request.app[CONTEXT].capabilities)
        if request.method == hdrs.METH_OPTIONS:
            return answer_options(allow)
        raise ActionNotSupported(request.path, action=request.method, allow=allow)

    if isinstance(resource, web.Resource):
        resource.add_route("*", answer)


async def _prepare(request: web.Request, response: web.StreamResponse) -> None:
    """Complete the headers of every response."""
    context = request.app[CONTEXT]
    # core/http.md, "xRegistry Root HTTP Header"
    response.headers.add("Link", f"<{context.base_url(request)}>;rel=xregistry-root")
    leave_untyped(response)
    show_request_id(request, response)
    show_position(request, response)
    show_rate(request, response)
    keep_private(request, response)
    restrict_browsers(request, response)
    share_with_origins(request, response, context.settings.cors_origins)
    if not request.content.is_eof():
        # The rest of a body that was refused is not read, so that no request can follow it.
        response.headers["Connection"] = "close"
        response.force_close()
