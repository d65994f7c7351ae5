"""Many sinks in one process: `python -m benchmarks.sinks` receives events at many addresses.

For a node, each address of the loopback network is another sink with its own connection. Some may
be slow, and others take events and never answer. At 127.0.0.1, at little cost, `GET /count` returns
the number of events that the others have received, `GET /arrivals` the times of those since it was
asked last (CLOCK_MONOTONIC), and `GET /request` the bytes of the last one.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from array import array
from typing import cast

import uvloop

SLOW_SECONDS = 2.0
_HEAD_END = b"\r\n\r\n"
_TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"


class _Sink(asyncio.Protocol):
    """One connection, with one request at a time, whose head arrives in one piece."""

    taken = 0
    arrivals = array("d")
    request = b""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._awaited = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None, "the connection is made"
        if self._awaited:
            self._awaited -= len(data)
        elif data.startswith(b"GET"):
            body = _told(data)
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
            return
        else:
            self._awaited = _length(data) - (len(data) - data.index(_HEAD_END) - len(_HEAD_END))
            _Sink.request = data
        if self._awaited <= 0:
            self._awaited = 0
            self.take(self._transport)

    def take(self, transport: asyncio.Transport) -> None:
        _Sink.taken += 1
        _Sink.arrivals.append(time.perf_counter())
        transport.write(_TAKEN)


class _SlowSink(_Sink):
    def take(self, transport: asyncio.Transport) -> None:
        asyncio.get_running_loop().call_later(SLOW_SECONDS, transport.write, _TAKEN)


class _SilentSink(_Sink):
    def take(self, transport: asyncio.Transport) -> None:
        """Never answer."""


def _told(request: bytes) -> bytes:
    if request.startswith(b"GET /arrivals "):
        found = _Sink.arrivals.tobytes()
        del _Sink.arrivals[:]
        return found
    return _Sink.request if request.startswith(b"GET /request ") else str(_Sink.taken).encode()


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


def addresses(count: int, *, network: int = 1) -> list[str]:
    """`count` addresses of the loopback network: 1 has sinks, 2 slow ones, 3 silent ones."""
    return [f"127.{network}.{number // 250}.{1 + number % 250}" for number in range(count)]


async def _serve(port: int, count: int, sick: int) -> None:
    loop = asyncio.get_running_loop()
    hosts = ["127.0.0.1", *addresses(count)]
    server = await loop.create_server(_Sink, hosts, port)
    for number, kind in enumerate((_SlowSink, _SilentSink) if sick else (), 2):
        await loop.create_server(kind, addresses(sick, network=number), port)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--sick", type=int, default=0, help="as many are slow, and as many silent")
    arguments = parser.parse_args()
    uvloop.run(_serve(arguments.port, arguments.count, arguments.sick))
