"""Delivers events to topics of MQTT servers (mqtt-protocol-binding.md).

paho would connect in a thread and to unchecked addresses, and has no settings for this: the client
overrides methods that are not public, which the version in pyproject.toml has.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal

from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MessageState, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from catalog.http.outboundconnections import connect_socket
from catalog.operations.peercredentials import tls_context
from catalog.settings import Settings
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.protocols import Mqtt3Settings, Mqtt5Settings
from catalog.subscriptions.sinks.sharedconnections import (
    BrokerServer,
    BrokerSink,
    SharedConnections,
    broker_connections,
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
_STRUCTURED_TYPE = "application/cloudevents+json; charset=utf-8"
# Topic name invalid, packet too large, payload format invalid (MQTT 5.0 2.4).
_FINAL = frozenset({0x90, 0x95, 0x99})
_TOO_LARGE = "the event is larger than the sink accepts"
# The server's answers to this client are short.
_MOST_BYTES = 64 * 1024
_MOST_UNACKNOWLEDGED = 64
_KEEPALIVE_SECONDS = 60
_CHECK_SECONDS = 15.0
_READS = 100
_ANSWERS = frozenset({mqtt.CONNACK, mqtt.PUBACK, mqtt.PUBREC, mqtt.PUBCOMP, mqtt.PINGRESP})
_DISCONNECT = 0xE0
_FAILURE = 0x80
_LAST_QOS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttServer(BrokerServer):
    """A server, and the version of the protocol."""

    version: Literal[3, 5]


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttMessage:
    """A message; MQTT 3.1.1 has no properties."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties | None = None

    @property
    def size(self) -> int:
        """The size of the packet in bytes."""
        rest = 2 + len(self.topic.encode()) + len(self.payload) + (2 if self.qos else 0)
        if self.properties is not None:
            rest += len(self.properties.pack())
        return 1 + max(1, (rest.bit_length() + 6) // 7) + rest


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttLimits:
    """The limits of a server, as stated when a client connects (MQTT 5.0 3.2.2.3)."""

    qos: int = _LAST_QOS
    retains: bool = True
    packet_bytes: int | None = None
    unacknowledged: int = _MOST_UNACKNOWLEDGED


class _PublishingClient(mqtt.Client):
    """A client that only publishes, through a socket that is connected already.

    paho would accept packets of unlimited size, and hide the reason codes of QoS 2.
    """

    def __init__(self, connected: socket.socket, version: Literal[3, 5]) -> None:
        super().__init__(
            CallbackAPIVersion.VERSION2,
            client_id=f"concord{secrets.token_hex(8)}",
            clean_session=None if version == 5 else True,
            protocol=mqtt.MQTTv5 if version == 5 else mqtt.MQTTv311,
            reconnect_on_failure=False,
        )
        # No limit in paho: the window of `MqttConnection` bounds the messages under way.
        self.max_inflight_messages_set(0)
        self._connected_socket = connected

    def _create_socket(self) -> socket.socket:
        return self._connected_socket

    def _sock_recv(self, bufsize: int) -> bytes:
        if bufsize > _MOST_BYTES:
            raise ConnectionError(f"the server sent a packet of {bufsize} bytes")
        return super()._sock_recv(bufsize)

    def _packet_handle(self) -> MQTTErrorCode:
        kind = self._in_packet["command"] & 0xF0
        if kind == mqtt.PUBREC:
            return self._take_pubrec(bytes(self._in_packet["packet"]))
        if kind not in _ANSWERS and (kind != _DISCONNECT or self._protocol != mqtt.MQTTv5):
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        return super()._packet_handle()

    def _take_pubrec(self, body: bytes) -> MQTTErrorCode:
        """Go on with a message of QoS 2, unless the server has refused the message."""
        id = int.from_bytes(body[:2], "big")
        message = self._out_messages.get(id)
        if message is None or message.state != MessageState.MQTT_MS_WAIT_FOR_PUBREC:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        if self._protocol != mqtt.MQTTv5 or len(body) < 3 or body[2] < _FAILURE:
            return super()._packet_handle()
        reason = ReasonCode(PacketTypes.PUBREC, identifier=body[2])
        return self._do_on_publish(id, reason, Properties(PacketTypes.PUBREC))


class MqttConnection:
    """A connection that several sinks can use at a time; created by `open`."""

    def __init__(self, client: _PublishingClient) -> None:
        self.limits = MqttLimits()
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._answers: dict[int, asyncio.Future[ReasonCode | None]] = {}
        self._window = asyncio.Semaphore(_MOST_UNACKNOWLEDGED)
        self._check: asyncio.TimerHandle | None = None
        self._has_ended = False
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_publish
        client.on_socket_open = self._on_socket_open
        client.on_socket_close = self._on_socket_close
        client.on_socket_register_write = self._on_want_write
        client.on_socket_unregister_write = self._on_written

    @classmethod
    async def open(cls, server: MqttServer, settings: Settings) -> MqttConnection:
        """Connect to a server; the caller bounds the time by cancelling it.

        Raises:
            OSError: the server cannot be reached, its TLS connection is not acceptable
                (`ssl.SSLError`), or it does not accept the client (`SinkFailed`).
        """
        connected = await connect_socket(server.host, server.port, settings)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if server.is_tls:
            connected = await _agree_on_tls(connected, server)
        connection = cls(_PublishingClient(connected, server.version))
        try:
            await connection._connect(server)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _connect(self, server: MqttServer) -> None:
        if login := server.login:
            self._client.username_pw_set(login.identifier, login.secret)
        properties = None
        if server.version == 5:
            properties = Properties(PacketTypes.CONNECT)
            properties.MaximumPacketSize = _MOST_BYTES
            properties.RequestProblemInformation = 0
        self._client.connect(
            server.host, server.port, keepalive=_KEEPALIVE_SECONDS, properties=properties
        )
        await self._opened

    @property
    def is_open(self) -> bool:
        return not self._has_ended

    async def publish(self, message: MqttMessage) -> ReasonCode | None:
        """Publish a message, and return the server's answer.

        Concurrent messages are sent in the order of the calls. A message of QoS 0 is answered once
        written. If the caller is cancelled, the message may still arrive.

        Returns:
            the reason code; `None` if the connection ended before.
        """
        await self._window.acquire()
        if self._has_ended:
            self._window.release()
            return None
        info = self._client.publish(
            message.topic, message.payload, message.qos, message.retain, message.properties
        )
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._window.release()
            return None
        answer: asyncio.Future[ReasonCode | None] = self._loop.create_future()
        self._answers[info.mid] = answer
        # The message keeps its place in the window until the answer, even without a caller.
        answer.add_done_callback(lambda _: self._window.release())
        return await asyncio.shield(answer)

    async def close(self) -> None:
        if not self._has_ended:
            with contextlib.suppress(Exception):
                self._client.disconnect()
                self._client.loop_write()
        self._end(None, "this node closed the connection")

    def _end(self, answer: ReasonCode | None, reason: str) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._check is not None:
            self._check.cancel()
        if not self._opened.done():
            self._opened.set_exception(connection_refused(reason))
            # Retrieved here, since the opening caller may be gone and asyncio would log the error.
            self._opened.exception()
        for future in self._answers.values():
            future.set_result(answer)
        self._answers.clear()
        left = self._client.socket()
        if isinstance(left, socket.socket):
            self._on_socket_close(self._client, None, left)
            left.close()

    # Callbacks of paho.

    def _on_connect(
        self, _: object, __: object, ___: object, reason: ReasonCode, properties: Properties | None
    ) -> None:
        if self._opened.done():
            return
        if reason.is_failure:
            self._opened.set_exception(connection_refused(str(reason)))
            return
        self.limits = _limits_of(properties)
        self._window = asyncio.Semaphore(self.limits.unacknowledged)
        self._opened.set_result(None)
        self._check = self._loop.call_later(_CHECK_SECONDS, self._keep_alive)

    def _on_publish(self, _: object, __: object, id: int, reason: ReasonCode, ___: object) -> None:
        answer = self._answers.pop(id, None)
        if answer is not None:
            answer.set_result(reason)

    def _on_disconnect(
        self, _: object, __: object, flags: mqtt.DisconnectFlags, reason: ReasonCode, ___: object
    ) -> None:
        # The reason is about a message only if a single message is under way.
        is_answer = flags.is_disconnect_packet_from_server and len(self._answers) == 1
        self._end(reason if is_answer else None, str(reason))

    def _on_socket_open(self, _: object, __: object, opened: Any) -> None:
        self._loop.add_reader(opened.fileno(), self._read)

    def _on_socket_close(self, _: object, __: object, closing: Any) -> None:
        if closing.fileno() >= 0:
            self._loop.remove_reader(closing.fileno())
            self._loop.remove_writer(closing.fileno())

    def _on_want_write(self, _: object, __: object, opened: Any) -> None:
        self._loop.add_writer(opened.fileno(), self._write)

    def _on_written(self, _: object, __: object, opened: Any) -> None:
        if opened.fileno() >= 0:
            self._loop.remove_writer(opened.fileno())

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """End the connection at an error: a malformed packet causes errors of every kind."""
        try:
            yield
        except Exception as error:
            self._end(None, type(error).__name__)

    def _read(self) -> None:
        with self._ending():
            for _ in range(_READS):
                self._client.loop_read()
                opened = self._client.socket()
                # Bytes that TLS has already decrypted do not make the socket readable.
                if not isinstance(opened, ssl.SSLSocket) or not opened.pending():
                    return
            # A server that keeps sending must not hold up the event loop.
            self._loop.call_soon(self._read)

    def _write(self) -> None:
        with self._ending():
            self._client.loop_write()

    def _keep_alive(self) -> None:
        with self._ending():
            self._client.loop_misc()
        if not self._has_ended:
            self._check = self._loop.call_later(_CHECK_SECONDS, self._keep_alive)


def _limits_of(properties: Properties | None) -> MqttLimits:
    unacknowledged = getattr(properties, "ReceiveMaximum", _MOST_UNACKNOWLEDGED)
    return MqttLimits(
        qos=getattr(properties, "MaximumQoS", _LAST_QOS),
        retains=bool(getattr(properties, "RetainAvailable", True)),
        packet_bytes=getattr(properties, "MaximumPacketSize", None),
        unacknowledged=max(1, min(unacknowledged, _MOST_UNACKNOWLEDGED)),
    )


async def _agree_on_tls(connected: socket.socket, server: MqttServer) -> ssl.SSLSocket:
    """Perform the TLS handshake on a connected socket without blocking the event loop."""
    context, loop = tls_context(server.cacertificate), asyncio.get_running_loop()
    tls: ssl.SSLSocket | None = None
    try:
        tls = context.wrap_socket(
            connected, server_hostname=server.host, do_handshake_on_connect=False
        )
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                await _until_ready(tls.fileno(), loop.add_reader, loop.remove_reader)
            except ssl.SSLWantWriteError:
                await _until_ready(tls.fileno(), loop.add_writer, loop.remove_writer)
            else:
                return tls
    except BaseException:
        (tls or connected).close()
        raise


async def _until_ready(
    descriptor: int, watch: Callable[..., None], leave: Callable[[int], bool]
) -> None:
    ready = asyncio.Event()
    watch(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        leave(descriptor)


def open_connections(settings: Settings, _: Callable[[], datetime]) -> SinkConnections:
    """The connections of one process to MQTT servers, which MQTT sinks share."""
    return broker_connections(settings, MqttConnection.open, MqttSink)


class MqttSink(BrokerSink[MqttServer, MqttConnection]):
    """The MQTT sink of one subscription: a topic of a server."""

    most_events = _MOST_EVENTS

    def __init__(
        self,
        shared: SharedConnections[MqttServer, MqttConnection],
        settings: Settings,
        subscription: Subscription,
    ) -> None:
        is_5 = subscription.definition.protocol == "MQTT5"
        model = Mqtt5Settings if is_5 else Mqtt3Settings
        self._settings = model.model_validate(subscription.definition.settings)
        server = MqttServer.of(subscription, self._settings, version=5 if is_5 else 3)
        super().__init__(shared, settings, server)

    async def _send(
        self, connection: MqttConnection, events: Sequence[OutgoingEvent]
    ) -> Sequence[SinkAnswer]:
        return await send_by_subject(events, partial(self._publish, connection))

    async def _publish(self, connection: MqttConnection, event: OutgoingEvent) -> SinkAnswer:
        try:
            message = self._message(event)
        except (struct.error, ValueError):
            return SinkRefused(reason="an attribute is too long for MQTT", is_final=True)
        refusal = _why_not(message, connection.limits)
        if refusal is not None:
            return refusal
        try:
            async with asyncio.timeout(self._seconds):
                return _answer(await connection.publish(message))
        except TimeoutError:
            # A late answer could no longer be matched to the event, so the connection ends.
            await connection.close()
            return SinkRefused(reason="the sink did not answer in time")

    def _message(self, event: OutgoingEvent) -> MqttMessage:
        """The message of an event; `struct.error` or `ValueError` if MQTT cannot encode it."""
        settings = self._settings
        is_structured = settings.contentmode == "structured"
        properties = None
        if isinstance(settings, Mqtt5Settings):
            properties = _properties(settings, event)
            properties.pack()
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
