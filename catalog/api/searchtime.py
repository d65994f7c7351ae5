"""Bounds the time that the search for what a reader asks for may take."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from catalog.context import CONTEXT
from catalog.model.ownerrors import SearchTooCostly

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
