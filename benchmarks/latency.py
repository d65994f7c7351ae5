"""The time until a change arrives at its destination, while changes are made at a fixed rate.

The time runs from the response of the PUT to the arrival; an arrival before the response counts
as 0. The baseline is a chain of bare servers: each runs its transaction of three inserts and
forwards the path with one PUT, the last one to the sink.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import orjson

from benchmarks.arrivals import Arrivals
from benchmarks.figure import Aim, Figure, percentile
from benchmarks.load import Connection, connected, send_request
from benchmarks.messages import document, message
from benchmarks.process import node
from benchmarks.size import Size

BARE_SHARE = 0.25

_GROUPS = 50
_CONNECTIONS = 16
_ARRIVE_SECONDS = 60
_WARM = "/messagegroups/warm0/messages/m0"

Way = Callable[[Path, Arrivals], AbstractAsyncContextManager[str]]


class NotArrived(Exception):
    """Some changes did not arrive in time, or something arrived before its change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The times when the PUT of a change was sent, and when its response had arrived."""

    sent: float
    at: float


def figures(where: str, times: list[float], bare_times: list[float], size: Size) -> list[Figure]:
    """p50 and p99 in milliseconds."""
    return [
        Figure(
            name=f"Change to {where}, p{percent}",
            unit="ms",
            value=percentile(times, percent) * 1000,
            baseline=percentile(bare_times, percent) * 1000,
            aim=Aim(bound=50, is_most=True) if percent == 50 else None,
            note=f"{len(times):,} changes at {size.changes_per_second}/s; "
            f"{sum(not t for t in times) / len(times):.0%} arrived before the PUT's response",
        )
        for percent in (50, 99)
    ]


async def measure(way: Way, size: Size, directory: Path, share: float = 1.0) -> list[float]:
    """Measure the seconds of each change. `way` starts servers and yields the URL for the PUTs.

    Raises:
        NotArrived
    """
    arrivals = Arrivals()
    count = round(size.changes_per_second * size.latency_seconds * share)
    xids = [f"/messagegroups/g{n % _GROUPS}/messages/m{n // _GROUPS}" for n in range(count)]
    async with way(directory, arrivals) as url, connected(url, _CONNECTIONS) as connections:
        await _warm_up(url, connections[0], arrivals)
        arrivals.clear()
        answered = await _write(url, connections, xids, 1 / size.changes_per_second)
        await _all_arrived(arrivals, answered)
    return [_taken(arrivals.times[xid], change) for xid, change in answered.items()]


def _taken(arrived: float, change: Answered) -> float:
    """The seconds of a change. An arrival before its request is an error: it hides the real one."""
    if arrived < change.sent:
        raise NotArrived("something arrived about a message before it was changed")
    return max(0.0, arrived - change.at)


async def _warm_up(url: str, connection: Connection, arrivals: Arrivals) -> None:
    """Make changes until one arrives, so that all connections are open."""
    async with asyncio.timeout(_ARRIVE_SECONDS):
        while _WARM not in arrivals.times:
            await connection.request(_change(url, _WARM))
            await asyncio.sleep(0.1)


async def _write(
    url: str, connections: list[Connection], xids: list[str], interval: float
) -> dict[str, Answered]:
    """Change each message once, at a fixed rate; return the times of each PUT.

    A slow answer does not delay the changes after it: that would hide its cost.
    """
    answered: dict[str, Answered] = {}
    idle = asyncio.Queue[Connection]()
    for connection in connections:
        idle.put_nowait(connection)

    async def change(xid: str) -> None:
        connection = await idle.get()
        sent = time.perf_counter()
        await connection.request(_change(url, xid))
        answered[xid] = Answered(sent=sent, at=time.perf_counter())
        idle.put_nowait(connection)

    async with asyncio.TaskGroup() as group:
        started = time.perf_counter()
        for number, xid in enumerate(xids):
            await asyncio.sleep(max(0.0, started + number * interval - time.perf_counter()))
            group.create_task(change(xid))
    return answered


def _change(url: str, xid: str) -> bytes:
    text = f"Changed at {time.perf_counter()}."
    return send_request("PUT", url, xid, orjson.dumps(message(xid.rpartition("/")[2], text)))


async def _all_arrived(arrivals: Arrivals, answered: Mapping[str, Answered]) -> None:
    deadline = time.perf_counter() + _ARRIVE_SECONDS
    while missing := answered.keys() - arrivals.times.keys():
        if time.perf_counter() > deadline:
            raise NotArrived(f"{len(missing)} of {len(answered)} changes did not arrive")
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def changing_node(directory: Path, name: str) -> AsyncIterator[str]:
    """A node with all the messages that will be changed."""
    async with node(directory, name) as url:
        async with connected(url, 1) as (connection,):
            for prefix, groups, messages in (("g", _GROUPS, 40), ("warm", 1, 1)):
                body = orjson.dumps(document(prefix, groups, messages))
                await connection.request(send_request("POST", url, "/", body))
        yield url
