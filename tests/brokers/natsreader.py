"""A client that reads subjects of a NATS server, from a stream or as they come."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import unquote

import nats
import nats.errors
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from dateutil.parser import isoparse
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import DeliverPolicy

from tests.brokers.natsserver import NatsServerProgram

_FORMAT = JSONFormat()
_SECONDS = 30
STREAM = "events"


class NatsBroker:
    """A server with a stream that captures `stored.>`, for `tests.sinks.contract`."""

    def __init__(self, server: NatsServerProgram) -> None:
        self.server = server

    def subscription(self, topic: str, contentmode: str) -> dict[str, Any]:
        return {
            "protocol": "NATS",
            "sink": self.server.url,
            "types": ["io.xregistry.group.created", "io.xregistry.group.updated"],
            "protocolsettings": {"subject": topic, "contentmode": contentmode},
        }

    async def read(self, topic: str, count: int) -> Sequence[CloudEvent]:
        return [parse_message(message) for message in await self.read_stream(topic, count)]

    async def read_stream(self, subject: str, count: int) -> list[Msg]:
        """All messages that the stream has of a subject, once there are as many."""
        messages: list[Msg] = []
        async with asyncio.timeout(_SECONDS), connected(self.server) as client:
            reading = await client.jetstream().subscribe(
                subject, stream=STREAM, deliver_policy=DeliverPolicy.ALL, ordered_consumer=True
            )
            while True:
                try:
                    messages.append(await reading.next_msg(timeout=0.3))
                except nats.errors.TimeoutError:
                    if len(messages) >= count:
                        return messages

    async def create_stream(self) -> None:
        async with connected(self.server) as client:
            await client.jetstream().add_stream(name=STREAM, subjects=["stored.>"])

    async def kill(self) -> None:
        await self.server.kill()

    async def start(self) -> None:
        await self.server.start()


@contextlib.asynccontextmanager
async def connected(server: NatsServerProgram, **options: Any) -> AsyncIterator[Client]:
    client = await nats.connect(server.url, **options)
    try:
        yield client
    finally:
        await client.close()


def parse_message(message: Msg) -> CloudEvent:
    """The event in a message (nats-protocol-binding.md 3)."""
    headers = message.headers or {}
    if headers.get("Content-Type", "").startswith("application/cloudevents"):
        return _FORMAT.read(CloudEvent, message.data)
    attributes: dict[str, Any] = {
        name.removeprefix("ce-"): unquote(value, errors="strict")
        for name, value in headers.items()
        if name.startswith("ce-")
    }
    if "time" in attributes:
        attributes["time"] = isoparse(attributes["time"])
    data = _FORMAT.read_data(message.data, attributes.get("datacontenttype"))
    return CloudEvent(attributes, data)
