"""The time until a change arrives at its destination, while changes are made at a fixed rate.

In `measure`, the time runs from the response of the PUT to the arrival; an arrival before the
response counts as 0. The baseline is a chain of bare servers: each runs its transaction of three
inserts and forwards the path with one PUT, the last one to the sink.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import orjson

from benchmarks.arrivals import Arrivals
from benchmarks.figure import Aim, Figure, percentile
from benchmarks.load import connected, requesting, send_request
from benchmarks.messages import document, message
from benchmarks.process import node
from benchmarks.size import Size

BARE_SHARE = 0.25

_GROUPS = 50
_CONNECTIONS = 16
_ARRIVE_SECONDS = 60
_AIMS = {50: 50.0}
_WARM = "/messagegroups/warm0/messages/m0"

Way = Callable[[Path, Arrivals], AbstractAsyncContextManager[str]]
Change = Callable[[str], Awaitable[None]]
"""Changes the message with an xid, and returns when that is answered."""


class NotArrived(Exception):
    """Some changes did not arrive in time, or something arrived before its change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The times when a change was requested, and when it was answered."""

    sent: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """The times when a change was requested and answered, and when it arrived."""

    sent: float
    answered: float
    at: float

    @property
    def after_request(self) -> float:
        return self.at - self.sent

    @property
    def after_answer(self) -> float:
        return max(0.0, self.at - self.answered)


def figures(
    where: str,
    times: list[float],
    bare_times: list[float],
    size: Size,
    note: str = "",
    aims: Mapping[int, float] = _AIMS,
) -> list[Figure]:
    """p50 and p99 in milliseconds.

    Args:
        note: says more about the way of the changes.
        aims: the most milliseconds of percentiles, where there is an aim.
    """
    return [
        Figure(
            name=f"Change to {where}, p{percent}",
            unit="ms",
            value=percentile(times, percent) * 1000,
            baseline=percentile(bare_times, percent) * 1000,
            aim=Aim(bound=aims[percent], is_most=True) if percent in aims else None,
            note=f"{len(times):,} changes at {size.changes_per_second}/s{note}; "
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
    async with way(directory, arrivals) as url, changing(url) as change:
        return [each.after_answer for each in await timed(change, arrivals, size, share)]


async def timed(
    change: Change, arrivals: Arrivals, size: Size, share: float = 1.0
) -> list[Arrived]:
    """Make changes at the rate of `size`, and wait until all have arrived.

    Raises:
        NotArrived
    """
    count = round(size.changes_per_second * size.latency_seconds * share)
    xids = [f"/messagegroups/g{n % _GROUPS}/messages/m{n // _GROUPS}" for n in range(count)]
    arrivals.clear()
    await _warm_up(change, arrivals)
    arrivals.clear()
    answered = await _write(change, xids, 1 / size.changes_per_second)
    await _all_arrived(arrivals, answered)
    return [_arrived(arrivals.times[xid], each) for xid, each in answered.items()]


@contextlib.asynccontextmanager
async def changing(url: str) -> AsyncIterator[Change]:
    """A function that changes a message of the server at a URL with a PUT."""
    async with requesting(url, _CONNECTIONS) as request:

        async def change(xid: str) -> None:
            text = f"Changed at {time.perf_counter()}."
            body = orjson.dumps(message(xid.rpartition("/")[2], text))
            await request(send_request("PUT", url, xid, body))

        yield change


def _arrived(at: float, change: Answered) -> Arrived:
    """A change that arrived. One that did before its request is an error: it hides the real one."""
    if at < change.sent:
        raise NotArrived("something arrived about a message before it was changed")
    return Arrived(sent=change.sent, answered=change.at, at=at)


async def _warm_up(change: Change, arrivals: Arrivals) -> None:
    """Make changes until one arrives, so that all connections are open."""
    async with asyncio.timeout(_ARRIVE_SECONDS):
        while _WARM not in arrivals.times:
            await change(_WARM)
            await asyncio.sleep(0.1)


async def _write(change: Change, xids: list[str], interval: float) -> dict[str, Answered]:
    """Change each message once, at a fixed rate; return when.

    A slow answer does not delay the changes after it: that would hide its cost.
    """
    answered: dict[str, Answered] = {}

    async def make(xid: str) -> None:
        sent = time.perf_counter()
        await change(xid)
        answered[xid] = Answered(sent=sent, at=time.perf_counter())

    async with asyncio.TaskGroup() as group:
        started = time.perf_counter()
        for number, xid in enumerate(xids):
            await asyncio.sleep(max(0.0, started + number * interval - time.perf_counter()))
            group.create_task(make(xid))
    return answered


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
