"""Leads from an entity's short URL to the one it is known by."""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT
from catalog.model.errors import NotFound
from catalog.model.shortself import key_in
from catalog.store.entities import find_by_key

PATH = "/~{key:[A-Za-z0-9_-]*}{below:($|[/$].*)}"


async def redirect(request: web.Request) -> web.Response:
    """Any method, with whatever may follow an entity's URL.

    Raises:
        NotFound: there is no such entity, or the capability `shortself` is off.
    """
    context = request.app[CONTEXT]
    if not context.capabilities.shortself:
        raise NotFound(request.path)
    key, below = request.match_info["key"], request.match_info["below"]
    xid = "" if key == "" else await _find(request, key)
    path = request.rel_url.raw_path.partition(f"/~{key}")[2] if below else ""
    query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
    location = f"{context.base_url(request)}{xid}{path or ('' if xid else '/')}{query}"
    return web.Response(status=307, headers={"Location": location})


async def _find(request: web.Request, text: str) -> str:
    key = key_in(text)
    if key is not None:
        async with request.app[CONTEXT].database.pool.acquire(timeout=30) as connection:
            if (xid := await find_by_key(connection, key)) is not None:
                return xid
    raise NotFound(request.path)
