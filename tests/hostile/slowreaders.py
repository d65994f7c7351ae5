"""Clients that ask for large answers again and again, and hardly read them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_RECEIVE_BUFFER = 4096
_PACE_SECONDS = 0.2


@dataclass(slots=True)
class SlowReaders:
    """The number of answers by status, and the refusals."""

    statuses: Counter[int] = field(default_factory=Counter)
    refusals: list[str] = field(default_factory=list)

    async def read(self, url: str, path: str, address: str, bytes_per_second: int) -> None:
        """Ask from an address of this machine, and read at a pace; begin again at the end."""
        loop, node = asyncio.get_running_loop(), urlsplit(url)
        request = f"GET {path} HTTP/1.1\r\nHost: {node.netloc}\r\nConnection: close\r\n\r\n"
        while True:
            with socket.socket() as connection:
                connection.setblocking(False)
                # Before connecting: the window that the node sees is small from the beginning.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
                connection.bind((address, 0))
                await loop.sock_connect(connection, (node.hostname, node.port))
                await asyncio.sleep(_PACE_SECONDS)  # before it asks, again
                await loop.sock_sendall(connection, request.encode())
                begin = await loop.sock_recv(connection, 4096)
                status = int(begin.split()[1])
                self.statuses[status] += 1
                if status != 200:
                    self.refusals.append(begin.decode())
                    continue
                with contextlib.suppress(ConnectionError):
                    while await loop.sock_recv(connection, round(bytes_per_second * _PACE_SECONDS)):
                        await asyncio.sleep(_PACE_SECONDS)  # the pace of this client


@contextlib.asynccontextmanager
async def slow_readers(
    url: str, paths: Sequence[str], *, address: str = "127.0.0.1", bytes_per_second: int = 23_000
) -> AsyncIterator[SlowReaders]:
    """One reader of each path at the same time."""
    readers = SlowReaders()
    tasks = [
        asyncio.create_task(readers.read(url, path, address, bytes_per_second)) for path in paths
    ]
    try:
        yield readers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
