"""Delivers events to AMQP 1.0 servers (amqp-protocol-binding.md)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import proton
from cloudevents.core.bindings import amqp
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.model.timestamps import format_time
from catalog.settings import Settings
from catalog.subscriptions.sinks.amqpconnection import AmqpConnection, AmqpLink, AmqpServer
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.protocols import AmqpSettings
from catalog.subscriptions.sinks.sharedconnections import (
    BrokerSink,
    SharedConnections,
    broker_connections,
)
from catalog.subscriptions.sinks.sink import (
    Delivered,
    SinkAnswer,
    SinkConnections,
    SinkRefused,
    send_by_subject,
)
from catalog.subscriptions.stored.subscriptions import Subscription

_FORMAT = JSONFormat()
_MOST_EVENTS = 64


def open_connections(settings: Settings, _: Callable[[], datetime]) -> SinkConnections:
    """The connections of one process to AMQP servers, which AMQP sinks share."""
    return broker_connections(settings, AmqpConnection.connect, AmqpSink)


class AmqpSink(BrokerSink[AmqpServer, AmqpConnection]):
    """The AMQP sink of one subscription."""

    most_events = _MOST_EVENTS

    def __init__(
        self,
        shared: SharedConnections[AmqpServer, AmqpConnection],
        settings: Settings,
        subscription: Subscription,
    ) -> None:
        self._settings = AmqpSettings.model_validate(subscription.definition.settings)
        self._address = self._settings.address_of(subscription.definition.sink)
        self._encode = structured if self._settings.contentmode == "structured" else binary
        self._link: AmqpLink | None = None
        owner = None if self._settings.linkname is None else subscription.id
        server = AmqpServer.of(subscription, self._settings, owner=owner)
        super().__init__(shared, settings, server)

    async def _send(
        self, connection: AmqpConnection, events: Sequence[OutgoingEvent]
    ) -> Sequence[SinkAnswer]:
        answers: Sequence[SinkAnswer] = ()
        try:
            link = self._link_on(connection)
            answers = await send_by_subject(events, partial(self._send_one, link))
            return answers
        finally:
            # The old link may still transfer a message; a new link starts empty.
            if not (answers and isinstance(answers[-1], Delivered)):
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
            return SinkRefused(reason="the sink did not answer in time")

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
    message = amqp.to_binary(event, _FORMAT)
    times = {
        f"{amqp.CE_PREFIX_UNDERSCORE}{name}": format_time(value)
        for name, value in event.get_attributes().items()
        if isinstance(value, datetime)
    }
    return _encode(message, message.application_properties | times)


def structured(event: CloudEvent) -> bytes:
    """An event as an AMQP message whose data is one JSON object (3.2)."""
    return _encode(amqp.to_structured(event, _FORMAT), {})


def _encode(message: amqp.AMQPMessage, properties: dict[str, object]) -> bytes:
    data = message.application_data
    encoded = proton.Message(
        body=data.encode() if isinstance(data, str) else data,
        inferred=True,
        durable=True,
        content_type=message.properties.get("content-type"),
        properties=properties or None,
    ).encode()
    return bytes(encoded)
