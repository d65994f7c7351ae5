"""The route over a topic of MQTT 5.0."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from aiomqtt import Client, ProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from benchmarks.arrivals import Arrivals
from benchmarks.route import Route, reading
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from tests.brokers.mosquitto import Mosquitto, run_mosquitto

_TOPIC = "latency"
_QOS = 1


@contextlib.asynccontextmanager
async def open_route(directory: Path, arrivals: Arrivals) -> AsyncIterator[Route]:
    made = directory / "latency-mqtt"
    made.mkdir()
    async with (
        run_mosquitto(made) as server,
        _client(server) as reader,
        _client(server) as writer,
    ):
        await reader.subscribe(_TOPIC, qos=_QOS)
        async with reading(_read(reader, arrivals)):

            async def send(event: OutgoingEvent) -> None:
                properties = Properties(PacketTypes.PUBLISH)
                properties.UserProperty = list(event.texts.items())
                await writer.publish(_TOPIC, event.data, qos=_QOS, properties=properties)

            subscription = {
                "protocol": "MQTT5",
                "sink": server.url,
                "protocolsettings": {"topicname": _TOPIC, "qos": _QOS},
            }
            yield Route(subscription=subscription, send=send, note=f"with QoS {_QOS}")


def _client(server: Mosquitto) -> Client:
    return Client(server.host, server.port, protocol=ProtocolVersion.V5)


async def _read(reader: Client, arrivals: Arrivals) -> None:
    async for message in reader.messages:
        assert message.properties is not None, "it is MQTT 5.0"
        arrivals.note(dict(message.properties.UserProperty)["subject"])
