"""The cost of 200 open streams of events for writes, and the time from a change to a stream.

The baseline of the writes is the same node without streams, in alternating rounds. A stream has the
events of each change, or those of one group, as a page of the console that somebody watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import quote, urlsplit

import orjson

from benchmarks.figure import Aim, Figure, middle, percentile, spread
from benchmarks.load import connected, get_request, requesting, run_load, send_request
from benchmarks.messages import document, message
from benchmarks.process import node
from benchmarks.put import GROUPS, MESSAGES, updates
from benchmarks.size import Size

_STREAMS = 200
_OPEN_SECONDS = 60
_REST_SECONDS = 1.0
_SUBJECT = re.compile(rb'"subject":"(/messagegroups/g\d+/messages/l\d+)"')


class _Stream(asyncio.Protocol):
    """An open stream, which notes when messages of the measurement first show up."""

    def __init__(self, request: bytes) -> None:
        self.shown: dict[str, float] = {}
        self.size = 0
        self.is_open = asyncio.get_running_loop().create_future()
        self._request = request
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        self.size += len(data)
        if not self.is_open.done() and b"\nid: " in self._rest + data:
            self.is_open.set_result(None)
        now = time.perf_counter()
        text = self._rest + data
        for found in _SUBJECT.finditer(text):
            self.shown.setdefault(found[1].decode(), now)
        self._rest = text[-200:]


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure the rate of durable updates beside streams, and the latency of one stream of many."""
    async with node(directory, "streams-node", EVENT_STREAMS=str(8 * _STREAMS)) as url:
        async with connected(url, 1) as (connection,):
            groups = orjson.dumps(document("g", GROUPS, MESSAGES))
            await connection.request(send_request("POST", url, "/", groups))
        return [
            await _rate("of one group each", url, size, _filtered),
            await _rate("of all changes", url, size, lambda _: ""),
            await _latency(url, size),
        ]


def _filtered(number: int) -> str:
    filter = {"prefix": {"subject": f"/messagegroups/g{number % GROUPS}/"}}
    return f"?filter={quote(orjson.dumps(filter))}"


async def _rate(what: str, url: str, size: Size, query: Callable[[int], str]) -> Figure:
    beside: list[float] = []
    without: list[float] = []
    received = 0
    for number in range(size.rounds + 1):
        plain = await run_load(url, updates(url, size.connections), size.round_seconds)
        async with _streams(url, [query(each) for each in range(_STREAMS)]) as streams:
            done = await run_load(url, updates(url, size.connections), size.round_seconds)
            await asyncio.sleep(_REST_SECONDS)
            received += sum(stream.size for stream in streams)
        if number:
            beside.append(done.rate)
            without.append(plain.rate)
    return Figure(
        name=f"Durable PUT beside {_STREAMS} streams {what}",
        unit="requests/s",
        value=middle(beside),
        baseline=middle(without),
        aim=Aim(bound=0.95, of_ratio=True),
        note=f"{size.connections} at a time; the streams received {received / 1e6:.0f} MB; "
        f"{spread(beside, without)}",
    )


async def _latency(url: str, size: Size) -> Figure:
    """The time from the answer of a PUT to the arrival at a stream, of ten among all streams."""
    answered: dict[str, float] = {}
    queries = ["" if each < 10 else _filtered(each) for each in range(_STREAMS)]
    async with _streams(url, queries) as streams, requesting(url, 16) as request:

        async def create(number: int) -> None:
            path = f"/messagegroups/g{number % GROUPS}/messages/l{number}"
            body = orjson.dumps(message(f"l{number}", "New."))
            await request(send_request("PUT", url, path, body))
            answered[path] = time.perf_counter()

        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(round(size.latency_seconds * size.changes_per_second)):
                due = started + number / size.changes_per_second
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(create(number))
        await asyncio.sleep(2 * _REST_SECONDS)
        times = [
            max(0.0, stream.shown[path] - at)
            for stream in streams[:10]
            for path, at in answered.items()
        ]
    return Figure(
        name=f"A change at one of {_STREAMS} streams, p95",
        unit="ms",
        value=percentile(times, 95) * 1000,
        aim=Aim(bound=500, is_most=True),
        note=f"after the answer of the PUT, {size.changes_per_second} changes per second; "
        f"p50 {percentile(times, 50) * 1000:.0f}, p99 {percentile(times, 99) * 1000:.0f}",
    )


@contextlib.asynccontextmanager
async def _streams(url: str, queries: Sequence[str]) -> AsyncIterator[list[_Stream]]:
    """Open streams, one for each query, once each has told where it begins."""
    parts, loop = urlsplit(url), asyncio.get_running_loop()
    opened: list[tuple[asyncio.Transport, _Stream]] = []
    try:
        for query in queries:
            request = get_request(url, f"/-/events{query}")
            make = partial(_Stream, request)
            opened.append(await loop.create_connection(make, parts.hostname, parts.port))
        async with asyncio.timeout(_OPEN_SECONDS):
            await asyncio.gather(*(stream.is_open for _, stream in opened))
        yield [stream for _, stream in opened]
    finally:
        for transport, _ in opened:
            transport.close()
