"""Durable PUT of a message, against a bare handler with one transaction of three inserts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from benchmarks.figure import Aim, Figure, middle, spread
from benchmarks.load import connected, run_load, send_request
from benchmarks.messages import document, message
from benchmarks.process import bare, node
from benchmarks.size import Size

GROUPS = 64
MESSAGES = 20
_MANY = 32
_numbers = itertools.count()

Streams = Callable[[str, int], list[Iterator[bytes]]]


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure updates and creations per second of a node, and of the bare handler."""
    data = directory / "put-bare"
    async with (
        node(directory, "put-node") as url,
        bare(directory, "put-bare", "--directory", str(data)) as bare_url,
    ):
        async with connected(url, 1) as (connection,):
            groups = orjson.dumps(document("g", GROUPS, MESSAGES))
            await connection.request(send_request("POST", url, "/", groups))
        return [
            await _compare(f"Durable PUT, {kind}", size, connections, (url, bare_url), streams)
            for kind, streams in (("update", updates), ("create", _creations))
            for connections in (size.connections, _MANY)
        ]


async def _compare(
    name: str, size: Size, connections: int, urls: tuple[str, str], streams: Streams
) -> Figure:
    url, bare_url = urls
    rates: dict[str, list[float]] = {url: [], bare_url: []}
    for number in range(size.rounds + 1):
        for target, found in rates.items():
            made = streams(target, connections)
            done = await run_load(target, made, size.round_seconds)
            if number:
                found.append(done.rate)
    return Figure(
        name=f"{name}, {connections} at a time",
        unit="requests/s",
        value=middle(rates[url]),
        baseline=middle(rates[bare_url]),
        aim=Aim(bound=0.5, of_ratio=True),
        note=f"each connection in groups of its own; {spread(rates[url], rates[bare_url])}",
    )


def updates(url: str, connections: int) -> list[Iterator[bytes]]:
    """Updates of existing messages, no two connections in one group."""
    return [_written(url, range(n, GROUPS, connections), False) for n in range(connections)]


def _creations(url: str, connections: int) -> list[Iterator[bytes]]:
    return [_written(url, range(n, GROUPS, connections), True) for n in range(connections)]


def _written(url: str, groups: range, is_new: bool) -> Iterator[bytes]:
    for turn in itertools.count():
        number = next(_numbers)
        name = f"n{number}" if is_new else f"m{turn % MESSAGES}"
        path = f"/messagegroups/g{groups[turn % len(groups)]}/messages/{name}"
        yield send_request("PUT", url, path, orjson.dumps(message(name, f"Revision {number}.")))
