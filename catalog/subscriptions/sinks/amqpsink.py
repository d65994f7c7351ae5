"""Delivers events to AMQP 1.0 servers (amqp-protocol-binding.md)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit

import proton
from cloudevents.core.bindings.amqp import (
    CE_PREFIX_UNDERSCORE,
    AMQPMessage,
    to_binary,
    to_structured,
)
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.http.listener import most_outbound_connections
from catalog.model.credentials import PlainCredential
from catalog.model.timestamps import format_time
from catalog.settings import Settings
from catalog.subscriptions.sinks.amqpconnection import (
    AmqpConnection,
    AmqpFailed,
    AmqpLink,
    AmqpServer,
    connect,
)
from catalog.subscriptions.sinks.amqpsettings import AmqpSettings, address_of
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sharedconnections import SharedConnections
from catalog.subscriptions.sinks.sink import (
    Delivered,
    Sink,
    SinkAnswer,
    SinkConnections,
    SinkRefused,
    send_by_subject,
)
from catalog.subscriptions.stored.subscriptions import Subscription

_FORMAT = JSONFormat()
_CONNECT_SECONDS = 10.0
_MOST_EVENTS = 64
_LATE = SinkRefused(reason="the sink did not answer in time")
_PORTS = {"amqp": 5672, "amqps": 5671}


def open_connections(settings: Settings, _: Callable[[], datetime]) -> SinkConnections:
    """The connections of one process to AMQP servers, which AMQP sinks share."""
    shared = SharedConnections(
        partial(connect, settings=settings),
        connect_seconds=min(_CONNECT_SECONDS, settings.delivery_timeout_seconds),
        most_idle=most_outbound_connections(settings) // 2,
    )
    return SinkConnections(open=partial(AmqpSink, shared, settings), close=shared.close)


class AmqpSink(Sink):
    """The AMQP sink of one subscription."""

    most_events = _MOST_EVENTS

    def __init__(
        self,
        connections: SharedConnections[AmqpServer, AmqpConnection],
        settings: Settings,
        subscription: Subscription,
    ) -> None:
        definition, credential = subscription.definition, subscription.credential
        self._connections = connections
        self._seconds = settings.delivery_timeout_seconds
        self._settings = AmqpSettings.model_validate(definition.settings)
        self._address = address_of(definition.sink, self._settings)
        self._encode = structured if self._settings.contentmode == "structured" else binary
        url = urlsplit(definition.sink)
        self._server = AmqpServer(
            host=url.hostname or "",
            port=url.port or _PORTS[url.scheme],
            is_tls=url.scheme == "amqps",
            cacertificate=self._settings.cacertificate,
            credential=credential if isinstance(credential, PlainCredential) else None,
            owner=None if self._settings.linkname is None else subscription.id,
        )
        self._link: AmqpLink | None = None

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        is_delivered = False
        try:
            async with self._connections.hold(self._server) as connection:
                link = self._link_on(connection)
                answers = await send_by_subject(events, partial(self._send_one, link))
                is_delivered = isinstance(answers[-1], Delivered)
                return answers
        except AmqpFailed as failed:
            return [failed.answer]
        except TimeoutError:
            return [_LATE]
        finally:
            # The old link may still transfer a message; a new link starts empty.
            if not is_delivered:
                await self.close()

    async def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    async def _send_one(self, link: AmqpLink, event: OutgoingEvent) -> SinkAnswer:
        try:
            async with asyncio.timeout(self._seconds):
                return await link.send(event.encoded(self._encode))
        except TimeoutError:
            return _LATE

    def _link_on(self, connection: AmqpConnection) -> AmqpLink:
        """The sink's link; a new link after the connection or the server has ended the old link."""
        if self._link is None or not self._link.is_usable:
            name = self._settings.linkname or str(uuid.uuid4())
            self._link = connection.attach(name, self._address, self._settings)
        return self._link


def binary(event: CloudEvent) -> bytes:
    """An event as an AMQP message with its attributes as properties (3.1).

    Times are text, since a timestamp of AMQP has no microseconds.
    """
    message = to_binary(event, _FORMAT)
    times = {
        f"{CE_PREFIX_UNDERSCORE}{name}": format_time(value)
        for name, value in event.get_attributes().items()
        if isinstance(value, datetime)
    }
    return _encode(message, message.application_properties | times)


def structured(event: CloudEvent) -> bytes:
    """An event as an AMQP message whose data is one JSON object (3.2)."""
    return _encode(to_structured(event, _FORMAT), {})


def _encode(message: AMQPMessage, properties: dict[str, object]) -> bytes:
    data = message.application_data
    encoded = proton.Message(
        body=data.encode() if isinstance(data, str) else data,
        inferred=True,
        durable=True,
        content_type=message.properties.get("content-type"),
        properties=properties or None,
    ).encode()
    return bytes(encoded)
