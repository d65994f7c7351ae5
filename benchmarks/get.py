"""GET of a message, against a bare handler that answers with the same bytes.

A node caches its latest answers until the next write, so there are two figures. One reads few
messages repeatedly, from the cache. The other reads more messages in turn than the cache holds,
so that every answer comes from the database, as in a catalog that is written to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from benchmarks.figure import Aim, Figure, middle, spread
from benchmarks.load import body_of, connected, get_request, run_load, send_request
from benchmarks.messages import document
from benchmarks.process import bare, node
from benchmarks.size import Size

_PER_GROUP = 100
_GROUPS_AT_ONCE = 20
_FEW = 96
_MANY = 20_000  # A third more than the cache holds.


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure requests per second of one node, and of the bare handler."""
    groups = -(-_MANY // _PER_GROUP)
    paths = [
        f"/messagegroups/g{group}/messages/m{number}"
        for group in range(groups)
        for number in range(_PER_GROUP)
    ]
    async with node(directory, "get-node") as url:
        await _write(url, groups)
        body = await _shown(url, paths[0])
        file = directory / "get-body.json"
        file.write_bytes(body)
        async with bare(directory, "get-bare", "--body", str(file)) as bare_url:
            return [
                await _compare("GET, from the database", size, url, bare_url, paths, len(body)),
                await _compare("GET, remembered", size, url, bare_url, paths[:_FEW], len(body)),
            ]


async def _write(url: str, groups: int) -> None:
    async with connected(url, 1) as (connection,):
        for first in range(0, groups, _GROUPS_AT_ONCE):
            count = min(_GROUPS_AT_ONCE, groups - first)
            body = orjson.dumps(document("g", count, _PER_GROUP, first=first))
            await connection.request(send_request("POST", url, "/", body))


async def _shown(url: str, path: str) -> bytes:
    async with connected(url, 1) as (connection,):
        return body_of(await connection.request(get_request(url, path)))


def _streams(url: str, paths: Sequence[str], count: int) -> list[Iterator[bytes]]:
    """A stream of requests for each connection, for messages of its own."""
    requests = [get_request(url, path) for path in paths]
    return [itertools.cycle(requests[n::count]) for n in range(count)]


async def _compare(
    name: str, size: Size, url: str, bare_url: str, paths: Sequence[str], length: int
) -> Figure:
    rates: dict[str, list[float]] = {url: [], bare_url: []}
    # Streams continue from round to round: from the start they would read cached answers.
    streams = {target: _streams(target, paths, size.connections) for target in rates}
    busiest = 0.0
    for number in range(size.rounds + 1):
        for target, found in rates.items():
            done = await run_load(target, streams[target], size.round_seconds)
            if number:  # The first round is a warm-up.
                found.append(done.rate)
                busiest = max(busiest, done.generator_cpu)
    return Figure(
        name=name,
        unit="requests/s",
        value=middle(rates[url]),
        baseline=middle(rates[bare_url]),
        aim=Aim(bound=0.6, of_ratio=True),
        note=f"{len(paths):,} messages, {length:,} bytes each; "
        f"generator at most {busiest:.0%} of a core; {spread(rates[url], rates[bare_url])}",
    )
