"""The rate of changes at which the lag of a replica begins to grow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.arrivals import Arrivals
from benchmarks.figure import Figure, percentile
from benchmarks.latency import changing, timed
from benchmarks.size import FULL, Size
from benchmarks.to_replica import replica_by

_RATES = (100, 150, 200, 250, 300, 400, 500, 600)
_SECONDS = 4.0
# The lag grows where the last changes take longer than the first by more than this.
_GROWTH_SECONDS = 0.1


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure each mode at higher and higher rates; the baseline is the mode `pull`."""
    found = {
        mode: await _highest_rate(mode, size, directory) for mode in ("pull", "events", "push")
    }
    return [
        Figure(
            name=f"Changes that a replica by {mode} keeps up with",
            unit="changes/s",
            value=rate,
            baseline=found["pull"],
            note="both nodes, their databases and the writers share the machine",
        )
        for mode, rate in found.items()
    ]


async def _highest_rate(mode: str, size: Size, directory: Path) -> float:
    """The highest rate at which the lag does not grow; 0 if it does at the lowest one."""
    arrivals, highest = Arrivals(), 0.0
    seconds = _SECONDS if size == FULL else size.latency_seconds / 3
    async with replica_by(mode, directory, arrivals) as url, changing(url) as change:
        for rate in _RATES:
            faster = replace(size, changes_per_second=rate, latency_seconds=seconds)
            times = [each.after_answer for each in await timed(change, arrivals, faster)]
            quarter = len(times) // 4
            growth = percentile(times[-quarter:], 50) - percentile(times[:quarter], 50)
            if growth > _GROWTH_SECONDS:
                break
            highest = float(rate)
    return highest
