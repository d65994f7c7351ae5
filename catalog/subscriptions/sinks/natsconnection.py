"""A connection to a NATS server that publishes, with JetStream or without."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import ParseResult

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from nats.js.api import PubAck

from catalog.http.outbound import connect_socket
from catalog.model.credentials import PlainCredential, SinkCredential, TokenCredential
from catalog.model.masking import described
from catalog.operations.cacertificate import tls_context
from catalog.settings import Settings
from catalog.subscriptions.sinks.sink import ConnectionRefusedByServer

# The server's answers to this client are short.
_MOST_BYTES = 64 * 1024
_MOST_UNACKNOWLEDGED = 64
# How long the connection remembers whether a stream captures a subject.
_MEMORY_SECONDS = 30.0
_CLOSE_SECONDS = 1.0
_PING_SECONDS = 30
_DENIED = re.compile(r'permissions violation for publish to "([^"]*)"')
_FIRST_LINE = "NATS/1.0"

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsServer:
    """The address and credential of a server, equal for sinks that share a connection."""

    host: str
    port: int
    uses_tls: bool
    cacertificate: str | None
    credential: SinkCredential | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsMessage:
    """A message."""

    subject: str
    payload: bytes
    headers: Mapping[str, str]

    @property
    def size(self) -> int:
        """The number of bytes that a server compares with its limit."""
        lines = [_FIRST_LINE, *(f"{name}: {value}" for name, value in self.headers.items()), ""]
        return len(self.payload) + sum(len(line) + 2 for line in lines)


class ConnectionEnded(Exception):
    """A connection ended before the server had answered."""


class PublishDenied(Exception):
    """The server does not permit this client to publish to a subject."""


class _CheckedTransport(TcpTransport):
    """A transport through a socket that is connected already.

    The library would connect to unchecked addresses, send credentials to a server without TLS, and
    accept messages of unlimited size, without a setting to prevent either.
    """

    def __init__(self, connected: socket.socket, *, needs_tls: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._connected = connected
        self._needs_tls = needs_tls
        self.client: Client | None = None

    def __bool__(self) -> bool:
        # The library would replace an unconnected transport by its own transport.
        return True

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        reader, writer = await asyncio.open_connection(sock=self._connected, limit=buffer_size)
        self._bare_io_reader = self._io_reader = reader
        self._bare_io_writer = self._io_writer = writer

    async def connect_tls(
        self,
        uri: str | ParseResult,
        ssl_context: ssl.SSLContext,
        buffer_size: int,
        connect_timeout: int,
    ) -> None:
        assert self._io_writer is not None
        host = uri if isinstance(uri, str) else uri.hostname
        # With the library's own method, asyncio warns whenever a server ends the connection.
        await self._io_writer.start_tls(ssl_context, server_hostname=host)
        self._needs_tls = False

    def write(self, payload: bytes) -> None:
        if self._needs_tls:
            raise ssl.SSLError("the server offers no TLS")
        super().write(payload)  # type: ignore[no-untyped-call]

    async def read(self, buffer_size: int) -> bytes:
        if self.client is not None and len(self.client._ps.buf) > _MOST_BYTES:
            raise ConnectionError("the server sent a message that is too long")
        return bytes(await super().read(buffer_size))

    def abort(self) -> None:
        for writer in (self._io_writer, self._bare_io_writer):
            if writer is not None:
                writer.transport.abort()
        self._connected.close()


class NatsConnection:
    """A connection that several sinks can use at a time; created by `open`."""

    def __init__(self, transport: _CheckedTransport, answer_seconds: float) -> None:
        self._transport = transport
        self._seconds = answer_seconds
        self._loop = asyncio.get_running_loop()
        self._client = Client()
        self._client._transport = transport
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._denials: dict[str, asyncio.Future[None]] = {}
        # Whether a stream captures a subject, and how long to rely on the answer.
        self._captured: dict[str, tuple[bool, float]] = {}
        self._window = asyncio.Semaphore(_MOST_UNACKNOWLEDGED)
        self._running: set[asyncio.Task[Any]] = set()
        transport.client = self._client

    @classmethod
    async def open(cls, server: NatsServer, settings: Settings) -> NatsConnection:
        """Connect to a server; the caller bounds the time by cancelling the call.

        Raises:
            OSError: the server cannot be reached, its TLS connection is not acceptable
                (`ssl.SSLError`), or it does not accept the client (`ConnectionRefusedByServer`).
        """
        connected = await connect_socket(server.host, server.port, settings)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = _CheckedTransport(connected, needs_tls=server.uses_tls)
        connection = cls(transport, settings.delivery_timeout_seconds)
        try:
            await connection._connect(server)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _connect(self, server: NatsServer) -> None:
        host = f"[{server.host}]" if ":" in server.host else server.host
        credential = server.credential
        plain = credential if isinstance(credential, PlainCredential) else None
        token = credential.token if isinstance(credential, TokenCredential) else None
        try:
            await self._client.connect(
                f"nats://{host}:{server.port}",
                name="concord",
                # Servers announce further servers, to which the client must not connect.
                allow_reconnect=False,
                connect_timeout=int(self._seconds) + 1,
                ping_interval=_PING_SECONDS,
                no_echo=True,
                # Each message is written at once; a flush would overtake buffered messages.
                pending_size=1,
                tls=tls_context(server.cacertificate),
                tls_hostname=server.host,
                error_cb=self._on_error,
                closed_cb=self._end,
                user=None if plain is None else plain.identifier,
                password=None if plain is None else plain.secret,
                token=token,
            )
        except OSError:
            raise
        except nats.errors.Error as error:
            if "authorization" in str(error).lower():
                reason = "Authorization Violation"
                raise ConnectionRefusedByServer(reason, is_unauthorized=True) from error
            raise ConnectionError(described(error)) from error
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ConnectionError(f"the server speaks no NATS: {described(error)}") from error

    @property
    def is_open(self) -> bool:
        return self._client.is_connected and not self._ended.done()

    @property
    def takes_headers(self) -> bool:
        return self._client._server_info.get("headers") is True

    @property
    def most_bytes(self) -> int:
        return self._client.max_payload

    async def is_captured(self, subject: str) -> bool:
        """Whether a JetStream stream captures a subject, as far as the client may know."""
        is_captured, until = self._captured.get(subject, (False, 0.0))
        if until < self._loop.time():
            is_captured = await self._has_stream(subject)
            self._captured[subject] = is_captured, self._loop.time() + _MEMORY_SECONDS
        return is_captured

    async def _has_stream(self, subject: str) -> bool:
        manager = self._client.jsm(timeout=self._seconds)
        denial = self._denial("$JS.API.STREAM.NAMES")
        try:
            await self._answer(manager.find_stream_name_by_subject(subject), denial)
        # No stream may exist, or the client may lack the permission to ask or to get the answer.
        except (nats.js.errors.APIError, PublishDenied, TimeoutError):
            return False
        return True

    async def publish_to_stream(self, message: NatsMessage) -> PubAck:
        """Publish a message, and return the acknowledgement of the stream.

        Concurrent messages are sent in the order of the calls.

        Raises:
            TimeoutError, ConnectionEnded, PublishDenied, nats.errors.Error: not acknowledged.
        """
        denial = self._denial(message.subject)
        stream = self._client.jetstream(timeout=self._seconds)
        publishing = stream.publish(
            message.subject, message.payload, headers=dict(message.headers) or None
        )
        async with self._window:
            try:
                return await self._answer(publishing, denial)
            except (nats.js.errors.NoStreamResponseError, TimeoutError):
                # The stream may have been deleted: the next attempt looks for a stream again.
                self._captured.pop(message.subject, None)
                raise

    async def write(self, message: NatsMessage) -> None:
        """Publish a message without an answer; `flush` tells whether the server has the message."""
        headers = dict(message.headers) or None
        await self._answer(
            self._client.publish(message.subject, message.payload, headers=headers),
            self._denial(message.subject),
        )

    async def flush(self, subject: str) -> None:
        """Wait until the server has taken every message written before.

        Raises:
            TimeoutError, ConnectionEnded, PublishDenied: the server has not.
        """
        denial = self._denial(subject)
        # The server answers a ping after the errors that earlier messages have caused.
        await self._answer(self._client.flush(timeout=max(1, int(self._seconds))), denial)

    async def close(self) -> None:
        # A server that takes no bytes would hold up the library's `close`: the socket is aborted.
        closing = asyncio.create_task(self._client.close())
        await asyncio.wait([closing], timeout=_CLOSE_SECONDS)
        self._transport.abort()
        await self._end()
        await asyncio.wait([closing], timeout=_CLOSE_SECONDS)
        _leave(closing)

    def _denial(self, subject: str) -> asyncio.Future[None]:
        # The library converts error messages of the server to lower case.
        return self._denials.setdefault(subject.lower(), self._loop.create_future())

    async def _answer(
        self, work: Coroutine[Any, Any, _Result], denial: asyncio.Future[None]
    ) -> _Result:
        """The result of a library call, unless the call cannot succeed any more.

        The library swallows some cancellations, and the rest leave an inconsistent state. If the
        caller is cancelled, the call therefore goes on until its own time-out.
        """
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(_leave)
        waiting: set[asyncio.Future[Any]] = {task, denial, self._ended}
        done, _ = await asyncio.wait(
            waiting, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED
        )
        # Checked first: a flush succeeds even if the server has denied the messages before.
        if denial in done:
            raise PublishDenied
        if task in done:
            return task.result()
        raise ConnectionEnded if self._ended in done else TimeoutError

    async def _on_error(self, error: Exception) -> None:
        denied = _DENIED.search(str(error).lower())
        if denied is not None:
            denial = self._denials.pop(denied[1], None)
            if denial is not None:
                denial.set_result(None)

    async def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


def _leave(task: asyncio.Task[Any]) -> None:
    """Retrieve an error without a waiting caller, which asyncio would log otherwise."""
    if task.done() and not task.cancelled():
        task.exception()
