"""The change feed with a hundred followers, against the same feed with one."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from benchmarks.arrivals import Arrivals, feed
from benchmarks.figure import Figure, percentile
from benchmarks.latency import changing_node, measure
from benchmarks.size import Size

_FOLLOWERS = 100


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure p50 and p99 of one follower, alone and among the others, which read as it does."""
    alone = await measure(partial(_followed, 1), size, directory)
    among = await measure(partial(_followed, _FOLLOWERS), size, directory)
    return [
        Figure(
            name=f"Change to one of {_FOLLOWERS} followers, p{percent}",
            unit="ms",
            value=percentile(among, percent) * 1000,
            baseline=percentile(alone, percent) * 1000,
            note=f"{size.changes_per_second} changes/s; the baseline follows alone",
        )
        for percent in (50, 99)
    ]


@contextlib.asynccontextmanager
async def _followed(followers: int, directory: Path, arrivals: Arrivals) -> AsyncIterator[str]:
    """A node whose feed is followed by long polls; the last follower notes what arrives."""
    async with (
        changing_node(directory, f"followed-by-{followers}") as url,
        contextlib.AsyncExitStack() as stack,
    ):
        for number in range(followers):
            heard = arrivals if number == followers - 1 else Arrivals()
            await stack.enter_async_context(feed(heard, url))
        yield url
