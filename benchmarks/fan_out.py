"""Latency of reads and changes while each change goes to a thousand sinks, against no sinks.

Four clients read a message every 20 ms, unless an answer takes longer. The sinks run in one
separate process, with a connection each. The rate of deliveries is compared with that of a bare
aiohttp client which posts the same bytes to the same sinks.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import orjson

from benchmarks.figure import Aim, Figure, middle, percentile, spread
from benchmarks.load import Connection, body_of, connected, get_request, send_request
from benchmarks.messages import document, message
from benchmarks.process import node, server
from benchmarks.sinkcounter import taken
from benchmarks.sinks import addresses
from benchmarks.size import Size
from benchmarks.subscribe import subscribe_all

_SINKS = 1000
SINKS_COMMAND = (sys.executable, "-m", "benchmarks.sinks", "--count", str(_SINKS))

_MESSAGES = 20
_READERS = 4
_READ_SECONDS = 0.02
_BURST = 10
_POST_AT_ONCE = 32
_OF_A_CLIENT = frozenset({"host", "content-length", "user-agent"})
_ARRIVE_SECONDS = 120
_AIM = Aim(bound=25, is_most=True)


@dataclass(slots=True)
class Noticed:
    """The seconds of each read, of each change, and until a change had reached every sink."""

    reads: list[float] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure reads and changes in milliseconds, during single changes and during a burst."""
    async with node(directory, "fan-out-node") as url, _sinks(directory) as port:
        async with connected(url, 1) as (connection,):
            body = orjson.dumps(document("g", 1, _MESSAGES))
            await connection.request(send_request("POST", url, "/", body))
        alone = await _single_changes(url, port, size, sinks=0)
        await subscribe_all(url, [f"http://{each}:{port}/" for each in addresses(_SINKS)])
        await _single_changes(url, port, size, sinks=_SINKS)  # connects to every sink
        single = await _single_changes(url, port, size, sinks=_SINKS)
        burst = await _burst(url, port)
        rates = [await _rates(url, port) for _ in range(size.rounds)]
    delivered, posted = zip(*rates, strict=True)
    return [
        *_figures("a change a second", single, alone),
        *_figures(f"{_BURST} changes at once", burst, alone),
        Figure(
            name=f"Deliveries of {_BURST} changes to {_SINKS:,} sinks",
            unit="/s",
            value=middle(delivered),
            baseline=middle(posted),
            aim=Aim(bound=1.2, of_ratio=True),
            note=f"the baseline is a bare aiohttp client; {spread(delivered, posted)}",
        ),
        Figure(
            name=f"A change to {_SINKS:,} sinks",
            unit="ms",
            value=middle(single.arrivals) * 1000,
            note=f"{_SINKS * _BURST / burst.arrivals[0]:,.0f} deliveries/s beside the reads where "
            f"{_BURST} changes are made at once",
        ),
    ]


def _figures(beside: str, noticed: Noticed, alone: Noticed) -> list[Figure]:
    return [
        Figure(
            name=f"GET beside {beside}, p99",
            unit="ms",
            value=percentile(noticed.reads, 99) * 1000,
            baseline=percentile(alone.reads, 99) * 1000,
            aim=_AIM,
            note=f"{len(noticed.reads):,} reads; p50 {percentile(noticed.reads, 50) * 1000:.1f}, "
            f"longest {max(noticed.reads) * 1000:.1f}; the baseline has no sinks",
        ),
        Figure(
            name=f"PUT beside {beside}, p50",
            unit="ms",
            value=percentile(noticed.changes, 50) * 1000,
            baseline=percentile(alone.changes, 50) * 1000,
            note=f"{len(noticed.changes)} changes, longest {max(noticed.changes) * 1000:.1f}",
        ),
    ]


async def _single_changes(url: str, port: int, size: Size, *, sinks: int) -> Noticed:
    """Make one change a second."""
    noticed = Noticed()
    async with _reading(url, noticed), connected(url, 1) as (connection,):
        for _ in range(round(size.latency_seconds)):
            due = time.perf_counter() + 1
            await _change(url, port, connection, noticed, changes=1, sinks=sinks)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
    return noticed


