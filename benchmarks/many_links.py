"""A thousand links of one node: their cost at rest, and a change of each beside sick peers.

All sources are in one process, each at an address of its own. Of the sick, half take requests and
never answer, the others refuse connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.bootstrap import until
from benchmarks.figure import Aim, Figure, middle
from benchmarks.process import free_port, node_process, server
from benchmarks.processor import family_seconds, postmaster_of, processor_seconds
from benchmarks.sinks import addresses
from benchmarks.size import Size
from benchmarks.sources import authority_of
from catalog.client import Client
from catalog.operations.links import NewLink

_SICK_SHARE = 10
_EVERY = 5
_INTERVAL = 30.0
_ROUNDS = 3
_LOOK_SECONDS = 0.2
# All links are a large answer.
_STATES_SECONDS = 2.0
# Links that have just copied find their rhythm.
_SETTLE_SECONDS = 10
_AT_ONCE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """A node, and the sources at `port`; at `silent`, requests are taken and never answered."""

    client: Client
    session: aiohttp.ClientSession
    pid: int
    database: int
    port: int
    silent: int

    async def state(self) -> tuple[int, Sequence[float]]:
        """The requests to all sources, and the seconds in which the last change arrived."""
        async with self.session.get(f"http://127.0.0.1:{self.port}/state") as answer:
            found = await answer.json()
        return found["requests"], found["arrived"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arrival:
    """The seconds until the last link has a change, and those of a core that the node takes."""

    last: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """The shares of a core of a node and of its PostgreSQL, and the requests in a second."""

    node: float
    database: float
    requests: float


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure processor time and requests at rest, and the time until all links have a change."""
    count = size.subscriptions // 10
    hosts = addresses(count)
    seconds = 2 * size.idle_seconds
    async with _bench(directory) as bench:
        without = await _cost(bench, size.idle_seconds)
        await _add(bench, hosts)
        alone = [await _change(bench, count) for _ in range(_ROUNDS)]
        await asyncio.sleep(_SETTLE_SECONDS)
        by_events = await _cost(bench, seconds)
        await _add_sick(bench, count // _SICK_SHARE)
        beside = [await _change(bench, count) for _ in range(_ROUNDS)]
        await _remove_sick(bench, count // _SICK_SHARE)
        await _let_pull(bench, hosts)
        by_pull = await _cost(bench, seconds)
    return [
        _idle_figure(count, "events", by_events, without),
        _idle_figure(count, "pull", by_pull, without),
        Figure(
            name=f"A change by {count // _EVERY} links beside {count // _SICK_SHARE} sick ones",
            unit="s",
            value=middle([each.last for each in beside]),
            baseline=middle([each.last for each in alone]),
            aim=Aim(bound=1.5, of_ratio=True, is_most=True),
            note=f"of {count:,} links, until the last has it; the node takes "
            f"{middle([e.cpu for e in beside]):.1f} s of a core, without the sick "
            f"{middle([e.cpu for e in alone]):.1f}; of the sick, half never answer and half refuse "
            "connections",
        ),
    ]


def _idle_figure(count: int, mode: str, cost: _Cost, without: _Cost) -> Figure:
    return Figure(
        name=f"Processor, {count:,} links at rest, {mode}",
        unit="% of a core",
        value=cost.node * 100,
        baseline=without.node * 100,
        aim=Aim(bound=5, is_most=True),
        note=f"{cost.requests * 20 / count:.2f} requests of a link in 20 s; PostgreSQL takes "
        f"{cost.database:.1%} in addition, {without.database:.1%} without links",
    )


@contextlib.asynccontextmanager
async def _bench(directory: Path) -> AsyncIterator[_Bench]:
    silent, name = free_port(), "many-links"
    command = [sys.executable, "-m", "benchmarks.sources", "--silent", str(silent)]
    interval = str(_INTERVAL)
    async with (
        node_process(directory, name, PULL_INTERVAL_SECONDS=interval) as (url, pid),
        server(command, directory, f"{name}-sources") as (_, port),
        aiohttp.ClientSession() as session,
        Client.open(url) as client,
    ):
        yield _Bench(
            client=client,
            session=session,
            pid=pid,
            database=postmaster_of(directory / name),
            port=port,
            silent=silent,
        )


async def _add(bench: _Bench, hosts: Sequence[str]) -> None:
    """Add a link to each host, and wait until all are current."""
    await _at_once(
        bench.client.add_link(NewLink(**_link(host, bench.port, "events")), force=True)
        for host in hosts
    )

    async def are_current() -> bool:
        await asyncio.sleep(_STATES_SECONDS)
        return all(each.state == "current" for each in await bench.client.links())

    await until(are_current)


async def _add_sick(bench: _Bench, count: int) -> None:
    ports = bench.silent, free_port()
    await _at_once(
        bench.client.add_link(NewLink(**_link(host, ports[number % 2], "events")), force=True)
        for number, host in enumerate(_sick(count))
    )
    await asyncio.sleep(_SETTLE_SECONDS)


async def _remove_sick(bench: _Bench, count: int) -> None:
    await _at_once(bench.client.remove_link(host) for host in _sick(count))


async def _let_pull(bench: _Bench, hosts: Sequence[str]) -> None:
    """Let the links follow by pull, from where they are."""
    await _at_once(
        bench.client.put(f"/replication/links/{host}", _link(host, bench.port, "pull"))
        for host in hosts
    )
    await asyncio.sleep(_INTERVAL)


def _sick(count: int) -> list[str]:
    return addresses(count, network=2)


def _link(host: str, port: int, mode: str) -> dict[str, Any]:
    return {
        "id": host,
        "source": f"http://{host}:{port}",
        "mode": mode,
        "authority": authority_of(host),
    }


async def _at_once(requests: Iterable[Awaitable[Any]]) -> None:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def send(request: Awaitable[Any]) -> None:
        async with turns:
            await request

    async with asyncio.TaskGroup() as group:
        for request in requests:
            group.create_task(send(request))


async def _change(bench: _Bench, count: int) -> _Arrival:
    """Change every fifth source once, and wait until each of their followers has it."""
    spent = processor_seconds(bench.pid)
    every = {"every": str(_EVERY)}
    async with bench.session.post(f"http://127.0.0.1:{bench.port}/change", params=every):
        pass
    arrived: Sequence[float] = ()
    while len(arrived) < count // _EVERY:
        await asyncio.sleep(_LOOK_SECONDS)
        _, arrived = await bench.state()
    taken = processor_seconds(bench.pid) - spent
    # Then each link has been awake for long enough to wait for an event again.
    await asyncio.sleep(_SETTLE_SECONDS / 2)
    return _Arrival(last=arrived[-1], cpu=taken)


async def _cost(bench: _Bench, seconds: float) -> _Cost:
    await asyncio.sleep(_SETTLE_SECONDS)
    requests, _ = await bench.state()
    started = time.perf_counter()
    node, database = processor_seconds(bench.pid), family_seconds(bench.database)
    await asyncio.sleep(seconds)
    elapsed = time.perf_counter() - started
    later, _ = await bench.state()
    return _Cost(
        node=(processor_seconds(bench.pid) - node) / elapsed,
        database=(family_seconds(bench.database) - database) / elapsed,
        requests=(later - requests) / elapsed,
    )
