"""Delivers events to subjects of NATS servers (nats-protocol-binding.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from urllib.parse import quote, urlsplit

import nats.errors
import nats.js.errors

from catalog.http.listener import most_outbound_connections
from catalog.model.masking import described
from catalog.settings import Settings
from catalog.subscriptions.sinks.natsconnection import (
    ConnectionEnded,
    NatsConnection,
    NatsMessage,
    NatsServer,
    PublishDenied,
)
from catalog.subscriptions.sinks.natssettings import DEFAULT_PORT, NatsSettings
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sharedconnections import SharedConnections
from catalog.subscriptions.sinks.sink import (
    Delivered,
    Sink,
    SinkAnswer,
    SinkConnections,
    SinkRefused,
    connect_failure,
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


def open_connections(settings: Settings, _: Callable[[], datetime]) -> SinkConnections:
    """The connections of one process to NATS servers, which NATS sinks share."""
    shared: SharedConnections[NatsServer, NatsConnection] = SharedConnections(
        partial(NatsConnection.open, settings=settings),
        connect_seconds=settings.delivery_timeout_seconds,
        most_idle=max(1, most_outbound_connections(settings) // 8),
    )
    return SinkConnections(open=partial(NatsSink, shared), close=shared.close)


class NatsSink(Sink):
    """The NATS sink of one subscription: a subject of a server.

    Where a stream captures the subject, an event is delivered once the stream has acknowledged the
    event; elsewhere, once the server has answered a later ping.
    """

    most_events = _MOST_EVENTS

    def __init__(
        self, shared: SharedConnections[NatsServer, NatsConnection], subscription: Subscription
    ) -> None:
        self._shared = shared
        self._settings = NatsSettings.model_validate(subscription.definition.settings)
        self._delivery = f"{subscription.id}/{subscription.course}"
        parts = urlsplit(subscription.definition.sink)
        self._server = NatsServer(
            host=parts.hostname or "",
            port=parts.port or DEFAULT_PORT,
            uses_tls=parts.scheme == "tls",
            cacertificate=self._settings.cacertificate,
            credential=subscription.credential,
        )

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        try:
            async with self._shared.hold(self._server) as connection:
                return await self._send(connection, events)
        except OSError as error:
            return [connect_failure(error)]

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