async def _burst(url: str, port: int) -> Noticed:
    """Make many changes without a pause."""
    noticed = Noticed()
    async with _reading(url, noticed), connected(url, 1) as (connection,):
        await _change(url, port, connection, noticed, changes=_BURST, sinks=_SINKS)
    return noticed


async def _rates(url: str, port: int) -> tuple[float, float]:
    """Deliveries a second of a burst, and requests a second of a bare client."""
    noticed = Noticed()
    async with connected(url, 1) as (connection,):
        await _change(url, port, connection, noticed, changes=_BURST, sinks=_SINKS)
    async with connected(f"http://127.0.0.1:{port}", 1) as (counter,):
        request = await counter.request(get_request(f"http://127.0.0.1:{port}", "/request"))
    posted = await _post_bare(port, body_of(request))
    return _SINKS * _BURST / noticed.arrivals[0], posted


async def _post_bare(port: int, request: bytes) -> float:
    """Requests a second of a bare aiohttp client with a connection to each sink."""
    head, _, body = request.partition(b"\r\n\r\n")
    pairs = (line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    headers = {name: value for name, value in pairs if name.lower() not in _OF_A_CLIENT}
    urls = [f"http://{address}:{port}/" for address in addresses(_SINKS)]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def post_all(waiting: Iterator[str]) -> None:
            for url in waiting:
                async with session.post(url, data=body, headers=headers) as response:
                    await response.read()

        async def round_trip(times: int) -> None:
            waiting = iter(urls * times)
            async with asyncio.TaskGroup() as group:
                for _ in range(_POST_AT_ONCE):
                    group.create_task(post_all(waiting))

        await round_trip(1)  # connects
        started = time.perf_counter()
        await round_trip(_BURST)
        return _SINKS * _BURST / (time.perf_counter() - started)


async def _change(
    url: str, port: int, connection: Connection, noticed: Noticed, *, changes: int, sinks: int
) -> None:
    async with connected(f"http://127.0.0.1:{port}", 1) as (counter,):
        before, started = await taken(counter, port), time.perf_counter()
        for number in range(changes):
            name = f"m{number % _MESSAGES}"
            body = orjson.dumps(message(name, f"Changed at {time.perf_counter()}."))
            sent = time.perf_counter()
            path = f"/messagegroups/g0/messages/{name}"
            await connection.request(send_request("PUT", url, path, body))
            noticed.changes.append(time.perf_counter() - sent)
        deadline = started + _ARRIVE_SECONDS
        while await taken(counter, port) < before + changes * sinks:
            if time.perf_counter() > deadline:
                raise TimeoutError("a change did not reach every sink")
            await asyncio.sleep(0.005)
        noticed.arrivals.append(time.perf_counter() - started)


@contextlib.asynccontextmanager
async def _reading(url: str, noticed: Noticed) -> AsyncIterator[None]:
    """Read messages while the context is open."""
    async with connected(url, _READERS) as connections, asyncio.TaskGroup() as group:
        readers = [
            group.create_task(_read_on(url, connection, noticed)) for connection in connections
        ]
        yield
        for reader in readers:
            reader.cancel()


async def _read_on(url: str, connection: Connection, noticed: Noticed) -> None:
    for number in itertools.count():
        sent = time.perf_counter()
        path = f"/messagegroups/g0/messages/m{number % _MESSAGES}"
        await connection.request(get_request(url, path))
        noticed.reads.append(time.perf_counter() - sent)
        await asyncio.sleep(max(0.0, sent + _READ_SECONDS - time.perf_counter()))


@contextlib.asynccontextmanager
async def _sinks(directory: Path) -> AsyncIterator[int]:
    """The port that all sinks listen on."""
    async with server(SINKS_COMMAND, directory, "fan-out-sinks") as (_, port):
        yield port
