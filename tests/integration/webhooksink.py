"""A sink of web hooks for tests: keeps each request as it came, and answers as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from multidict import CIMultiDictProxy

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A request as it came."""

    method: str
    path: str
    headers: CIMultiDictProxy[str]
    body: bytes


def own_address() -> str:
    """An address of this machine that is not a loopback address, if the machine has one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: connecting only chooses the address.
        with contextlib.suppress(OSError):
            probe.connect(("192.0.2.1", 9))
        address: str = probe.getsockname()[0]
    return "127.0.0.1" if address == "0.0.0.0" else address


async def accept(_: web.Request) -> web.StreamResponse:
    return web.Response(status=204)


class WebHookSink:
    """Listens on a free port of all addresses.

    `on_options` and `on_event` answer requests; tests replace them.
    """

    def __init__(self, host: str = "127.0.0.1", *, on_options: Answer = accept) -> None:
        self.arrived: list[Arrived] = []
        self.on_options = on_options
        self.on_event: Answer = accept
        self._host = host
        self._grown = asyncio.Condition()
        self._closing = asyncio.Event()
        self._runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=0)
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._port}/events"

    @property
    def asked(self) -> list[Arrived]:
        return [each for each in self.arrived if each.method == "OPTIONS"]

    @property
    def events(self) -> list[Arrived]:
        return [each for each in self.arrived if each.method != "OPTIONS"]

    async def has(self, condition: Callable[[WebHookSink], Any]) -> None:
        """Wait until a condition of what has arrived is true."""
        async with asyncio.timeout(30), self._grown:
            await self._grown.wait_for(lambda: condition(self))

    async def __aenter__(self) -> WebHookSink:
        await self._runner.setup()
        await web.TCPSite(self._runner, "0.0.0.0", self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def silent(self, _: web.Request) -> web.StreamResponse:
        """Answer nothing until the sink closes."""
        await self._closing.wait()
        return web.Response(status=503)

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        await self._runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._take)
        return app

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with self._grown:
            self.arrived.append(
                Arrived(
                    method=request.method,
                    path=request.path_qs,
                    headers=request.headers,
                    body=body,
                )
            )
            self._grown.notify_all()
        is_question = request.method == "OPTIONS"
        return await (self.on_options if is_question else self.on_event)(request)
