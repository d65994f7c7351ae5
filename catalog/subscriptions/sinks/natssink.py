"""Delivers events to subjects of NATS and JetStream servers (nats-protocol-binding.md).

nats-py opens its connections itself, to unchecked addresses, and has no setting for a socket: the
connection reads members of its client that are not public, which the version in pyproject.toml has.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import ParseResult, quote

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from nats.js.api import PubAck

from catalog.http.outboundconnections import connect_socket
from catalog.model.credentials import TokenCredential
from catalog.model.masking import described
from catalog.operations.peercredentials import tls_context
from catalog.settings import Settings
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.protocols import NatsSettings
from catalog.subscriptions.sinks.sharedconnections import (
    BrokerServer,
    BrokerSink,
    SharedConnections,
    broker_connections,
    take_error,
)
from catalog.subscriptions.sinks.sink import (
    Delivered,
    SinkAnswer,
    SinkConnections,
    SinkRefused,
    connection_refused,
    send_by_subject,
)
from catalog.subscriptions.stored.subscriptions import Subscription

_MOST_EVENTS = 100
_STRUCTURED_HEADERS = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
# Every visible character, except the quotation mark and the percent sign (3.1.3.2).
_UNQUOTED = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
# The message is larger than the stream takes.
_FINAL = frozenset({10054})
_TOO_LARGE = SinkRefused(reason="the event is larger than the sink accepts", is_final=True)
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
    async def open(cls, server: BrokerServer, settings: Settings) -> NatsConnection:
        """Connect to a server; the caller bounds the time by cancelling the call.

        Raises:
            OSError: the server cannot be reached, its TLS connection is not acceptable
                (`ssl.SSLError`), or it does not accept the client (`SinkFailed`).
        """
        connected = await connect_socket(server.host, server.port, settings)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport = _CheckedTransport(connected, needs_tls=server.is_tls)
        connection = cls(transport, settings.delivery_timeout_seconds)
        try:
            await connection._connect(server)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _connect(self, server: BrokerServer) -> None:
        host = f"[{server.host}]" if ":" in server.host else server.host
        login, credential = server.login, server.credential
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
                user=None if login is None else login.identifier,
                password=None if login is None else login.secret,
                token=credential.token if isinstance(credential, TokenCredential) else None,
            )
        except OSError:
            raise
        except nats.errors.Error as error:
            if "authorization" in str(error).lower():
                reason = "Authorization Violation"
                raise connection_refused(reason, is_unauthorized=True) from error
            raise ConnectionError(described(error)) from error
        # Malformed JSON of a server causes errors of every kind in the library.
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
        """Publish a message, and return the acknowledgement of the stream; raises as `_answer`.

        Concurrent messages are sent in the order of the calls.
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
        """Wait until the server has taken every message written before; raises as `_answer`."""
        denial = self._denial(subject)
        # The server answers a ping after the errors that earlier messages have caused.
        await self._answer(self._client.flush(timeout=max(1, int(self._seconds))), denial)

    async def close(self) -> None:
        # A server that takes no bytes would hold up the library's `close`: the socket is aborted.
        closing = asyncio.create_task(self._client.close())
        closing.add_done_callback(take_error)
        await asyncio.wait([closing], timeout=_CLOSE_SECONDS)
        self._transport.abort()
        await self._end()
        await asyncio.wait([closing], timeout=_CLOSE_SECONDS)

    def _denial(self, subject: str) -> asyncio.Future[None]:
        # The library converts error messages of the server to lower case.
        return self._denials.setdefault(subject.lower(), self._loop.create_future())

    async def _answer(
        self, work: Coroutine[Any, Any, _Result], denial: asyncio.Future[None]
    ) -> _Result:
        """The result of a library call, unless the call cannot succeed any more.

        The library swallows some cancellations, and the rest leave an inconsistent state. If the
        caller is cancelled, the call therefore goes on until its own time-out.

        Raises:
            TimeoutError, ConnectionEnded, PublishDenied, nats.errors.Error
        """
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(take_error)
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


def open_connections(settings: Settings, _: Callable[[], datetime]) -> SinkConnections:
    """The connections of one process to NATS servers, which NATS sinks share."""
    return broker_connections(settings, NatsConnection.open, NatsSink)


