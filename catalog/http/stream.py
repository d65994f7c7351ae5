"""Sends answers of any size: small ones at once, large ones piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping

from aiohttp import hdrs, web

from catalog.context import CONTEXT
from catalog.http.deadline import DEADLINE
from catalog.http.etag import REVALIDATE, has_tag, not_modified
from catalog.http.streamshares import STREAMS
from catalog.model.errors import TooLarge

_LARGEST_AT_ONCE = 256 * 1024
_WRITTEN_AT_ONCE = 64 * 1024
# The media type that an answer is converted to once it is whole, so it cannot be streamed.
WHOLE: web.RequestKey[str] = web.RequestKey("whole", str)


@contextlib.asynccontextmanager
async def stream_share(request: web.Request) -> AsyncIterator[None]:
    """Let a client stream in a context, in which it may use one connection for streams.

    Raises:
        TooManyAtOnce: the client has its share of the streams under way.
        ServerBusy: there are too many streams of all clients.
    """
    seconds = request.app[CONTEXT].settings.request_timeout_seconds / 2
    async with request.app[STREAMS].take(request.path, wait_seconds=seconds):
        yield


async def send(
    request: web.Request,
    pieces: AsyncGenerator[bytes],
    headers: Mapping[str, str],
    *,
    status: int = 200,
    tag: str = "",
    takes_share: bool = False,
) -> web.StreamResponse:
    """Answer with a body in pieces; each is made when the one before it is sent.

    Args:
        tag: of a streamed read, whose body cannot be hashed first.
        takes_share: whether a large answer takes a share of the streams (see `stream_share`);
            not if the caller has one.

    Raises:
        TooLarge: the answer must be whole, and is larger than a request may be.
        TooManyAtOnce: see `stream_share`.
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
        async with stream_share(request) if takes_share else contextlib.nullcontext():
            await response.prepare(request)
            if request.method == hdrs.METH_HEAD:
                return response
            await write_piece(request, response, b"".join(begun))
            begun.clear()
            async for piece in pieces:
                await write_piece(request, response, piece)
            await response.write_eof()
        return response


async def write_piece(request: web.Request, response: web.StreamResponse, piece: bytes) -> None:
    """Write a piece of a stream, and extend the deadline of its request as it is read."""
    for start in range(0, len(piece), _WRITTEN_AT_ONCE):
        part = piece[start : start + _WRITTEN_AT_ONCE]
        await response.write(part)
        request[DEADLINE].postpone(len(part))
    # Writing does not wait for a quick reader, but other requests have a turn.
    await asyncio.sleep(0)


async def in_pieces(lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Join lines to pieces that are worth sending."""
    piece = bytearray()
    async with contextlib.aclosing(lines):
        async for line in lines:
            piece += line
            if len(piece) >= _WRITTEN_AT_ONCE:
                yield bytes(piece)
                piece.clear()
    yield bytes(piece)
