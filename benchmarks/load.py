"""The load generator: keep-alive connections that send requests built beforehand.

It parses as little of a response as possible: an HTTP client library takes more time than the
servers that are measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

_REPLY_SECONDS = 120
_HEAD_END = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"


class LoadError(Exception):
    """A server did not answer, or not with a success."""


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request in flight."""

    def __init__(self) -> None:
        self._received = b""
        self._end = 0
        self._reply: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def request(self, data: bytes) -> bytes:
        """Send a whole request; return the whole response, head and body.

        Raises:
            LoadError: the status is not a success, or the connection was lost.
        """
        assert self._transport is not None, "the connection is made"
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        return await self._reply

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._end:
            self._end = _end_of_response(self._received)
        if self._end and len(self._received) >= self._end:
            response, self._received, self._end = self._received, b"", 0
            self._settle(response)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(LoadError("the server closed the connection"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _settle(self, response: bytes) -> None:
        if self._reply is None or self._reply.done():
            return
        if response[9:10] == b"2":
            self._reply.set_result(response)
        else:
            self._reply.set_exception(LoadError(response[:800].decode(errors="replace")))


def _end_of_response(received: bytes) -> int:
    """The length of the response, or 0 while its head is not complete."""
    head = received.find(_HEAD_END)
    if head < 0:
        return 0
    start = received[:head].lower().find(_LENGTH)
    if start < 0:
        return head + len(_HEAD_END)
    length = received[start + len(_LENGTH) : head].split(b"\r\n", 1)[0]
    return head + len(_HEAD_END) + int(length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The result of one round of load."""

    requests: int
    seconds: float
    generator_cpu: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


@contextlib.asynccontextmanager
async def connected(url: str, count: int) -> AsyncIterator[list[Connection]]:
    """Open `count` connections to the server of a URL."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    connections: list[Connection] = []
    try:
        for _ in range(count):
            _, made = await loop.create_connection(Connection, host, port)
            connections.append(made)
        yield connections
    finally:
        for connection in connections:
            connection.close()


@contextlib.asynccontextmanager
async def requesting(url: str, count: int) -> AsyncIterator[Callable[[bytes], Awaitable[bytes]]]:
    """A function that sends a request over one of `count` connections, once one is free."""
    idle = asyncio.Queue[Connection]()

    async def request(data: bytes) -> bytes:
        connection = await idle.get()
        response = await connection.request(data)
        idle.put_nowait(connection)
        return response

    async with connected(url, count) as connections:
        for connection in connections:
            idle.put_nowait(connection)
        yield request


async def run_load(url: str, streams: Sequence[Iterator[bytes]], seconds: float) -> Round:
    """Keep one request of each stream in flight for `seconds`.

    Raises:
        LoadError
    """
    async with asyncio.timeout(seconds + _REPLY_SECONDS), connected(url, len(streams)) as made:
        started, cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_send_until(connection, stream, started + seconds))
                for connection, stream in zip(made, streams, strict=True)
            ]
        elapsed = time.perf_counter() - started
    return Round(
        requests=sum(task.result() for task in tasks),
        seconds=elapsed,
        generator_cpu=(time.process_time() - cpu) / elapsed,
    )


async def _send_until(connection: Connection, stream: Iterator[bytes], deadline: float) -> int:
    sent = 0
    while time.perf_counter() < deadline:
        await connection.request(next(stream))
        sent += 1
    return sent


def get_request(url: str, path: str, headers: str = "") -> bytes:
    """Build a GET; each line of `headers` ends with CR LF."""
    return f"GET {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n{headers}\r\n".encode()


def send_request(method: str, url: str, path: str, body: bytes, headers: str = "") -> bytes:
    """Build a request with a JSON body; each line of `headers` ends with CR LF."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n{headers}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def body_of(response: bytes) -> bytes:
    return response.partition(_HEAD_END)[2]
