"""Assembles the HTTP application of a node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiohttp import hdrs, web

from catalog.api.allowedmethods import answer_options, methods_of_route
from catalog.api.answercache import ANSWERS, AnswerCache
from catalog.api.documents import document_middleware
from catalog.api.entitypaths import handle_entity
from catalog.api.reconfigure import configuration_middleware
from catalog.api.routes import routes as native_routes
from catalog.api.routes import short_path
from catalog.context import CONTEXT, Context
from catalog.http.background import BACKGROUND_TASKS, BackgroundTasks
from catalog.http.crossorigin import share_with_origins
from catalog.http.etag import conditional_middleware
from catalog.http.problems import answer_unparsable_requests, note_begun, problem_middleware
from catalog.http.responses import leave_untyped
from catalog.http.segments import segments_middleware
from catalog.http.stream import SNAPSHOTS
from catalog.model.errors import ActionNotSupported


def create_app(context: Context, routes: Iterable[web.AbstractRouteDef] = ()) -> web.Application:
    """The native API, and whatever other routes the node offers at its root.

    Args:
        context: shared by all handlers.
        routes: the dialects' and replication's.
    """
    answer_unparsable_requests()
    app = web.Application(
        middlewares=[
            problem_middleware,
            segments_middleware,
            configuration_middleware,
            conditional_middleware,
            document_middleware,
        ],
        client_max_size=context.settings.max_body_bytes,
    )
    app[CONTEXT] = context
    app[ANSWERS] = AnswerCache(context.database, context.settings.cache_staleness_seconds)
    app[SNAPSHOTS] = asyncio.Semaphore(max(1, context.settings.database_pool_size // 2))
    app[BACKGROUND_TASKS] = background = BackgroundTasks()
    app.on_shutdown.append(background.end)
    app.add_routes([*native_routes, *routes])
    for resource in app.router.resources():
        _answer_other_methods(resource)
    app.add_routes([short_path, web.route("*", "/{path:.*}", handle_entity)])
    app.on_response_prepare.append(note_begun)
    app.on_response_prepare.append(_link_to_root)
    app.on_response_prepare.append(leave_untyped)
    app.on_response_prepare.append(share_with_origins)
    return app


def _answer_other_methods(resource: web.AbstractResource) -> None:
    """Without this, a method that a fixed path lacks would be taken for an entity's."""
    defined = {route.method for route in resource}

    async def answer(request: web.Request) -> web.StreamResponse:
        allow = methods_of_route(resource.canonical, defined, request.app[CONTEXT].capabilities)
        if request.method == hdrs.METH_OPTIONS:
            return answer_options(allow)
        raise ActionNotSupported(request.path, action=request.method, allow=allow)

    if isinstance(resource, web.Resource):
        resource.add_route("*", answer)


async def _link_to_root(request: web.Request, response: web.StreamResponse) -> None:
    """core/http.md, "xRegistry Root HTTP Header"."""
    base = request.app[CONTEXT].base_url(request)
    response.headers.add("Link", f"<{base}>;rel=xregistry-root")
