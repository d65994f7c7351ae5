"""Bootstrap of a million entities, and the memory that both nodes take for it."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.bootstrap import fingerprints, seed, until_equal
from benchmarks.figure import Figure
from benchmarks.memory import peak_of, restart_peak
from benchmarks.messages import REPLICATED_PER_GROUP, entities_in
from benchmarks.process import node_process
from benchmarks.size import FULL, Size
from catalog.client import Client
from catalog.operations.links import NewLink

_GROUPS = 8000  # a million entities
_QUICK_GROUPS = 80
_MIB = 1024 * 1024


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure a twentieth first, as the baseline, and then all."""
    groups = _GROUPS if size == FULL else _QUICK_GROUPS
    few, many = [await _measure(count, directory) for count in (groups // 20, groups)]
    names = ("Memory of the source", "Memory of the replica", "Bootstrap")
    note = f"{entities_in(groups, REPLICATED_PER_GROUP):,} entities; the baseline has a twentieth"
    return [
        Figure(name=f"{name}, many entities", unit=unit, value=value, baseline=baseline, note=note)
        for name, unit, value, baseline in zip(
            names, ("MiB", "MiB", "entities/s"), many, few, strict=True
        )
    ]


async def _measure(groups: int, directory: Path) -> tuple[float, float, float]:
    """The memory that each node takes beside what it had before, and entities per second."""
    async with (
        node_process(directory, f"large-source-{groups}") as (source, source_pid),
        node_process(directory, f"large-replica-{groups}") as (
            replica,
            replica_pid,
        ),
        Client.open(replica) as target,
        Client.open(source) as origin,
    ):
        await seed(source, groups)
        wanted = await fingerprints(origin)
        before = restart_peak(source_pid), restart_peak(replica_pid)
        began = time.perf_counter()
        link = await target.add_link(NewLink(source=source, mode="pull"))
        await until_equal(target, link.id, wanted)
        rate = entities_in(groups, REPLICATED_PER_GROUP) / (time.perf_counter() - began)
        taken = [
            peak_of(pid) - had for pid, had in zip((source_pid, replica_pid), before, strict=True)
        ]
        return taken[0] / _MIB, taken[1] / _MIB, rate
