"""Latency from a change to a client of each delivery protocol, against a bare client that sends.

Each protocol has its real server on this machine, and one subscription. For each, a time runs from
the response of a PUT until the protocol's own client has received the event. The baseline is
without Concord: from the call that sends an event to the same server with such a client until the
same reader has it.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.arrivals import Arrivals
from benchmarks.events import event_about
from benchmarks.figure import Figure
from benchmarks.latency import BARE_SHARE, changing, changing_node, figures, timed
from benchmarks.route import Route
from benchmarks.size import Size
from benchmarks.table import print_left_out
from catalog.client import Client
from catalog.operations.subscriptions import NewSubscription
from catalog.subscriptions.sinks.protocols import PROTOCOLS, why_missing
from tests.brokers.kafka import NoKafka

_PER_SECOND = 20
# Each is imported when its library is known to be there.
_MODULES = {
    "HTTP": "benchmarks.through_http",
    "KAFKA": "benchmarks.through_kafka",
    "MQTT5": "benchmarks.through_mqtt",
    "NATS": "benchmarks.through_nats",
    "AMQP": "benchmarks.through_amqp",
}


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure p50 and p99 in milliseconds; what is not installed is left out."""
    slower = replace(size, changes_per_second=_PER_SECOND)
    found: list[Figure] = []
    async with changing_node(directory, "delivery-node") as url:
        for protocol in _MODULES:
            missing = why_missing(PROTOCOLS[protocol])
            if missing is not None:
                print_left_out(protocol, missing)
                continue
            try:
                found += await _measure(protocol, url, slower, directory)
            # Tests that need such a server are skipped.
            except (NoKafka, pytest.skip.Exception) as no_server:
                print_left_out(protocol, str(no_server))
    return found


async def _measure(protocol: str, url: str, size: Size, directory: Path) -> list[Figure]:
    arrivals = Arrivals()
    async with import_module(_MODULES[protocol]).open_route(directory, arrivals) as route:
        bare = await _bare(route, arrivals, size)
        times = await _through_node(route, arrivals, url, size)
    return figures(f"a sink over {protocol}", times, bare, size, f" {route.note}")


async def _bare(route: Route, arrivals: Arrivals, size: Size) -> list[float]:
    async def send(xid: str) -> None:
        await route.send(event_about(xid))

    return [each.after_request for each in await timed(send, arrivals, size, BARE_SHARE)]


async def _through_node(route: Route, arrivals: Arrivals, url: str, size: Size) -> list[float]:
    async with Client.open(url) as client, changing(url) as change:
        subscription = await client.subscribe(NewSubscription.model_validate(route.subscription))
        times = [each.after_answer for each in await timed(change, arrivals, size)]
        await client.unsubscribe(subscription.id)
    return times
