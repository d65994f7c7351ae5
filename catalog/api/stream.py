"""Sends answers of any size: at once if they are small, else as they are made."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass

from aiohttp import hdrs, web

from catalog.api.etag import REVALIDATE, has_tag, not_modified
from catalog.api.methods import READING
from catalog.context import CONTEXT
from catalog.model.errors import ServerBusy, TooLarge

_LARGEST_AT_ONCE = 256 * 1024
# Names the form that an answer gets once it is complete, so that it cannot be streamed.
WHOLE: web.RequestKey[str] = web.RequestKey("whole", str)
_LEAST_RATE = 64 * 1024  # bytes per second


@dataclass(slots=True)
class Deadline:
    """When a request ends: it has some time, and as long again after each sign of progress.

    What is sent has to be taken at the least rate, so that nobody holds a snapshot for ever.
    """

    timeout: asyncio.Timeout
    seconds: float
    latest: float

    def postpone(self, sent: int) -> None:
        self.latest += sent / _LEAST_RATE
        now = asyncio.get_running_loop().time()
        self.timeout.reschedule(min(now + self.seconds, self.latest))


_DEADLINE: web.RequestKey[Deadline] = web.RequestKey("deadline", Deadline)

# Those who read a snapshot at the pace of a client share half of the connections.
SNAPSHOTS: web.AppKey[asyncio.Semaphore] = web.AppKey("snapshots", asyncio.Semaphore)


@contextlib.asynccontextmanager
async def in_bounded_time(request: web.Request, seconds: float) -> AsyncIterator[None]:
    """Ends what takes longer; a stream may take longer while its reader keeps up.

    Raises:
        ServerBusy: it took longer; a write may have been applied.
    """
    try:
        async with asyncio.timeout(seconds) as timeout:
            latest = asyncio.get_running_loop().time() + seconds
            request[_DEADLINE] = Deadline(timeout, seconds, latest)
            yield
    except TimeoutError as error:
        detail = "" if request.method in READING else "The request may have been applied."
        raise ServerBusy(request.path, detail=detail) from error


async def send(
    request: web.Request,
    pieces: AsyncGenerator[bytes],
    headers: Mapping[str, str],
    *,
    status: int = 200,
    tag: str = "",
) -> web.StreamResponse:
    """Answer with a body that comes in pieces, none of which is made before it can be sent.

    Args:
        tag: of a read that is too large to have its own.

    Raises:
        TooLarge: the answer is wanted whole, and is larger than a request may be.
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
    if _DEADLINE in request:
        request[_DEADLINE].postpone(len(piece))
