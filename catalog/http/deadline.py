"""Deadlines of requests: for whole answers, for searches, and for streams that make progress."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.etag import READING
from catalog.model.concorderrors import SearchTooCostly
from catalog.model.errors import ServerBusy

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LEAST_RATE = 64 * 1024  # bytes per second


class Deadline:
    """Bounds the time of a request; a stream may last longer while its reader keeps up.

    Each sent piece of a stream gives it `seconds` more, but all of it must be read at the least
    rate, so that no client holds a snapshot for ever.

    Raises:
        ServerBusy: the time is over; a write may have been applied.
    """

    __slots__ = ("_latest", "_request", "_seconds", "_timeout")

    def __init__(self, request: web.Request, seconds: float) -> None:
        self._request = request
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)
        self._latest = asyncio.get_running_loop().time() + seconds

    def postpone(self, sent: int) -> None:
        """Extend the deadline after `sent` bytes."""
        self._latest += sent / _LEAST_RATE
        now = asyncio.get_running_loop().time()
        self._timeout.reschedule(min(now + self._seconds, self._latest))

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._request[DEADLINE] = self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as timeout:
            error = timeout
        if isinstance(error, TimeoutError):
            is_read = self._request.method in READING
            detail = "" if is_read else "The request may have been applied."
            raise ServerBusy(self._request.path, detail=detail) from error


DEADLINE: web.RequestKey[Deadline] = web.RequestKey("deadline", Deadline)


def bounded(handler: Handler) -> Handler:
    """Bound the time of a handler to that of a request (see `Deadline`)."""

    @functools.wraps(handler)
    async def handle(request: web.Request) -> web.StreamResponse:
        async with Deadline(request, request.app[CONTEXT].settings.request_timeout_seconds):
            return await handler(request)

    return handle


_ADVICE = (
    "Ask within one collection instead of all, compare with a whole value instead of one with"
    " wildcards, or add a condition with an equality: these are looked up, while others are"
    " tried on every entity."
)


@contextlib.asynccontextmanager
async def in_search_time(request: web.Request) -> AsyncIterator[None]:
    """End a search that takes too long, in the database as well.

    Raises:
        SearchTooCostly
    """
    seconds = request.app[CONTEXT].settings.search_timeout_seconds
    try:
        async with asyncio.timeout(seconds) as bound:
            yield
    except TimeoutError as error:
        if not bound.expired():
            raise
        raise SearchTooCostly(request.path, seconds=f"{seconds:g}", detail=_ADVICE) from error
