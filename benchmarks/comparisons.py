"""What the comparisons of 500 links in a quarter of an hour cost the catalog that they follow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bootstrap import seed
from benchmarks.figure import Aim, Figure
from benchmarks.messages import REPLICATED_PER_GROUP, entities_in
from benchmarks.process import node_process
from benchmarks.processor import family_seconds, postmaster_of
from benchmarks.size import Size
from catalog.client import Client

_LINKS = 500
_INTERVAL_SECONDS = 900
_MAX_AGE_SECONDS = 60
_ENTITIES = 100_000
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Cost:
    """The processor seconds of node and PostgreSQL, and the bytes of an answer."""

    seconds: float
    bytes: int


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure the requests of 500 links: each for itself, and with shared fingerprints."""
    whole = entities_in(1, REPLICATED_PER_GROUP)
    groups = min(_ENTITIES // whole, 2 * size.replica_groups)
    name = "comparisons"
    async with node_process(directory, name) as (url, pid), Client.open(url) as client:
        await seed(url, groups)
        pids = pid, postmaster_of(directory / name)
        await _ask(client, 1, 0)
        alone = await _cost(client, pids, [(_LINKS, 0)])
        # Fingerprints are read once a minute, and serve all requests of the minute.
        minutes = _INTERVAL_SECONDS // _MAX_AGE_SECONDS
        shared = await _cost(client, pids, [(minutes, 0), (_LINKS, _MAX_AGE_SECONDS)])
    count = entities_in(groups, REPLICATED_PER_GROUP)
    return [
        Figure(
            name=f"Processor, {_LINKS} links compare each quarter of an hour",
            unit="% of a core",
            value=100 * shared.seconds / _INTERVAL_SECONDS,
            baseline=100 * alone.seconds / _INTERVAL_SECONDS,
            aim=Aim(bound=1, is_most=True),
            note=f"node and PostgreSQL together, {count:,} entities; an answer has "
            f"{shared.bytes:,} bytes; before: fingerprints read for each link",
        )
    ]


async def _cost(client: Client, pids: Sequence[int], requests: Sequence[tuple[int, int]]) -> _Cost:
    before = sum(map(family_seconds, pids))
    size = 0
    for count, max_age in requests:
        size = await _ask(client, count, max_age)
    return _Cost(sum(map(family_seconds, pids)) - before, size)


async def _ask(client: Client, count: int, max_age: int) -> int:
    """Ask for the coarsest fingerprints, as comparisons do; return the bytes of the last answer."""
    authority = (await client.handshake()).authority
    params = [("bits", "8"), ("ranges", "0-65536"), ("authority", authority)]
    turns, sizes = asyncio.Semaphore(_AT_ONCE), []

    async def ask() -> None:
        async with turns:
            answer = await client.merged_digests([*params, ("maxage", str(max_age))])
            sizes.append(len(answer.body))

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(ask())
    return sizes[-1]
