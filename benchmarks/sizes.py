"""The command `concord reconcile` on a cluster of Spark: the memory, disk and time of a size."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import psutil

from benchmarks.figure import Aim, Figure
from benchmarks.processor import family_seconds
from benchmarks.size import FULL, Size
from benchmarks.syntheticcatalogs import CATALOGS, write_catalogs
from replication.reconcile.inputs.snapshotinput import SnapshotInput
from replication.reconcile.sparksession import open_session
from tests.spark.cluster import running_cluster

_ROWS, _QUICK_ROWS = 10_000_000, 1_000_000
_LOOK_SECONDS = 0.25
_MIB = 1 << 20
_EXECUTOR = "1g"
# Spark starts no driver with a heap of less than 471 MB. With so small a share of its heap for
# rows, an executor has some 30 MB to aggregate them in.
_SMALL_DRIVER = "512m"
_SPILLING = {"spark.memory.fraction": "0.05"}


@dataclass(frozen=True, slots=True)
class _Shuffle:
    """The bytes that tasks spilled, and the rows of the largest part divided by those of a mean."""

    spilled: int
    skew: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A comparison: processor and wall seconds, and peaks of memory and disk in bytes."""

    rows: int
    processor: float
    wall: float
    driver: int
    executor: int
    disk: int
    shuffle: _Shuffle
    found: int

    @property
    def microseconds(self) -> float:
        return 1e6 * self.processor / self.rows


