"""A client that reads all topics of an MQTT server through one persistent session."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiomqtt
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from dateutil.parser import isoparse
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.brokers.mosquitto import Mosquitto

_FORMAT = JSONFormat()
_SECONDS = 30


class MqttBroker:
    """A server with a reader, for `tests.sinks.contract`."""

    def __init__(self, server: Mosquitto, version: int) -> None:
        self.server = server
        self.version = version
        self.messages: list[aiomqtt.Message] = []
        self._identifier = f"reader{secrets.token_hex(4)}"
        self._changed = asyncio.Condition()
        self._is_reading = False

    def subscription(self, topic: str, contentmode: str) -> dict[str, Any]:
        return {
            "protocol": f"MQTT{self.version}",
            "sink": self.server.url,
            "types": ["io.xregistry.group.created", "io.xregistry.group.updated"],
            "protocolsettings": {"topicname": topic, "contentmode": contentmode},
        }

    async def read(self, topic: str, count: int) -> Sequence[CloudEvent]:
        return [parse_message(message) for message in await self.read_messages(topic, count)]

    async def read_messages(self, topic: str, count: int) -> list[aiomqtt.Message]:
        def found() -> list[aiomqtt.Message]:
            return [each for each in self.messages if str(each.topic) == topic]

        async with asyncio.timeout(_SECONDS), self._changed:
            await self._changed.wait_for(lambda: len(found()) >= count)
        return found()

    async def kill(self) -> None:
        await self.server.kill()

    async def start(self) -> None:
        await self.server.start()

    async def run(self) -> None:
        """Read for ever, through every restart of the server."""
        while True:
            with contextlib.suppress(aiomqtt.MqttError):
                async with self._client() as client:
                    await client.subscribe("#", qos=2)
                    await self._announce(is_reading=True)
                    async for message in client.messages:
                        self.messages.append(message)
                        await self._announce(is_reading=True)
            await self._announce(is_reading=False)
            await asyncio.sleep(0.02)  # between two attempts to connect

    async def until_reading(self) -> None:
        async with asyncio.timeout(_SECONDS), self._changed:
            await self._changed.wait_for(lambda: self._is_reading)

    async def _announce(self, *, is_reading: bool) -> None:
        async with self._changed:
            self._is_reading = is_reading
            self._changed.notify_all()

    def _client(self) -> aiomqtt.Client:
        where: Any = {
            "hostname": self.server.host,
            "port": self.server.port,
            "identifier": self._identifier,
        }
        if self.version == 3:
            return aiomqtt.Client(
                **where, protocol=aiomqtt.ProtocolVersion.V311, clean_session=False
            )
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600
        return aiomqtt.Client(
            **where,
            protocol=aiomqtt.ProtocolVersion.V5,
            clean_start=False,
            properties=properties,
        )


def parse_message(message: aiomqtt.Message) -> CloudEvent:
    """The event in a message (mqtt-protocol-binding.md 3)."""
    content_type = getattr(message.properties, "ContentType", None)
    assert isinstance(message.payload, bytes)
    if message.properties is None or (content_type or "").startswith("application/cloudevents"):
        return _FORMAT.read(CloudEvent, message.payload)
    attributes: dict[str, Any] = dict(message.properties.UserProperty)
    attributes["time"] = isoparse(attributes["time"])
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    return CloudEvent(attributes, _FORMAT.read_data(message.payload, content_type))


@contextlib.asynccontextmanager
async def read_topics(server: Mosquitto, version: int) -> AsyncIterator[MqttBroker]:
    """A server whose topics are read from now on."""
    broker = MqttBroker(server, version)
    reading = asyncio.create_task(broker.run())
    await broker.until_reading()
    yield broker
    reading.cancel()
    await asyncio.wait([reading])
