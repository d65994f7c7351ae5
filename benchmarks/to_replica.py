"""Latency from a change to the change feed of a replica, against two bare hops."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.arrivals import Arrivals, feed, sink
from benchmarks.bootstrap import fingerprints, until_same
from benchmarks.figure import Figure
from benchmarks.latency import BARE_SHARE, changing_node, figures, measure
from benchmarks.process import bare, free_port, node
from benchmarks.size import Size
from catalog.client import Client
from catalog.operations.links import NewLink

_AIMS = {50: 8.0, 99: 30.0}


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure p50 and p99 of a link in each mode, at the usual rate of changes and twice that."""
    found: list[Figure] = []
    for factor in (1, 2):
        faster = replace(size, changes_per_second=factor * size.changes_per_second)
        made = directory / f"{faster.changes_per_second}"
        made.mkdir()
        bare_times = await measure(_bare_chain, faster, made, BARE_SHARE)
        for mode in ("events", "pull", "push"):
            times = await measure(partial(replica_by, mode), faster, made)
            where = f"replica by {mode}, {faster.changes_per_second}/s"
            aims = _AIMS if factor == 1 else {}
            found += figures(where, times, bare_times, faster, aims=aims)
    return found


@contextlib.asynccontextmanager
async def replica_by(mode: str, directory: Path, arrivals: Arrivals) -> AsyncIterator[str]:
    """A node whose changes come to a replica by a link; note when they are in its feed."""
    async with (
        changing_node(directory, f"{mode}-source") as url,
        node(directory, f"{mode}-replica") as replica,
        Client.open(url) as origin,
        Client.open(replica) as target,
    ):
        if mode == "push":
            authority = (await origin.handshake()).authority
            await target.add_link(NewLink(mode="accept", authority=authority))
            await origin.add_link(NewLink(target=replica, mode=mode))
        else:
            await target.add_link(NewLink(source=url, mode=mode))
        await until_same(target, await fingerprints(origin))
        async with feed(arrivals, replica):
            yield url


@contextlib.asynccontextmanager
async def _bare_chain(directory: Path, arrivals: Arrivals) -> AsyncIterator[str]:
    """The two hops from a change to a follower of a replica."""
    first, second = directory / "first-bare", directory / "second-bare"
    async with (
        sink(arrivals, free_port()) as target,
        bare(directory, "second-bare", "--directory", str(second), "--ahead", target) as middle,
        bare(directory, "first-bare", "--directory", str(first), "--ahead", middle) as url,
    ):
        yield url