async def run(size: Size, directory: Path) -> list[Figure]:
    """Compare two sizes, then with much to find, skewed, and with little memory."""
    rows = _ROWS if size == FULL else _QUICK_ROWS
    made = await asyncio.to_thread(_write, directory, rows)
    with running_cluster(directory, workers=1, memory=_EXECUTOR) as cluster:
        measure = _Measure(directory, cluster.master, cluster.workers[0].pid)
        tenth = await measure.run(made["tenth"], rows // 10)
        whole = await measure.run(made["whole"], rows)
        many = await measure.run(made["many"], rows // 10, {"spark.driver.memory": _SMALL_DRIVER})
        skewed = await measure.run(made["skewed"], rows // 10)
        spilling = await measure.run(made["whole"], rows, _SPILLING)
    noted = f"{rows:,} rows of {CATALOGS} catalogs on one core"
    beside = f"{noted}; beside: {rows // 10:,} rows"
    further = (whole.processor - tenth.processor) / (whole.rows - tenth.rows)
    fixed = tenth.processor - further * tenth.rows
    return [
        Figure(
            name="Reconcile on a cluster, processor of a further row",
            unit="µs",
            value=1e6 * further,
            note=f"from {rows // 10:,} rows to {rows:,}, beside {fixed:.0f} s whatever the size;"
            f" {whole.wall:.0f} s in all, {whole.found:,} differences",
        ),
        Figure(
            name="Reconcile on a cluster, memory of the driver",
            unit="MiB",
            value=whole.driver / _MIB,
            baseline=tenth.driver / _MIB,
            note=beside,
        ),
        Figure(
            name="Reconcile on a cluster, memory of the driver, many differences",
            unit="MiB",
            value=many.driver / _MIB,
            baseline=tenth.driver / _MIB,
            note=f"{many.found:,} differences in {many.rows:,} rows with a heap of {_SMALL_DRIVER};"
            f" beside: {tenth.found:,} differences",
        ),
        Figure(
            name="Reconcile on a cluster, memory of the executor",
            unit="MiB",
            value=whole.executor / _MIB,
            baseline=tenth.executor / _MIB,
            note=f"with a heap of {_EXECUTOR}; {beside}",
        ),
        Figure(
            name="Reconcile on a cluster, disk of the executor",
            unit="bytes of a row",
            value=whole.disk / whole.rows,
            baseline=tenth.disk / tenth.rows,
            note=beside,
        ),
        Figure(
            name="Reconcile on a cluster, largest part of the shuffle",
            unit="of the mean",
            value=skewed.shuffle.skew,
            baseline=tenth.shuffle.skew,
            aim=Aim(bound=1.1, of_ratio=True, is_most=True),
            note="one authority has 97 % of the entities; beside: four equal authorities",
        ),
        Figure(
            name="Reconcile on a cluster, too little memory for the rows",
            unit="µs",
            value=spilling.microseconds,
            baseline=whole.microseconds,
            note=f"processor of a row; {spilling.shuffle.spilled / _MIB:,.0f} MiB spilled, beside"
            f" {whole.shuffle.spilled / _MIB:,.0f} MiB; {spilling.wall:.0f} s",
        ),
    ]


def _write(directory: Path, rows: int) -> dict[str, list[SnapshotInput]]:
    """The snapshots of each kind of run, in directories of their own."""
    kinds = {
        "tenth": (rows // 10, 1000, 0),
        "whole": (rows, 1000, 0),
        "many": (rows // 10, 2, 0),
        "skewed": (rows // 10, 1000, 96),
    }
    with open_session("local[*]", rows) as session:
        return {
            name: write_catalogs(
                session, directory / name, count, differing=differing, skewed=skewed
            )
            for name, (count, differing, skewed) in kinds.items()
        }


@dataclass(frozen=True, slots=True)
class _Measure:
    """Runs the command on a cluster, and looks at its processes."""

    directory: Path
    master: str
    worker: int

    async def run(
        self, snapshots: list[SnapshotInput], rows: int, settings: dict[str, str] | None = None
    ) -> _Run:
        held = self.directory / f"run-{time.monotonic_ns()}"
        (held / "events").mkdir(parents=True)
        chosen = {
            "spark.executor.memory": _EXECUTOR,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (held / "events").as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            **(settings or {}),
        }
        lines = (f"{name} {value}\n" for name, value in chosen.items())
        (held / "spark-defaults.conf").write_text("".join(lines))
        catalogs = [f"--catalog={each.name}={each.directory}" for each in snapshots]
        options = [*catalogs, f"--report={held / 'report'}", "--master", self.master]
        before, began = family_seconds(self.worker), time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "catalog.cli", "reconcile", *options),
            env={**os.environ, "SPARK_CONF_DIR": str(held), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        ended = asyncio.create_task(process.communicate())
        driver = executor = disk = 0
        while not ended.done():
            driver = max(driver, sum(_memory_below(process.pid)))
            executor = max(executor, sum(_memory_below(self.worker)))
            disk = max(disk, _bytes_below(self.directory / "Worker1-scratch"))
            await asyncio.wait([ended], timeout=_LOOK_SECONDS)
        _, said = ended.result()
        if process.returncode != 1:
            raise RuntimeError(f"a comparison failed: {said.decode()}")
        summary = orjson.loads((held / "report" / "summary.json").read_bytes())
        return _Run(
            rows=rows,
            processor=family_seconds(self.worker) - before,
            wall=time.monotonic() - began,
            driver=driver,
            executor=executor,
            disk=disk,
            shuffle=_shuffle_of(held / "events"),
            found=summary["differences"],
        )


def _memory_below(pid: int) -> Iterator[int]:
    """The resident memory of each program of Java that a process has started."""
    try:
        for child in psutil.Process(pid).children(recursive=True):
            if "java" in child.name():
                yield child.memory_info().rss
    except psutil.NoSuchProcess:
        return


def _bytes_below(directory: Path) -> int:
    sizes = 0
    for root, _, files in os.walk(directory):
        for name in files:
            try:
                sizes += os.stat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                continue
    return sizes


def _shuffle_of(events: Path) -> _Shuffle:
    """What Spark's log of events tells of the tasks of a run."""
    [log] = events.iterdir()
    spilled, read = 0, defaultdict[int, list[int]](list)
    with log.open("rb") as lines:
        for line in lines:
            event = orjson.loads(line)
            if event["Event"] == "SparkListenerTaskEnd" and (task := event.get("Task Metrics")):
                spilled += task["Disk Bytes Spilled"]
                read[event["Stage ID"]].append(task["Shuffle Read Metrics"]["Total Records Read"])
    largest = max(read.values(), key=sum)
    return _Shuffle(spilled, max(largest) * len(largest) / sum(largest))
