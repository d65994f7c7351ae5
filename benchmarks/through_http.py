"""The route over HTTP: a web server takes the events."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

from benchmarks.arrivals import Arrivals, sink
from benchmarks.load import requesting, send_request
from benchmarks.process import free_port
from benchmarks.route import Route
from catalog.subscriptions.sinks.outgoing import OutgoingEvent

_CONNECTIONS = 4


@contextlib.asynccontextmanager
async def open_route(_: Path, arrivals: Arrivals) -> AsyncIterator[Route]:
    async with sink(arrivals, free_port()) as url, requesting(url, _CONNECTIONS) as request:

        async def send(event: OutgoingEvent) -> None:
            lines = (f"ce-{name}: {quote(value)}\r\n" for name, value in event.texts.items())
            await request(send_request("POST", url, "/", event.data, "".join(lines)))

        subscription = {"protocol": "HTTP", "sink": url}
        yield Route(subscription=subscription, send=send, note="without a broker")
