"""Accepts the connections of clients, within the file descriptors of the process."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from aiohttp import web

from catalog.http.clientconnections import ClientConnection, ClientConnections, refusal
from catalog.model.errors import XRegistryError
from catalog.settings import Settings

# More descriptors than a node needs.
_MOST = 65_536
# For listeners, the processes that check documents, files, and descriptors of libraries.
_OTHERS = 64
_LEAST_OF_CLIENTS = 16
# Deliveries to a few thousand sinks keep a connection for each sink.
_MOST_IDLE = 1024
_log = structlog.get_logger()
_BACKLOG = 1024
_BATCH = 64
_PAUSE_SECONDS = 0.2
_QUIET_SECONDS = 60.0
# The time that a refused client has to read the answer: closing a connection while the request
# arrives can lose the answer.
_REFUSED_SECONDS = 1.0
_MOST_REFUSED = 64


def raise_descriptor_limit() -> None:
    """Let the process open as many files as the system allows, up to 65536."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(_MOST, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    # Some systems allow fewer descriptors than the stated limit.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_client_connections(settings: Settings) -> int:
    """The most clients that may be connected at a time: the number of the settings, or fewer if
    the process has few descriptors."""
    outbound = most_outbound_connections(settings)
    # Two sessions, to sinks and to other catalogs; the latter keeps half as many idle connections.
    rest = _descriptors() - 2 * outbound - outbound // 2 - most_idle_sink_connections()
    rest -= settings.database_connections + _OTHERS
    return max(_LEAST_OF_CLIENTS, min(settings.max_connections, rest))


def most_outbound_connections(settings: Settings) -> int:
    """The most connections to other servers that a session may use at a time."""
    return max(1, min(settings.max_outbound_connections, _descriptors() // 8))


def most_idle_sink_connections() -> int:
    """The most idle connections to sinks that are kept open."""
    return max(1, min(_MOST_IDLE, _descriptors() // 16))


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else soft


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Listening sockets, and the URL of the sockets.

    A process of a node that serves no clients has no sockets.

    Args:
        sockets: the sockets.
        url: the URL at which clients reach the sockets.
        is_shared: whether several processes accept connections from the same sockets.
    """

    sockets: Sequence[socket.socket]
    url: str
    is_shared: bool = False


async def listen(host: str, port: int, *, is_tls: bool = False) -> Listening:
    """Listen on every address of `host`, on the same port.

    Raises:
        OSError: an address is in use, or does not belong to the machine.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
    )
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((each[0], each[4][0]) for each in found):
            opened = socket.create_server((str(address), port), family=family, backlog=_BACKLOG)
            opened.setblocking(False)
            sockets.append(opened)
            port = opened.getsockname()[1]
    except OSError:
        for opened in sockets:
            opened.close()
        raise
    name = host if host not in ("0.0.0.0", "::") else "localhost"
    scheme = "https" if is_tls else "http"
    place = f"[{name}]" if ":" in name else name
    return Listening(sockets=sockets, url=f"{scheme}://{place}:{port}")


@contextlib.asynccontextmanager
async def accepting(
    listening: Listening,
    server: web.Server,
    connections: ClientConnections,
    tls: Tls | None = None,
) -> AsyncIterator[None]:
    """Serve clients that connect, and close the sockets at the end."""
    batch = 1 if listening.is_shared else _BATCH
    listeners = [
        Listener(each, server, connections, tls, batch=batch) for each in listening.sockets
    ]
    for listener in listeners:
        listener.begin()
    try:
        yield
    finally:
        for listener in listeners:
            listener.end()


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS that ends at the node: a client counts as connected during the handshake."""

    context: ssl.SSLContext
    handshake_seconds: float


class Listener:
    """Accepts connections on one socket.

    If `accept` fails for lack of descriptors, uvloop closes the listening socket without an error,
    and asyncio logs the failure again and again. `Listener` waits until descriptors are free.
    """

    def __init__(
        self,
        listening: socket.socket,
        server: web.Server,
        connections: ClientConnections,
        tls: Tls | None = None,
        *,
        batch: int = _BATCH,
    ) -> None:
        self._socket = listening
        # Processes that share a socket accept one connection at a time, for equal shares.
        self._batch = batch
        self._server = server
        self._connections = connections
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused: set[socket.socket] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._quiet_until = 0.0

    def begin(self) -> None:
        self._loop.add_reader(self._socket, self._accept)

    def end(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)
        for each in (self._socket, *self._refused):
            each.close()

    def _accept(self) -> None:
        for _ in range(self._batch):
            try:
                client, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as lack:
                self._wait(lack)
                return
            client.setblocking(False)
            error = self._connections.why_refused(address[0])
            if error is not None:
                self._refuse(client, error)
                continue
            connection = self._connections.new(self._server, address[0])
            task = self._loop.create_task(self._serve(client, connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: socket.socket, connection: ClientConnection) -> None:
        tls: dict[str, Any] = {}
        if self._tls is not None:
            tls["ssl"] = self._tls.context
            tls["ssl_handshake_timeout"] = self._tls.handshake_seconds
        try:
            await self._loop.connect_accepted_socket(lambda: connection, client, **tls)
        except OSError:
            self._connections.remove(connection)
            client.close()

    def _refuse(self, client: socket.socket, error: XRegistryError) -> None:
        if self._tls is not None:
            # A client of TLS would not read an answer before the handshake.
            client.close()
            return
        with contextlib.suppress(OSError):
            client.send(refusal(error))
        if len(self._refused) >= _MOST_REFUSED:
            client.close()
            return
        self._refused.add(client)

        def close() -> None:
            self._refused.discard(client)
            client.close()

        self._loop.call_later(_REFUSED_SECONDS, close)

    def _wait(self, error: OSError) -> None:
        """Pause accepting, and log the error unless it was logged within the last minute."""
        self._loop.remove_reader(self._socket)
        self._pause = self._loop.call_later(_PAUSE_SECONDS, self.begin)
        now = self._loop.time()
        if now >= self._quiet_until:
            _log.error("connections cannot be accepted", error=error.strerror)
        self._quiet_until = now + _QUIET_SECONDS
