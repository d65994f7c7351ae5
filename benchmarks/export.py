"""Export of a whole catalog, against a bare reader that streams the same rows."""

from __future__ import annotations

import time
from pathlib import Path

import aiohttp
import orjson

from benchmarks.bootstrap import seed
from benchmarks.figure import Aim, Figure, middle, spread
from benchmarks.load import connected, send_request
from benchmarks.memory import peak_of, restart_peak
from benchmarks.messages import REPLICATED_PER_GROUP, document, entities_in
from benchmarks.process import bare, node, node_process
from benchmarks.size import Size

_GROUPS_AT_ONCE = 20
_MOST_GROWTH = 200.0
_MEBIBYTE = 1024 * 1024


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure entities per second of `/export`, and the growth of the node's memory."""
    groups, count = size.replica_groups, entities_in(size.replica_groups, REPLICATED_PER_GROUP)
    data = directory / "export-bare-data"
    async with node(directory, "export-node") as url:
        await seed(url, groups)
    async with (
        # A new process: memory left over from the import would hide that of the export.
        node_process(directory, "export-node") as (url, pid),
        bare(directory, "export-bare", "--directory", str(data)) as bare_url,
    ):
        await _seed_bare(bare_url, groups)
        rates: list[float] = []
        baselines: list[float] = []
        before = restart_peak(pid)
        for number in range(size.rounds + 1):
            length, seconds = await _read(f"{url}/export")
            _, bare_seconds = await _read(f"{bare_url}/rows")
            if number:  # The first round is a warm-up.
                rates.append(count / seconds)
                baselines.append(count / bare_seconds)
        growth = (peak_of(pid) - before) / _MEBIBYTE
    return [
        Figure(
            name="Export",
            unit="entities/s",
            value=middle(rates),
            baseline=middle(baselines),
            aim=Aim(bound=20_000),
            note=f"{count:,} entities, {length / _MEBIBYTE:.0f} MiB; {spread(rates, baselines)}",
        ),
        Figure(
            name="Export, growth of memory",
            unit="MiB",
            value=growth,
            aim=Aim(bound=_MOST_GROWTH, is_most=True),
            note=f"peak while {size.rounds + 1} exports were read, from {before / _MEBIBYTE:.0f}",
        ),
    ]


async def _seed_bare(url: str, groups: int) -> None:
    async with connected(url, 1) as (connection,):
        for first in range(0, groups, _GROUPS_AT_ONCE):
            number = min(_GROUPS_AT_ONCE, groups - first)
            body = orjson.dumps(document("g", number, REPLICATED_PER_GROUP, first=first))
            await connection.request(send_request("POST", url, "/", body))


async def _read(url: str) -> tuple[int, float]:
    """Read an answer to its end; return its number of bytes and the seconds that it took."""
    started, length = time.perf_counter(), 0
    async with (
        aiohttp.ClientSession(raise_for_status=True) as session,
        session.get(url) as response,
    ):
        async for part in response.content.iter_any():
            length += len(part)
    return length, time.perf_counter() - started
