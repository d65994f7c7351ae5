"""Deadlines of requests: for whole answers, for searches, and for streams that make progress."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from aiohttp import web

from catalog.config import Settings
from catalog.context import CONTEXT
from catalog.http.etag import READING
from catalog.model.concorderrors import ReadTooSlowly, SearchTooCostly
from catalog.model.errors import ServerBusy
from catalog.model.interaction import Interaction

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Deadline:
    """Bounds the time of a request; a stream may last longer while its reader keeps up.

    Each sent piece of a stream gives it as long as a request may take, but on average it must be
    read at the least rate, so that no client holds a snapshot for ever.

    Raises:
        ReadTooSlowly: a stream was cut.
        ServerBusy: the time is over; a write may have been applied.
    """

    __slots__ = ("_due", "_last", "_request", "_sent", "_settings", "_timeout")

    def __init__(self, request: web.Request, settings: Settings) -> None:
        now = asyncio.get_running_loop().time()
        self._request = request
        self._settings = settings
        self._due = now + settings.request_timeout_seconds
        self._last = max(self._due, now + settings.stream_timeout_seconds)
        self._sent = 0
        self._timeout = asyncio.timeout_at(self._due)

    def postpone(self, sent: int) -> None:
        """Extend the deadline after `sent` bytes."""
        self._sent += sent
        self._due += sent / self._settings.stream_least_rate
        now = asyncio.get_running_loop().time()
        stalled = now + self._settings.request_timeout_seconds
        self._timeout.reschedule(min(stalled, self._due, self._last))

    def extend_for(self, interaction: Interaction) -> None:
        """Give an interaction time that deletes groups, with any number of entities in them."""
        if any(delete.xid.kind == "group" for delete in interaction.deletes):
            longest = self._settings.reconfiguration_timeout_seconds
            self.extend(max(0.0, longest - self._settings.request_timeout_seconds))

    def extend(self, seconds: float) -> None:
        """Extend the deadline by the time that the client asks to wait for something."""
        self._due += seconds
        self._timeout.reschedule(self._due)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._request[DEADLINE] = self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        # A request that is handled again gets another one.
        del self._request[DEADLINE]
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as timeout:
            error = timeout
        if isinstance(error, TimeoutError):
            raise self._refusal() from error

    def _refusal(self) -> ServerBusy:
        path = self._request.path
        if self._sent:
            rate = str(self._settings.stream_least_rate)
            return ReadTooSlowly(path, rate=rate, setting="CONCORD_STREAM_LEAST_RATE")
        is_read = self._request.method in READING
        return ServerBusy(path, detail="" if is_read else "The request may have been applied.")


DEADLINE: web.RequestKey[Deadline] = web.RequestKey("deadline", Deadline)


def bounded(handler: Handler) -> Handler:
    """Bound the time of a handler to that of a request (see `Deadline`)."""

    @functools.wraps(handler)
    async def handle(request: web.Request) -> web.StreamResponse:
        # A deadline around another one would end a stream that the inner one lets go on.
        if DEADLINE in request:
            return await handler(request)
        async with Deadline(request, request.app[CONTEXT].settings):
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
