"""Latency from a change to a subscriber's sink, against one bare hop."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.arrivals import Arrivals, sink
from benchmarks.figure import Figure
from benchmarks.latency import BARE_SHARE, changing_node, figures, measure
from benchmarks.process import bare, free_port
from benchmarks.size import Size
from catalog.client import Client
from catalog.operations.subscriptions import NewSubscription


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure p50 and p99 of the events of one subscription."""
    bare_times = await measure(_bare_sink, size, directory, BARE_SHARE)
    return figures("sink", await measure(_sink, size, directory), bare_times, size)


@contextlib.asynccontextmanager
async def _sink(directory: Path, arrivals: Arrivals) -> AsyncIterator[str]:
    async with (
        changing_node(directory, "sink-source") as url,
        sink(arrivals, free_port()) as target,
        Client.open(url) as client,
    ):
        await client.subscribe(NewSubscription(sink=target, protocol="HTTP"))
        yield url


@contextlib.asynccontextmanager
async def _bare_sink(directory: Path, arrivals: Arrivals) -> AsyncIterator[str]:
    """The one hop from a change to a sink."""
    data = directory / "hop-bare"
    async with (
        sink(arrivals, free_port()) as target,
        bare(directory, "hop-bare", "--directory", str(data), "--ahead", target) as url,
    ):
        yield url
