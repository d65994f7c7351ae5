"""Deadlines of requests: for whole answers, for searches, and for streams that make progress."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.etag import READING
from catalog.model.errors import ServerBusy
from catalog.model.ownerrors import SearchTooCostly

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def bounded(handler: Handler) -> Handler:
    """A handler that is given as much time as a request may take.

    Raises:
        ServerBusy: it took longer.
    """

    @functools.wraps(handler)
    async def handle(request: web.Request) -> web.StreamResponse:
        seconds = request.app[CONTEXT].settings.request_timeout_seconds
        async with in_bounded_time(request, seconds):
            return await handler(request)

    return handle


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


_ADVICE = (
    "Ask within one collection instead of all, compare with a whole value instead of one with"
    " wildcards, or add a condition with an equality: these are looked up, while others are"
    " tried on every entity."
)


@contextlib.asynccontextmanager
async def in_search_time(request: web.Request) -> AsyncIterator[None]:
    """Ends a search that takes too long, in the database as well.

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
