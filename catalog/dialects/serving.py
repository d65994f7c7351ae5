"""How every handler of a dialect is run."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import web

from catalog.api.stream import in_bounded_time
from catalog.context import CONTEXT

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
