"""What the registry says of itself: its model, its capabilities, and all of it as a document."""

from __future__ import annotations

from aiohttp import web

from catalog.api.params import Inline, read_inline
from catalog.api.paths import Target
from catalog.api.render import Renderer
from catalog.api.responses import json_response
from catalog.context import CONTEXT
from catalog.model.xid import Xid
from catalog.registry import read

_EXPORTED: Inline = {"*": {}, "capabilities": {}, "modelsource": {}}

routes = web.RouteTableDef()


@routes.get("/model")
async def get_model(request: web.Request) -> web.Response:
    return json_response(request.app[CONTEXT].model.expanded())


@routes.get("/modelsource")
async def get_modelsource(request: web.Request) -> web.Response:
    return json_response(request.app[CONTEXT].model.source)


@routes.get("/capabilities")
async def get_capabilities(request: web.Request) -> web.Response:
    return json_response(request.app[CONTEXT].capabilities.as_json())


@routes.get("/export")
async def get_export(request: web.Request) -> web.Response:
    """The whole registry as one document (core/http.md, "GET /export")."""
    context = request.app[CONTEXT]
    given = read_inline(request, Target(kind="registry", xid=Xid()))
    inline = given or _EXPORTED
    async with context.database.snapshot() as connection:
        known = await read.read_subtree(connection, Xid())
    renderer = Renderer(
        context.configuration,
        known,
        base=context.base_url(request),
        authority=context.database.node.authority,
        root="/",
    )
    return json_response(renderer.registry(known.entities["/"], inline))
