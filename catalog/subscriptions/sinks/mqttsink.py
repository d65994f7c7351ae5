"""Delivers events to topics of MQTT servers (mqtt-protocol-binding.md)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from urllib.parse import urlsplit

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from catalog.http.listener import most_outbound_connections
from catalog.model.credentials import PlainCredential
from catalog.settings import Settings
from catalog.subscriptions.sinks.mqttconnection import (
    MqttConnection,
    MqttLimits,
    MqttMessage,
    MqttServer,
)
from catalog.subscriptions.sinks.mqttsettings import (
    DEFAULT_PORT,
    DEFAULT_TLS_PORT,
    Mqtt3Settings,
    Mqtt5Settings,
)
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
_STRUCTURED_TYPE = "application/cloudevents+json; charset=utf-8"
# Topic name invalid, packet too large, payload format invalid (MQTT 5.0 2.4).
_FINAL = frozenset({0x90, 0x95, 0x99})
_TOO_LARGE = "the event is larger than the sink accepts"


def open_connections(settings: Settings, _: Callable[[], datetime]) -> SinkConnections:
    """The connections of one process to MQTT servers, which MQTT sinks share."""
    seconds = settings.delivery_timeout_seconds
    shared: SharedConnections[MqttServer, MqttConnection] = SharedConnections(
        partial(MqttConnection.open, settings=settings),
        connect_seconds=seconds,
        most_idle=max(1, most_outbound_connections(settings) // 8),
    )
    return SinkConnections(open=partial(MqttSink, shared, seconds), close=shared.close)


class MqttSink(Sink):
    """The MQTT sink of one subscription: a topic of a server."""

    most_events = _MOST_EVENTS

    def __init__(
        self,
        shared: SharedConnections[MqttServer, MqttConnection],
        answer_seconds: float,
        subscription: Subscription,
    ) -> None:
        definition, credential = subscription.definition, subscription.credential
        is_5 = definition.protocol == "MQTT5"
        model = Mqtt5Settings if is_5 else Mqtt3Settings
        self._settings = model.model_validate(definition.settings)
        self._shared = shared
        self._answer_seconds = answer_seconds
        parts = urlsplit(definition.sink)
        uses_tls = parts.scheme == "mqtts"
        self._server = MqttServer(
            host=parts.hostname or "",
            port=parts.port or (DEFAULT_TLS_PORT if uses_tls else DEFAULT_PORT),
            version=5 if is_5 else 3,
            uses_tls=uses_tls,
            cacertificate=self._settings.cacertificate,
            credential=credential if isinstance(credential, PlainCredential) else None,
        )

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        try:
            async with self._shared.hold(self._server) as connection:
                return await send_by_subject(events, partial(self._publish, connection))
        except OSError as error:
            return [connect_failure(error)]

    async def _publish(self, connection: MqttConnection, event: OutgoingEvent) -> SinkAnswer:
        message = self._message(event)
        if message is None:
            return SinkRefused(reason="an attribute is too long for MQTT", is_final=True)
        refusal = _why_not(message, connection.limits)
        if refusal is not None:
            return refusal
        try:
            async with asyncio.timeout(self._answer_seconds):
                return _answer(await connection.publish(message))
        except TimeoutError:
            # A late answer could no longer be matched to the event, so the connection ends.
            await connection.close()
            return SinkRefused(reason="the sink did not answer in time")

    def _message(self, event: OutgoingEvent) -> MqttMessage | None:
        """The message of an event; `None` if MQTT cannot encode the event."""
        settings = self._settings
        is_structured = settings.contentmode == "structured"
        properties = None
        if isinstance(settings, Mqtt5Settings):
            properties = _properties(settings, event)
            try:
                properties.pack()
            except (struct.error, ValueError):
                return None
        return MqttMessage(
            topic=settings.topicname,
            payload=event.structured if is_structured else event.data,
            qos=settings.qos,
            retain=settings.retain,
            properties=properties,
        )


def _why_not(message: MqttMessage, limits: MqttLimits) -> SinkRefused | None:
    if message.qos > limits.qos:
        return SinkRefused(reason=f"the sink takes no messages of QoS {message.qos}")
    if message.retain and not limits.retains:
        return SinkRefused(reason="the sink retains no messages")
    if limits.packet_bytes is not None and message.size > limits.packet_bytes:
        return SinkRefused(reason=_TOO_LARGE, is_final=True)
    return None


def _properties(settings: Mqtt5Settings, event: OutgoingEvent) -> Properties:
    properties = Properties(PacketTypes.PUBLISH)
    pairs = list(settings.userproperties.items())
    if settings.contentmode == "structured":
        properties.ContentType = _STRUCTURED_TYPE
    else:
        attributes = {**event.texts}
        content_type = attributes.pop("datacontenttype", None)
        if content_type is not None:
            properties.ContentType = content_type
        # An attribute of the event takes precedence over a property of the same name.
        pairs = [*attributes.items(), *(pair for pair in pairs if pair[0] not in attributes)]
    if pairs:
        properties.UserProperty = pairs
    if settings.expiry is not None:
        properties.MessageExpiryInterval = settings.expiry
    return properties


def _answer(reason: ReasonCode | None) -> SinkAnswer:
    if reason is None:
        return SinkRefused(reason="the sink ended the connection before it acknowledged the event")
    if not reason.is_failure:
        return Delivered(detail=str(reason))
    return SinkRefused(reason=f"the sink answered: {reason}", is_final=reason.value in _FINAL)
