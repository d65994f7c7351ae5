"""Handles the paths of entities, which the model defines, and their short URLs."""

from __future__ import annotations

from aiohttp import hdrs, web

from catalog.api.answercache import ANSWERS
from catalog.api.documents import as_document
from catalog.api.entityread import answer_read
from catalog.api.entitywrite import answer_delete, answer_write
from catalog.api.requesttarget import answer_options, check_method, methods_of, parse_path
from catalog.context import CONTEXT
from catalog.http.positionwait import WAIT_FOR
from catalog.http.stream import bounded
from catalog.model.errors import NotFound, XRegistryError
from catalog.model.shortpath import key_in
from catalog.store.entities import find_by_key


async def handle_entity(request: web.Request) -> web.StreamResponse:
    """Answer any method on any path that the model defines, in bounded time."""
    if request.path == "/":
        return await as_document(request, _answer)
    return await _answer(request)


async def _answer(request: web.Request) -> web.StreamResponse:
    if request.method == hdrs.METH_GET and (cached := await _cached(request)):
        return cached
    try:
        return await _handle(request)
    except XRegistryError as error:
        error.request_path = request.path
        raise


@bounded
async def _handle(request: web.Request) -> web.StreamResponse:
    context = request[CONTEXT]
    target = parse_path(request.rel_url.raw_path, context.model)
    allow = methods_of(target, context.capabilities)
    check_method(request, target, allow)
    match request.method:
        case hdrs.METH_OPTIONS:
            return answer_options(allow)
        case hdrs.METH_GET | hdrs.METH_HEAD:
            return await answer_read(request, context, target)
        case hdrs.METH_DELETE:
            return await answer_delete(request, context, target)
        case _:
            return await answer_write(request, context, target)


async def _cached(request: web.Request) -> web.Response | None:
    """A cached answer; `None` if the cache has no answer, or must not answer the request.

    The cache holds the answers for callers who may see the whole catalog. A request that waited for
    a position may have to show newer entities than the cache of this process.
    """
    if hdrs.CACHE_CONTROL in request.headers and _wants_anew(request):
        return None
    context = request[CONTEXT]
    if WAIT_FOR in request.headers or context.caller.is_restricted:
        return None
    key = (context.base_url(request), request.raw_path, context.configuration.revision)
    answer = await request.app[ANSWERS].get(key)
    if answer is None:
        return None
    return web.Response(body=answer.body, status=answer.status, headers=answer.headers)


def _wants_anew(request: web.Request) -> bool:
    wishes = request.headers[hdrs.CACHE_CONTROL].lower().replace(" ", "").split(",")
    return "no-cache" in wishes or "no-store" in wishes or "max-age=0" in wishes


async def redirect(request: web.Request) -> web.Response:
    """Redirect every method from the short URL of an entity, with the rest of path and query.

    Raises:
        NotFound: no entity has the URL, or the capability `shortself` is off.
    """
    context = request[CONTEXT]
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
        async with request[CONTEXT].database.acquire() as connection:
            if (xid := await find_by_key(connection, key)) is not None:
                return xid
    raise NotFound(request.path)
