"""Answers whether the process is alive, and whether it is ready for requests."""

from __future__ import annotations

import asyncio

from aiohttp import web

from catalog.context import CONTEXT
from catalog.http.responses import json_response
from catalog.model.errors import ServerBusy
from catalog.store.monitoring import ping

_MOST_SECONDS = 2.0


async def get_live(_: web.Request) -> web.Response:
    """`GET /health/live`: 200 while the process answers at all; restart it if it does not."""
    return json_response({"status": "alive"})


async def get_ready(request: web.Request) -> web.Response:
    """`GET /health/ready`: 200 if the database answers within two seconds, else 503."""
    database = request.app[CONTEXT].database
    reason = ""
    if database.availability.is_away:
        reason = "the database is away"
    else:
        try:
            async with asyncio.timeout(_MOST_SECONDS), database.pool.acquire() as connection:
                await ping(connection)
        except (ServerBusy, TimeoutError):
            reason = f"the database does not answer within {_MOST_SECONDS:.0f} seconds"
    if reason:
        headers = {"Retry-After": "1"}
        return json_response({"status": "waiting", "reason": reason}, status=503, headers=headers)
    return json_response({"status": "ready"})
