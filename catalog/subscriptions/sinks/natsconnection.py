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

from catalog.config import Settings
from catalog.http.outbound import connect_socket
from catalog.model.masking import described
from catalog.model.sinkcredential import PlainCredential, SinkCredential, TokenCredential
from catalog.operations.cacertificate import tls_context
from catalog.subscriptions.sinks.connectfailure import ConnectionRefusedByServer

# The answers to what this client sends are short.
_MOST_BYTES = 64 * 1024
_MOST_UNACKNOWLEDGED = 64
# How long it is remembered whether a stream captures a subject.
_MEMORY_SECONDS = 30.0
_CLOSE_SECONDS = 1.0
_PING_SECONDS = 30
_DENIED = re.compile(r'permissions violation for publish to "([^"]*)"')
_FIRST_LINE = "NATS/1.0"

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsServer:
    """A server, and how to talk to it: what sinks of one connection have in common."""

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
        """The bytes that servers compare with the most that they take."""
        lines = [_FIRST_LINE, *(f"{name}: {value}" for name, value in self.headers.items()), ""]
        return len(self.payload) + sum(len(line) + 2 for line in lines)


class ConnectionEnded(Exception):
    """A connection ended before the server had answered."""


class PublishDenied(Exception):
    """The server does not permit this client to publish to a subject."""


class _CheckedTransport(TcpTransport):
    """A transport through a socket that is connected already.

    The library would connect to any address, hand over credentials to a server without TLS, and
    take messages of any size; it has no setting for these.
    """

    def __init__(self, connected: socket.socket, *, needs_tls: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._connected = connected
        self._needs_tls = needs_tls
        self.client: Client | None = None

    def __bool__(self) -> bool:
        # The library would put one of its own in the place of one that is not connected yet.
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
        # The library's own way has asyncio warn whenever a server ends the connection.
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
    """A connection that several sinks can use at a time; `open` makes one."""

    def __init__(self, transport: _CheckedTransport, answer_seconds: float) -> None:
        self._transport = transport
        self._seconds = answer_seconds
        self._loop = asyncio.get_running_loop()
        self._client = Client()
        self._client._transport = transport
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._denials: dict[str, asyncio.Future[None]] = {}
        # Whether a stream captures a subject, and until when that is believed.
        self._captured: dict[str, tuple[bool, float]] = {}
        self._window = asyncio.Semaphore(_MOST_UNACKNOWLEDGED)
        self._running: set[asyncio.Task[Any]] = set()
        transport.client = self._client

    @classmethod
    async def open(cls, server: NatsServer, settings: Settings) -> NatsConnection:
        """Connect to a server; the caller bounds the time by cancelling it.

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
                # It connects to no other server, whatever this one announces.
                allow_reconnect=False,
                connect_timeout=int(self._seconds) + 1,
                ping_interval=_PING_SECONDS,
                no_echo=True,
                # Each message is written at once, since a flush would overtake it otherwise.
                pending_size=1,
                tls=tls_context(server.cacertificate),
                tls_hostname=server.host,
                error_cb=self._on_error,
                closed_cb=self._on_closed,
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
        """Whether a stream of JetStream captures a subject, as far as this client may know."""
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
        # There may be none, or this client may neither ask nor get an answer.
        except (nats.js.errors.APIError, PublishDenied, TimeoutError):
            return False
        return True

    async def publish_to_stream(self, message: NatsMessage) -> PubAck:
        """Publish a message, and return the acknowledgement of the stream.

        Messages that are published at the same time are sent in the order of the calls.

        Raises:
            TimeoutError, ConnectionEnded, PublishDenied, nats.errors.Error: there is none.
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
                # The stream may have been deleted, so the next attempt looks for it.
                self._captured.pop(message.subject, None)
                raise

    async def write(self, message: NatsMessage) -> None:
        """Publish a message without an answer; `flush` tells whether the server has it."""
        headers = dict(message.headers) or None
        await self._answer(
            self._client.publish(message.subject, message.payload, headers=headers),
            self._denial(message.subject),
        )

    async def flush(self, subject: str) -> None:
        """Wait until the server has taken everything that was written.

        Raises:
            TimeoutError, ConnectionEnded, PublishDenied: it has not.
        """
        denial = self._denial(subject)
        # The answer to a ping comes after the errors that what came before it has caused.
        await self._answer(self._client.flush(timeout=max(1, int(self._seconds))), denial)

    async def close(self) -> None:
        closing = asyncio.create_task(self._client.close())
        await asyncio.wait([closing], timeout=_CLOSE_SECONDS)
        self._transport.abort()
        self._end()
        await asyncio.wait([closing], timeout=_CLOSE_SECONDS)
        _leave(closing)

    def _denial(self, subject: str) -> asyncio.Future[None]:
        # The library makes errors of the server lower case.
        return self._denials.setdefault(subject.lower(), self._loop.create_future())

    async def _answer(
        self, work: Coroutine[Any, Any, _Result], denial: asyncio.Future[None]
    ) -> _Result:
        """The result of a call of the library, unless something shows that it never will.

        The library swallows cancellations, and is left with a wrong state by others, so the call
        goes on by itself when the caller is cancelled; it has a time-out of its own.
        """
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(_leave)
        waiting: set[asyncio.Future[Any]] = {task, denial, self._ended}
        done, _ = await asyncio.wait(
            waiting,
            timeout=self._seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
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

    async def _on_closed(self) -> None:
        self._end()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


def _leave(task: asyncio.Task[Any]) -> None:
    """Take note of an error that nobody waits for."""
    if task.done() and not task.cancelled():
        task.exception()
