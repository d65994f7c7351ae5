"""The route over a subject of NATS: through a stream where the server has JetStream."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import DeliverPolicy

from benchmarks.arrivals import Arrivals
from benchmarks.route import Route
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from tests.brokers.natsreader import connected
from tests.brokers.natsserver import run_nats

_STREAM = "latency"
_SUBJECT = "latency.changes"


@contextlib.asynccontextmanager
async def open_route(directory: Path, arrivals: Arrivals) -> AsyncIterator[Route]:
    made = directory / "latency-nats"
    made.mkdir()
    async with run_nats(made) as server, connected(server) as reader, connected(server) as writer:

        async def take(message: Msg) -> None:
            arrivals.note((message.headers or {})["ce-subject"])

        is_stored = await _has_stream(reader)
        if is_stored:
            await reader.jetstream().subscribe(
                _SUBJECT,
                stream=_STREAM,
                cb=take,
                ordered_consumer=True,
                deliver_policy=DeliverPolicy.NEW,
            )
        else:
            await reader.subscribe(_SUBJECT, cb=take)
        subscription = {
            "protocol": "NATS",
            "sink": server.url,
            "protocolsettings": {"subject": _SUBJECT},
        }
        yield Route(
            subscription=subscription,
            send=_sending(writer, is_stored=is_stored),
            note="through a stream" if is_stored else "without JetStream",
        )


async def _has_stream(client: Client) -> bool:
    """Create a stream that captures the subject, if the server has JetStream."""
    try:
        await client.jetstream().add_stream(name=_STREAM, subjects=[_SUBJECT])
    except nats.js.errors.ServiceUnavailableError:
        return False
    return True


def _sending(client: Client, *, is_stored: bool) -> Callable[[OutgoingEvent], Awaitable[None]]:
    stream = client.jetstream()

    async def send(event: OutgoingEvent) -> None:
        headers = {f"ce-{name}": text for name, text in event.texts.items()}
        if is_stored:
            await stream.publish(_SUBJECT, event.data, headers=headers)
        else:
            await client.publish(_SUBJECT, event.data, headers=headers)
            await client.flush()

    return send
