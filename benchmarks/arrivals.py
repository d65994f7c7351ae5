"""The arrival times of changes: as events at a sink, or in a catalog's change feed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from aiohttp import web

from catalog.client import Client

_POLL_SECONDS = 20


@dataclass(slots=True)
class Arrivals:
    """The time of the first arrival for each message, by xid, since `clear`."""

    times: dict[str, float] = field(default_factory=dict)

    def note(self, xid: str) -> None:
        """Record an arrival for a message, given its xid or that of one of its versions."""
        self.times.setdefault("/".join(xid.split("/")[:5]), time.perf_counter())

    def clear(self) -> None:
        self.times.clear()


@contextlib.asynccontextmanager
async def sink(arrivals: Arrivals, port: int) -> AsyncIterator[str]:
    """A web server that records events, and the requests that a bare server forwards."""

    async def take(request: web.Request) -> web.Response:
        arrivals.note(unquote(request.headers.get("ce-subject", request.path)))
        return web.Response(status=204)

    async def allow(_: web.Request) -> web.Response:
        headers = {"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "*"}
        return web.Response(status=200, headers=headers)

    app = web.Application()
    app.add_routes([web.options("/{path:.*}", allow), web.route("*", "/{path:.*}", take)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def feed(arrivals: Arrivals, url: str) -> AsyncIterator[None]:
    """Follow the change feed of the node at `url` by long polls, from now on."""
    async with Client.open(url) as client:
        follower = asyncio.create_task(_follow(client, await client.cursor(), arrivals))
        try:
            yield
        finally:
            follower.cancel()
            await asyncio.wait([follower])


async def _follow(client: Client, cursor: str, arrivals: Arrivals) -> None:
    while True:
        page = await client.changes(cursor, wait_seconds=_POLL_SECONDS)
        for copy in page.copies:
            if copy["kind"] == "version":
                arrivals.note(copy["xid"])
        cursor = page.cursor
