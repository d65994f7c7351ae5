"""Many sinks in one process: `python -m benchmarks.sinks` receives events at many addresses.

For a node, each address of the loopback network is another sink with its own connection.
`GET /count` at 127.0.0.1 returns the number of events, at little cost.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import cast

import uvloop

_HEAD_END = b"\r\n\r\n"
_TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"


class _Sink(asyncio.Protocol):
    """One connection, with one request at a time, whose head arrives in one piece."""

    taken = 0

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
            body = str(_Sink.taken).encode()
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
            return
        else:
            self._awaited = _length(data) - (len(data) - data.index(_HEAD_END) - len(_HEAD_END))
        if self._awaited <= 0:
            self._awaited = 0
            _Sink.taken += 1
            self._transport.write(_TAKEN)


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


def addresses(count: int) -> list[str]:
    """`count` addresses of the loopback network."""
    return [f"127.1.{number // 250}.{1 + number % 250}" for number in range(count)]


async def _serve(port: int, count: int) -> None:
    hosts = ["127.0.0.1", *addresses(count)]
    server = await asyncio.get_running_loop().create_server(_Sink, hosts, port)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    arguments = parser.parse_args()
    uvloop.run(_serve(arguments.port, arguments.count))
