"""Assembles the HTTP application of a node."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from catalog.api import model
from catalog.api.cache import ANSWERS, AnswerCache
from catalog.api.entities import handle_entity
from catalog.api.problems import answer_unparsable_requests, problem_middleware
from catalog.context import CONTEXT, Context
from catalog.model.errors import ActionNotSupported


def create_app(context: Context, routes: Iterable[web.AbstractRouteDef] = ()) -> web.Application:
    """The native API, and whatever other routes the node offers at its root.

    Args:
        context: shared by all handlers.
        routes: the subscription manager's and replication's.
    """
    answer_unparsable_requests()
    app = web.Application(
        middlewares=[problem_middleware], client_max_size=context.settings.max_body_bytes
    )
    app[CONTEXT] = context
    app[ANSWERS] = AnswerCache(context.database.signal)
    app.add_routes([*model.routes, *routes])
    for resource in app.router.resources():
        _refuse_other_methods(resource)
    app.router.add_route("*", "/{path:.*}", handle_entity)
    app.on_response_prepare.append(_link_to_root)
    return app


def _refuse_other_methods(resource: web.AbstractResource) -> None:
    """Without this, a method that a fixed path lacks would be taken for an entity's."""
    allow = sorted({route.method for route in resource})

    async def refuse(request: web.Request) -> web.StreamResponse:
        raise ActionNotSupported(request.path, action=request.method, allow=allow)

    if isinstance(resource, web.Resource):
        resource.add_route("*", refuse)


async def _link_to_root(request: web.Request, response: web.StreamResponse) -> None:
    """core/http.md, "xRegistry Root HTTP Header"."""
    base = request.app[CONTEXT].base_url(request)
    response.headers.add("Link", f"<{base}>;rel=xregistry-root")
