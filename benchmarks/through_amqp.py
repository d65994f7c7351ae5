"""The route over a queue of AMQP 1.0."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

from proton import Link, Message, Terminus, Timeout
from proton.reactor import LinkOption
from proton.utils import BlockingConnection

from benchmarks.arrivals import Arrivals
from benchmarks.brokers import running
from benchmarks.route import Route, reading
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from tests.brokers.rabbitmq import RabbitMq, run_rabbitmq

_ADDRESS = "/queue/latency"
_CREDIT = 100
_ANSWER_SECONDS = 30
_LOOK_SECONDS = 0.5


class _Durable(LinkOption):
    """Asks for the durable queue that a node asks for."""

    def apply(self, link: Link) -> None:
        terminus = link.source if link.is_receiver else link.target
        terminus.durability = Terminus.CONFIGURATION


@contextlib.asynccontextmanager
async def open_route(directory: Path, arrivals: Arrivals) -> AsyncIterator[Route]:
    async with running(run_rabbitmq, directory, "latency-rabbitmq") as server:
        connection = await asyncio.to_thread(_connect, server)
        sender = await asyncio.to_thread(connection.create_sender, _ADDRESS, options=_Durable())
        # One thread at a time may use the connection.
        sending = asyncio.Lock()

        async def send(event: OutgoingEvent) -> None:
            message = Message(
                body=event.data,
                inferred=True,
                durable=True,
                properties={f"cloudEvents_{name}": text for name, text in event.texts.items()},
            )
            async with sending:
                await asyncio.to_thread(sender.send, message)

        subscription = {
            "protocol": "AMQP",
            "sink": f"amqp://{server.host}:{server.port}",
            "protocolsettings": {"address": _ADDRESS},
            "sinkcredential": {
                "credentialtype": "PLAIN",
                "identifier": server.user,
                "secret": server.password,
            },
        }
        async with reading(_read(server, arrivals)):
            yield Route(subscription=subscription, send=send, note="through a durable queue")
        await asyncio.to_thread(connection.close)


def _connect(server: RabbitMq) -> BlockingConnection:
    user, password = quote(server.user), quote(server.password)
    return BlockingConnection(
        f"amqp://{user}:{password}@{server.host}:{server.port}",
        timeout=_ANSWER_SECONDS,
        allowed_mechs="PLAIN",
    )


async def _read(server: RabbitMq, arrivals: Arrivals) -> None:
    ended = threading.Event()
    thread = asyncio.create_task(asyncio.to_thread(_read_until, ended, server, arrivals))
    try:
        await asyncio.shield(thread)
    finally:
        ended.set()
        await asyncio.wait([thread])


def _read_until(ended: threading.Event, server: RabbitMq, arrivals: Arrivals) -> None:
    connection = _connect(server)
    receiver = connection.create_receiver(_ADDRESS, credit=_CREDIT, options=_Durable())
    while not ended.is_set():
        with contextlib.suppress(Timeout):
            message = receiver.receive(_LOOK_SECONDS)
            arrivals.note(message.properties["cloudEvents_subject"])
            receiver.accept()
    connection.close()