class NatsSink(BrokerSink[BrokerServer, NatsConnection]):
    """The NATS sink of one subscription: a subject of a server.

    Where a stream captures the subject, an event is delivered once the stream has acknowledged the
    event; elsewhere, once the server has answered a later ping.
    """

    most_events = _MOST_EVENTS

    def __init__(
        self,
        shared: SharedConnections[BrokerServer, NatsConnection],
        settings: Settings,
        subscription: Subscription,
    ) -> None:
        self._settings = NatsSettings.model_validate(subscription.definition.settings)
        self._delivery = f"{subscription.id}/{subscription.course}"
        super().__init__(shared, settings, BrokerServer.of(subscription, self._settings))

    async def _send(
        self, connection: NatsConnection, events: Sequence[OutgoingEvent]
    ) -> Sequence[SinkAnswer]:
        if not connection.takes_headers and self._settings.contentmode == "binary":
            return [SinkRefused(reason="the sink takes no headers; it needs structured events")]
        try:
            is_captured = await connection.is_captured(self._settings.subject)
        except Exception as error:
            return [await _failed(connection, error)]
        if is_captured:
            return await send_by_subject(events, partial(self._send_to_stream, connection))
        return await self._send_and_flush(connection, events)

    async def _send_to_stream(self, connection: NatsConnection, event: OutgoingEvent) -> SinkAnswer:
        message = self._message(event, connection)
        if message.size > connection.most_bytes:
            return _TOO_LARGE
        try:
            acknowledged = await connection.publish_to_stream(message)
        except Exception as error:
            return await _failed(connection, error)
        is_repeat = acknowledged.duplicate is True
        return Delivered(detail="the stream had it already" if is_repeat else "stored")

    async def _send_and_flush(
        self, connection: NatsConnection, events: Sequence[OutgoingEvent]
    ) -> list[SinkAnswer]:
        messages = [self._message(event, connection) for event in events]
        too_large = (n for n, each in enumerate(messages) if each.size > connection.most_bytes)
        fitting = next(too_large, len(messages))
        try:
            for message in messages[:fitting]:
                await connection.write(message)
            if fitting:
                await connection.flush(self._settings.subject)
        except Exception as error:
            return [await _failed(connection, error)]
        answers: list[SinkAnswer] = [Delivered(detail="sent")] * fitting
        return answers if fitting == len(events) else [*answers, _TOO_LARGE]

    def _message(self, event: OutgoingEvent, connection: NatsConnection) -> NatsMessage:
        is_structured = self._settings.contentmode == "structured"
        headers = _STRUCTURED_HEADERS
        if not is_structured:
            headers = {f"ce-{name}": _quoted(value) for name, value in event.texts.items()}
        named = {**headers, "Nats-Msg-Id": self._message_id(event)}
        return NatsMessage(
            subject=self._settings.subject,
            payload=event.structured if is_structured else event.data,
            headers=named if connection.takes_headers else {},
        )

    def _message_id(self, event: OutgoingEvent) -> str:
        """The message id by which a stream recognises a repeated event.

        Source and id together identify an event. A stream drops a second message with the same id,
        so the message id also contains the subscription and its last replay: each subscription that
        writes to the stream delivers its own copy of an event, and a replay delivers the event once
        more.
        """
        source, id = event.texts["source"], event.texts["id"]
        return "#".join(_quoted(part) for part in (self._delivery, source, id))


def _quoted(value: str) -> str:
    return quote(value, safe=_UNQUOTED)


async def _failed(connection: NatsConnection, error: Exception) -> SinkRefused:
    cause = described(error)
    match error:
        case PublishDenied():
            return SinkRefused(reason="the sink does not permit to publish to the subject")
        case nats.js.errors.NoStreamResponseError():
            return SinkRefused(reason="no stream captures the subject any more")
        case nats.js.errors.APIError(err_code=code):
            reason = f"the stream refused the event with error {code}"
            return SinkRefused(reason=reason, cause=cause, is_final=code in _FINAL)
        case ConnectionEnded() | nats.errors.ConnectionClosedError():
            reason = "the sink ended the connection before it acknowledged the event"
            return SinkRefused(reason=reason)
        case TimeoutError() | asyncio.TimeoutError():
            # A late answer could be taken for the answer to a later message.
            await connection.close()
            return SinkRefused(reason="the sink did not answer in time")
        case _:
            await connection.close()
            return SinkRefused(reason="the sink did not answer as NATS has it", cause=cause)
