"""A line between a client and a node: an HTTP proxy in this process that has faults at will."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from random import Random

import aiohttp
from aiohttp import hdrs, web

LONGEST_DELAY_SECONDS = 0.8
_HOLD_SECONDS = 0.5
_SLOW_PIECE = 512
_SLOW_SECONDS = 0.02
_STATUSES = (429, 500, 502, 503, 504)
_FEED = "application/x-ndjson"
_OF_ONE_HOP = frozenset(
    {hdrs.CONNECTION, hdrs.TRANSFER_ENCODING, hdrs.CONTENT_LENGTH, hdrs.KEEP_ALIVE, hdrs.HOST}
)

LINE_FAULTS = (
    "drop",  # the request is lost
    "mute",  # the request arrives, and its answer is lost
    "delay",
    "double",  # the request arrives twice
    "reorder",  # the request arrives after the next one
    "cut",  # the answer breaks off in its middle
    "throttle",
    "refuse",  # an error of the server, or 429, in place of an answer
    "lie",  # a byte of a copy is another one
)
"""The kinds of faults that a line may have."""

CLIENT_FAULTS = ("drop", "mute", "delay", "cut", "throttle", "refuse")
"""Those that writers can stand: whoever sends a write twice, or late, has written twice or late."""


def _is_of_copies(request: web.BaseRequest) -> bool:
    """Whether a request pushes copies, so that its answer has none."""
    return request.method == "POST" and request.path == "/replication/entities"


@dataclass(slots=True)
class Line:
    """A line from one port to a node, with the probability of each fault of a request.

    While it `is_parted`, nothing passes: requests hang.
    """

    name: str
    target: str
    chance: Random
    faults: Mapping[str, float] = field(default_factory=dict)
    is_parted: bool = False
    url: str = ""
    passed: int = 0
    suffered: dict[str, int] = field(default_factory=dict)
    _session: aiohttp.ClientSession | None = None
    _requests: set[asyncio.Task[object]] = field(default_factory=set)
    _next: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def open(self, port: int = 0) -> AsyncIterator[Line]:
        """Listen on a port."""
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        # A connection that is used again may have its request repeated by the client unasked.
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        async with aiohttp.ClientSession(
            connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as self._session:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", port)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            try:
                yield self
            finally:
                self.break_off()
                await runner.cleanup()

    def part(self) -> None:
        """Let nothing pass, and break off what passes now."""
        self.is_parted = True
        self.break_off()

    def mend(self) -> None:
        """Let everything pass as it is."""
        self.faults = {}
        if self.is_parted:
            self.is_parted = False
            # What hangs would hang until its client gives it up.
            self.break_off()

    def break_off(self) -> None:
        for task in self._requests:
            task.cancel()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            return await self._pass_on(request)
        except (aiohttp.ClientError, OSError):
            return self._lost(request)  # The node is away.
        except asyncio.CancelledError:
            if request.transport is not None:
                request.transport.abort()
            raise
        finally:
            self._requests.discard(task)

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        lies = _is_of_copies(request) and self._has("lie")
        if self.is_parted:
            await asyncio.Event().wait()
        self._next.set()
        if self._has("refuse"):
            headers = {hdrs.RETRY_AFTER: "1"} if self.chance.random() < 0.5 else {}
            return web.Response(status=self.chance.choice(_STATUSES), headers=headers)
        if self._has("drop"):
            return self._lost(request)
        if self._has("delay"):
            await asyncio.sleep(self.chance.uniform(0, LONGEST_DELAY_SECONDS))
        if self._has("reorder"):
            await self._hold()
        if self._has("double"):
            async with self._ask(request, body) as first:
                await first.read()
        async with self._ask(request, self._altered(body) if lies else body) as answer:
            self.passed += 1
            if self._has("mute"):
                return self._lost(request)
            return await self._answer(request, answer)

    async def _hold(self) -> None:
        """Wait for another request to pass, a while."""
        self._next = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HOLD_SECONDS):
                await self._next.wait()

    def _ask(
        self, request: web.BaseRequest, body: bytes
    ) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        assert self._session is not None
        headers = [(k, v) for k, v in request.headers.items() if k not in _OF_ONE_HOP]
        return self._session.request(
            request.method,
            self.target + request.path_qs,
            data=body or None,
            headers=headers,
            allow_redirects=False,
            skip_auto_headers=[hdrs.CONTENT_TYPE, hdrs.ACCEPT, hdrs.USER_AGENT],
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def _answer(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        cuts, slows = self._has("cut"), self._has("throttle")
        lies = not _is_of_copies(request) and answer.content_type == _FEED and self._has("lie")
        headers = [(k, v) for k, v in answer.headers.items() if k not in _OF_ONE_HOP]
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        response.headers.extend(headers)
        if cuts or lies:
            # Both need to see the whole to choose a place.
            data = await answer.read()
            response.content_length = len(data) or None
            pieces = [self._altered(data) if lies else data]
            if cuts:
                pieces = [pieces[0][: self.chance.randrange(len(data) + 1)]]
        await response.prepare(request)
        if cuts or lies:
            for piece in pieces:
                await self._write(response, piece, slows)
        else:
            async for piece in answer.content.iter_any():
                await self._write(response, piece, slows)
        if cuts:
            return self._lost(request)
        await response.write_eof()
        return response

    async def _write(self, response: web.StreamResponse, data: bytes, slows: bool) -> None:
        size = _SLOW_PIECE if slows else len(data) or 1
        for start in range(0, len(data), size):
            await response.write(data[start : start + size])
            if slows:
                await asyncio.sleep(_SLOW_SECONDS)

    def _altered(self, data: bytes) -> bytes:
        """The lines of a feed with one byte of one copy altered; the last line is no copy."""
        lines = data.splitlines(keepends=True)
        places = [number for number, line in enumerate(lines[:-1]) if len(line) > 1]
        if not places:
            return data
        number = self.chance.choice(places)
        line = bytearray(lines[number])
        place = self.chance.randrange(len(line) - 1)
        line[place] = self.chance.choice([c for c in range(0x20, 0x7F) if c != line[place]])
        lines[number] = bytes(line)
        return b"".join(lines)

    def _has(self, fault: str) -> bool:
        has = self.chance.random() < self.faults.get(fault, 0.0)
        if has:
            self.suffered[fault] = self.suffered.get(fault, 0) + 1
        return has

    @staticmethod
    def _lost(request: web.BaseRequest) -> web.Response:
        """End the connection without an answer, or without the rest of one."""
        if request.transport is not None:
            request.transport.abort()
        return web.Response()
