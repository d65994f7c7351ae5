"""A local HTTP sink, which takes the events of a subscription."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

Event = Mapping[str, Any]


@contextlib.asynccontextmanager
async def open_sink(
    receive: Callable[[Event], Awaitable[None] | None], *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[str]:
    """Listen, and pass every event to `receive`, in both content modes of HTTP.

    The value is the URL of the sink. The sink grants validation requests (http-webhook.md 4). The
    sender of an event waits until `receive` returns.

    Raises:
        OSError: the port is in use.
    """
    app = web.Application()

    async def take(request: web.Request) -> web.Response:
        received = receive(event_of(request.headers, await request.read()))
        if received is not None:
            await received
        return web.Response(status=204)

    app.add_routes([web.post("/", take), web.options("/", _grant)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield f"http://{host}:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def _grant(request: web.Request) -> web.Response:
    return web.Response(
        headers={"Allow": "POST", "WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "*"}
    )


def event_of(headers: Mapping[str, str], body: bytes) -> Event:
    """Read an event in structured or binary content mode (http-protocol-binding.md 3)."""
    if headers.get("Content-Type", "").startswith("application/cloudevents+json"):
        event: Event = orjson.loads(body)
        return event
    attributes: dict[str, Any] = {
        name.lower().removeprefix("ce-"): unquote(value)
        for name, value in headers.items()
        if name.lower().startswith("ce-")
    }
    if body:
        attributes["data"] = orjson.loads(body)
    return attributes
