"""A node in two processes against a node in one: durable PUTs, and reads from the database."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from benchmarks.figure import Aim, Figure, middle, spread
from benchmarks.load import connected, get_request, run_load, send_request
from benchmarks.messages import document
from benchmarks.process import node
from benchmarks.put import GROUPS, MESSAGES, updates
from benchmarks.size import Size

_ANEW = "Cache-Control: no-cache\r\n"

Streams = Callable[[str, int], list[Iterator[bytes]]]


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure the requests per second of both nodes in turn."""
    async with (
        node(directory, "two-processes", PROCESSES="2") as two,
        node(directory, "one-process") as one,
    ):
        for url in (two, one):
            async with connected(url, 1) as (connection,):
                groups = orjson.dumps(document("g", GROUPS, MESSAGES))
                await connection.request(send_request("POST", url, "/", groups))
        return [
            await _compare("Durable PUT, update", 1.0, size, (two, one), updates),
            await _compare("GET, from the database", 1.5, size, (two, one), _reads),
        ]


def _reads(url: str, connections: int) -> list[Iterator[bytes]]:
    requests = [
        get_request(url, f"/messagegroups/g{group}/messages/m{number}", _ANEW)
        for group in range(GROUPS)
        for number in range(MESSAGES)
    ]
    return [itertools.cycle(requests[n::connections]) for n in range(connections)]


async def _compare(
    name: str, least: float, size: Size, urls: tuple[str, str], streams: Streams
) -> Figure:
    two, one = urls
    rates: dict[str, list[float]] = {two: [], one: []}
    for number in range(size.rounds + 1):
        for url, found in rates.items():
            done = await run_load(url, streams(url, size.connections), size.round_seconds)
            if number:  # The first round is a warm-up.
                found.append(done.rate)
    return Figure(
        name=f"{name}, two processes",
        unit="requests/s",
        value=middle(rates[two]),
        baseline=middle(rates[one]),
        aim=Aim(bound=least, of_ratio=True),
        note=f"{size.connections} connections; the generator and PostgreSQL use the same cores; "
        f"{spread(rates[two], rates[one])}",
    )
