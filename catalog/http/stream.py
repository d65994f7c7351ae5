"""Sends answers of any size: small ones at once, large ones piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping

from aiohttp import hdrs, web

from catalog.context import CONTEXT
from catalog.http.deadline import DEADLINE
from catalog.http.etag import REVALIDATE, has_tag, not_modified
from catalog.model.errors import TooLarge

_LARGEST_AT_ONCE = 256 * 1024
# The media type that an answer is converted to once it is whole, so it cannot be streamed.
WHOLE: web.RequestKey[str] = web.RequestKey("whole", str)


# Reads of snapshots last as long as their clients take; they share half of the connections.
SNAPSHOTS: web.AppKey[asyncio.Semaphore] = web.AppKey("snapshots", asyncio.Semaphore)


async def send(
    request: web.Request,
    pieces: AsyncGenerator[bytes],
    headers: Mapping[str, str],
    *,
    status: int = 200,
    tag: str = "",
) -> web.StreamResponse:
    """Answer with a body in pieces; each is made when the one before it is sent.

    Args:
        tag: of a streamed read, whose body cannot be hashed first.

    Raises:
        TooLarge: the answer must be whole, and is larger than a request may be.
    """
    most = _LARGEST_AT_ONCE
    if WHOLE in request:
        most = request.app[CONTEXT].settings.max_body_bytes
    async with contextlib.aclosing(pieces):
        begun, size = [], 0
        async for piece in pieces:
            begun.append(piece)
            size += len(piece)
            if size > most:
                break
        else:
            return web.Response(body=b"".join(begun), headers=headers, status=status)
        if WHOLE in request:
            raise TooLarge(request.path)
        response = web.StreamResponse(headers=headers, status=status)
        if tag:
            response.headers[hdrs.ETAG] = tag
            response.headers[hdrs.CACHE_CONTROL] = REVALIDATE
            if has_tag(request, tag):
                return not_modified(response.headers)
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        await _write(request, response, b"".join(begun))
        begun.clear()
        async for piece in pieces:
            await _write(request, response, piece)
        await response.write_eof()
        return response


async def _write(request: web.Request, response: web.StreamResponse, piece: bytes) -> None:
    await response.write(piece)
    if DEADLINE in request:
        request[DEADLINE].postpone(len(piece))
