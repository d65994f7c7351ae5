"""The cost of ten thousand subscriptions of which a change concerns ten, or none.

Ten subscribe to each group of messages, by a prefix of the subject. All sinks are at one host. The
baselines are the same node before it has subscriptions, or with ten only.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil

from benchmarks.figure import Aim, Figure, percentile
from benchmarks.load import Connection, body_of, connected, get_request, send_request
from benchmarks.memory import memory_of
from benchmarks.messages import document, message
from benchmarks.process import node_process, server
from benchmarks.processor import family_seconds, postmaster_of, processor_seconds
from benchmarks.sinkcounter import change_once
from benchmarks.sinks import addresses
from benchmarks.size import Size
from benchmarks.subscribe import ONE_OF_A_CHANGE, create_all

_TEN = 10
_UNWANTED_PER_SECOND = 20
_WANTED_PER_SECOND = 5
_SAVED_SECONDS = 60
_LOOK_SECONDS = 0.5
_MEGABYTE = 1_000_000
_UNWANTED = "/messagegroups/unwanted/messages/m0"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """A node with its sinks, a connection to these, and how many seconds a measurement takes.

    A node closes connections that are idle for as long as a measurement may take.
    """

    url: str
    pid: int
    database: int
    sinks: int
    counter: Connection
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The shares of a core that the node's process and its PostgreSQL take."""

    node: float
    database: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a node takes: bytes, open files, and its shares of a core.

    Args:
        idle: while nothing changes.
        unwanted: while there are changes that no subscription wants.
    """

    memory: int
    files: int
    idle: Share
    unwanted: Share


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure memory, processor time, and the time from a change to the tenth sink."""
    groups = size.subscriptions // _TEN
    async with _bench(size, directory) as bench:
        async with connected(bench.url, 1) as (connection,):
            body = orjson.dumps(document("g", groups, 1))
            await connection.request(send_request("POST", bench.url, "/", body))
        without = await _cost(bench)
        await _subscribe(bench, range(1))
        changes = round(bench.seconds * _WANTED_PER_SECOND)
        few = await _latencies(bench, [0] * changes)
        started = time.perf_counter()
        await _subscribe(bench, range(1, groups))
        created = time.perf_counter() - started
        many = await _latencies(bench, [number * groups // changes for number in range(changes)])
        beside = await _cost(bench)
    return [
        *_cost_figures(size.subscriptions, beside, without, created),
        Figure(
            name=f"A change to {_TEN} sinks of {size.subscriptions:,}, p50",
            unit="ms",
            value=percentile(many, 50) * 1000,
            baseline=percentile(few, 50) * 1000,
            aim=Aim(bound=2, of_ratio=True, is_most=True),
            note=f"to the last of the ten, {len(many)} changes; p99 "
            f"{percentile(many, 99) * 1000:.1f}; the baseline has these ten subscriptions only, "
            f"p99 {percentile(few, 99) * 1000:.1f}",
        ),
    ]


@contextlib.asynccontextmanager
async def _bench(size: Size, directory: Path) -> AsyncIterator[_Bench]:
    name = "idle-node"
    command = [sys.executable, "-m", "benchmarks.sinks", "--count", "1"]
    async with (
        node_process(directory, name) as (url, pid),
        server(command, directory, "idle-sinks") as (sinks, port),
        connected(sinks, 1) as (counter,),
    ):
        yield _Bench(
            url=url,
            pid=pid,
            database=postmaster_of(directory / name),
            sinks=port,
            counter=counter,
            seconds=size.idle_seconds,
        )


async def _subscribe(bench: _Bench, groups: range) -> None:
    """Let ten sinks have the changes of each of these groups, and wait until they do."""
    [host] = addresses(1)
    await create_all(
        bench.url,
        [
            {
                "sink": f"http://{host}:{bench.sinks}/{group}/{number}",
                "protocol": "HTTP",
                "types": ONE_OF_A_CHANGE,
                "filters": [{"prefix": {"subject": f"/messagegroups/g{group}/"}}],
            }
            for group in groups
            for number in range(_TEN)
        ],
    )
    await _latencies(bench, groups[-1:])


async def _latencies(bench: _Bench, groups: Iterable[int]) -> list[float]:
    """The seconds from a change of each group to its arrival at the last of its ten sinks."""
    found: list[float] = []
    async with connected(bench.url, 1) as (connection,):
        for group in groups:
            due = time.perf_counter() + 1 / _WANTED_PER_SECOND
            xid = f"/messagegroups/g{group}/messages/m0"
            arrived = await change_once(
                connection, bench.counter, bench.url, bench.sinks, xid, sinks=_TEN
            )
            found.append(max(arrived))
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
    return found


async def _cost(bench: _Bench) -> Cost:
    await _until_saved(bench)
    return Cost(
        memory=memory_of(bench.pid),
        files=psutil.Process(bench.pid).num_fds(),
        idle=await _share(bench, asyncio.sleep(bench.seconds)),
        unwanted=await _share(bench, _change_unwanted(bench)),
    )


async def _until_saved(bench: _Bench) -> None:
    """Wait until the cursors of subscriptions that passed changes are saved, which takes seconds.

    They are saved together, and of twice ten, some passed the last change without wanting it.
    """
    request = get_request(bench.url, f"/subscriptions?limit={2 * _TEN}")
    async with asyncio.timeout(_SAVED_SECONDS), connected(bench.url, 1) as (connection,):
        while True:
            found = orjson.loads(body_of(await connection.request(request)))
            if not any(each["status"]["lag"] for each in found):
                return
            await asyncio.sleep(_LOOK_SECONDS)


async def _share(bench: _Bench, meanwhile: Awaitable[None]) -> Share:
    started = time.perf_counter()
    node, database = processor_seconds(bench.pid), family_seconds(bench.database)
    await meanwhile
    seconds = time.perf_counter() - started
    return Share(
        node=(processor_seconds(bench.pid) - node) / seconds,
        database=(family_seconds(bench.database) - database) / seconds,
    )


async def _change_unwanted(bench: _Bench) -> None:
    started = time.perf_counter()
    async with connected(bench.url, 1) as (connection,):
        for number in range(round(bench.seconds * _UNWANTED_PER_SECOND)):
            body = orjson.dumps(message("m0", f"Changed at {time.perf_counter()}."))
            await connection.request(send_request("PUT", bench.url, _UNWANTED, body))
            due = started + (number + 1) / _UNWANTED_PER_SECOND
            await asyncio.sleep(max(0.0, due - time.perf_counter()))


def _cost_figures(count: int, beside: Cost, without: Cost, created: float) -> Sequence[Figure]:
    """Figures of a node with its subscriptions beside those of a node without."""
    each = (beside.memory - without.memory) / count
    return [
        Figure(
            name=f"Memory with {count:,} subscriptions",
            unit="MB",
            value=beside.memory / _MEGABYTE,
            baseline=without.memory / _MEGABYTE,
            aim=Aim(bound=500, is_most=True),
            note=f"{each / 1000:.1f} KB for each; they were created through the API in "
            f"{created:.0f} s; {beside.files} open files, {without.files} without them",
        ),
        _share_figure(f"Processor, {count:,} subscriptions at rest", beside.idle, without.idle),
        _share_figure(
            f"Processor, {count:,} beside {_UNWANTED_PER_SECOND} changes/s",
            beside.unwanted,
            without.unwanted,
            "none of the subscriptions wants the changes; ",
        ),
    ]


def _share_figure(name: str, beside: Share, without: Share, what: str = "") -> Figure:
    return Figure(
        name=name,
        unit="% of a core",
        value=beside.node * 100,
        baseline=without.node * 100,
        note=f"{what}PostgreSQL takes {beside.database:.1%} in addition, {without.database:.1%} "
        "without subscriptions",
    )
