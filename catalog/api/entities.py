"""The native API's entity paths: everything that the model defines."""

from __future__ import annotations

import asyncio

from aiohttp import hdrs, web

from catalog.api.cache import ANSWERS
from catalog.api.paths import parse_path
from catalog.api.reading import answer_read
from catalog.api.writing import answer_delete, answer_write
from catalog.context import CONTEXT, Context
from catalog.model.errors import ActionNotSupported, ServerBusy

_METHODS = {
    "registry": ("GET", "HEAD", "PATCH", "POST", "PUT"),
    "collection": ("DELETE", "GET", "HEAD", "PATCH", "POST"),
    "group": ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"),
    "resource": ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"),
    "meta": ("GET", "HEAD", "PATCH", "PUT"),
    "version": ("DELETE", "GET", "HEAD", "PATCH", "PUT"),
}


async def handle_entity(request: web.Request) -> web.StreamResponse:
    """Any method on any path that the model defines, in bounded time."""
    context = request.app[CONTEXT]
    try:
        async with asyncio.timeout(context.settings.request_timeout_seconds):
            return await _handle(request, context)
    except TimeoutError as error:
        raise ServerBusy(request.path) from error


async def _handle(request: web.Request, context: Context) -> web.StreamResponse:
    if request.method == hdrs.METH_GET and (known := _remembered(request, context)):
        return known
    target = parse_path(request.rel_url.raw_path, context.model)
    if request.method not in _METHODS[target.kind]:
        raise ActionNotSupported(request.path, action=request.method, allow=_METHODS[target.kind])
    match request.method:
        case hdrs.METH_GET | hdrs.METH_HEAD:
            return await answer_read(request, context, target)
        case hdrs.METH_DELETE:
            return await answer_delete(request, context, target)
        case _:
            return await answer_write(request, context, target)


def _remembered(request: web.Request, context: Context) -> web.Response | None:
    answer = request.app[ANSWERS].get(context.base_url(request), request.raw_path)
    return None if answer is None else web.Response(body=answer.body, headers=answer.headers)
