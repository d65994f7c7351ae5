"""Time from a change to 900 healthy sinks beside 100 sick ones, against the same without these.

Of the sick, half take two seconds for each answer, a quarter take events and never answer, and a
quarter refuse connections.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import orjson

from benchmarks.figure import Aim, Figure, percentile
from benchmarks.load import Connection, connected, send_request
from benchmarks.messages import document
from benchmarks.process import free_port, node, server
from benchmarks.sinkcounter import change_once
from benchmarks.sinks import SLOW_SECONDS, addresses
from benchmarks.size import Size
from benchmarks.subscribe import subscribe_all

_HEALTHY = 900
_SLOW = 50
_DEAD = 25
_MESSAGES = 20
_WARM_CHANGES = 5


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure p99 of the arrivals of a change a second, in milliseconds."""
    command = [sys.executable, "-m", "benchmarks.sinks", "--count", str(_HEALTHY)]
    command += ["--sick", str(_SLOW)]
    async with (
        node(directory, "sick-sinks-node") as url,
        server(command, directory, "sick-sinks") as (sinks, port),
        connected(url, 1) as (connection,),
        connected(sinks, 1) as (counter,),
    ):
        body = orjson.dumps(document("g", 1, _MESSAGES))
        await connection.request(send_request("POST", url, "/", body))
        await subscribe_all(url, [f"http://{each}:{port}/" for each in addresses(_HEALTHY)])
        changes = round(size.latency_seconds)
        await _arrivals(connection, counter, url, port, _WARM_CHANGES)
        alone = await _arrivals(connection, counter, url, port, changes)
        await subscribe_all(url, _sick(port))
        await _arrivals(connection, counter, url, port, _WARM_CHANGES)
        beside = await _arrivals(connection, counter, url, port, changes)
    return [
        Figure(
            name=f"A change to {_HEALTHY} sinks beside {len(_sick(port))} sick ones, p99",
            unit="ms",
            value=percentile(beside, 99) * 1000,
            baseline=percentile(alone, 99) * 1000,
            aim=Aim(bound=2, of_ratio=True, is_most=True),
            note=f"p50 {percentile(beside, 50) * 1000:.0f}, without the sick "
            f"{percentile(alone, 50) * 1000:.0f}; of the sick, {_SLOW} answer after "
            f"{SLOW_SECONDS:g} s, {_DEAD} never, and {_DEAD} refuse connections",
        )
    ]


def _sick(port: int) -> list[str]:
    slow = [f"http://{each}:{port}/" for each in addresses(_SLOW, network=2)]
    silent = [f"http://{each}:{port}/" for each in addresses(_DEAD, network=3)]
    closed = free_port()
    return [*slow, *silent, *(f"http://{each}:{closed}/" for each in addresses(_DEAD, network=4))]


async def _arrivals(
    connection: Connection, counter: Connection, url: str, port: int, changes: int
) -> list[float]:
    """The seconds from each change to its arrival at each healthy sink; one change a second."""
    found: list[float] = []
    for number in range(changes):
        due = time.perf_counter() + 1
        xid = f"/messagegroups/g0/messages/m{number % _MESSAGES}"
        found += await change_once(connection, counter, url, port, xid, sinks=_HEALTHY)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    return found
