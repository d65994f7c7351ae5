"""Kafka sinks whose servers do all but what Kafka does."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from cloudevents.core.v1.event import CloudEvent

from catalog.model.credentials import PlainCredential
from catalog.settings import Settings
from catalog.store.changes import Position
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.protocols import KafkaSettings
from catalog.subscriptions.sinks.sink import SinkRefused, Sinks
from catalog.subscriptions.stored.subscriptions import Subscription, SubscriptionDefinition

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
BOB = PlainCredential(identifier="bob", secret="s3cret")
_MEGABYTE = 1024 * 1024


@contextlib.asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The client ends the connection whenever it has seen enough.
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await serve(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def refused_by(serve: Serve, *, seconds: float = 1, **settings: Any) -> SinkRefused:
    """The answer for an event that is sent to such a server by a user with a password.

    Args:
        seconds: the longest time of the delivery.
    """
    node = Settings(delivery_timeout_seconds=seconds)
    async with (
        serving(serve) as port,
        asyncio.timeout(20),
        Sinks(node) as connections,
    ):
        definition = SubscriptionDefinition(
            sink=f"kafka://127.0.0.1:{port}/t",
            protocol="KAFKA",
            settings=KafkaSettings(**settings).model_dump(),
        )
        sink = connections.open(
            Subscription(
                id="s",
                revision=1,
                definition=definition,
                credential=BOB,
                cursor=Position(0, 0),
                state="active",
                failures=0,
                delivered=0,
                deliveredat=None,
                error=None,
                lostat=None,
                lag=0,
            )
        )
        event = CloudEvent({"id": "1", "source": "/", "type": "t", "subject": "/a"}, {})
        [answer] = await sink.send([OutgoingEvent(event)])
    assert isinstance(answer, SinkRefused)
    assert not answer.is_final
    assert "s3cret" not in repr(answer)
    return answer


async def request_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The number and the body of a request."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    head = await reader.readexactly(size)
    _, _, number, length = struct.unpack(">hhih", head[:10])
    return number, head[10 + length :]


def send(writer: asyncio.StreamWriter, number: int, body: bytes) -> None:
    writer.write(struct.pack(">ii", len(body) + 4, number) + body)


async def test_a_response_of_any_size_is_not_read() -> None:
    taken = 0

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        writer.write(struct.pack(">i", 2**31 - 1))
        for _number in range(200):
            writer.write(bytes(_MEGABYTE))
            await writer.drain()
            taken += _MEGABYTE

    await refused_by(serve)

    # What the sockets hold on their way.
    assert taken < 50 * _MEGABYTE


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 64, struct.pack(">i", 0), bytes(4096)],
)
async def test_a_server_that_speaks_no_kafka_is_refused(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()

    # A busy machine may stand still for a second.
    assert "ended the connection" in (await refused_by(serve, seconds=15)).reason


async def test_a_server_that_never_answers_is_left() -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    assert (await refused_by(serve)).reason == "the sink did not acknowledge in time"


async def test_a_server_cannot_have_a_password_hashed_for_hours() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, _ = await request_of(reader)
        versions = ((3, 0, 1), (17, 0, 1), (18, 0, 0), (36, 0, 1))
        listed = b"".join(struct.pack(">hhh", *each) for each in versions)
        send(writer, number, struct.pack(">hi", 0, len(versions)) + listed)
        number, _ = await request_of(reader)
        name = b"SCRAM-SHA-256"
        send(writer, number, struct.pack(">hih", 0, 1, len(name)) + name)
        number, first = await request_of(reader)
        nonce = first.rpartition(b"r=")[2].decode()
        salt = base64.b64encode(b"salt").decode()
        text = f"r={nonce}x,s={salt},i=2000000000".encode()
        send(writer, number, struct.pack(">hhi", 0, -1, len(text)) + text + struct.pack(">q", 0))
        await reader.read()

    answer = await refused_by(serve, saslmechanism="SCRAM-SHA-256")

    assert "the server asks for 2000000000 iterations" in answer.cause
