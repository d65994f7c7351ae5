"""A comparison on Spark, over synthetic catalogs: processor time of a row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession

from benchmarks.figure import Aim, Figure
from benchmarks.size import Size
from benchmarks.syntheticcatalogs import CATALOGS, write_catalogs
from replication.reconcile.bucketplan import BucketPlan, plan_of
from replication.reconcile.catalogs import survey
from replication.reconcile.compare import Stages, compare
from replication.reconcile.sparkengine import SparkEngine, hashed, snapshot_rows
from replication.reconcile.sparksession import open_session

_ROWS = 10_000_000
_QUICK_ROWS = 1_000_000
_DIFFERING = 1000
"""One row in so many differs."""
_WARM_UP = 3
"""So many runs before those that count, while Java compiles the rule ever better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """Processor and wall seconds of the rule with its output, and of the bare reading."""

    rows: int
    rule: float
    bare: float
    wall: float
    found: int


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure the rule on rows in Parquet, and on half of these."""
    rows = _ROWS if size.replica_groups >= 100 else _QUICK_ROWS
    half, whole = await asyncio.to_thread(_measure, directory, rows)
    note = (
        f"{whole.rows:,} rows of {CATALOGS} catalogs, {whole.found:,} differences described and "
        f"written, {whole.wall:.0f} s; beside: a scan of the same files and one exchange"
    )
    return [
        Figure(
            name="Reconcile on Spark, processor of a row",
            unit="µs",
            value=1e6 * whole.rule / whole.rows,
            baseline=1e6 * whole.bare / whole.rows,
            aim=Aim(bound=1.8, is_most=True),
            note=note,
        ),
        Figure(
            name="Reconcile on Spark, twice the rows",
            unit="times",
            value=whole.rule / half.rule,
            aim=Aim(bound=2.2, is_most=True),
            note=f"the processor time of {whole.rows:,} rows by that of {half.rows:,}",
        ),
    ]


def _measure(directory: Path, rows: int) -> tuple[_Measured, _Measured]:
    with open_session("local[*]", rows) as session:
        half, whole = [
            plan_of(
                survey(write_catalogs(session, directory / name, number, differing=_DIFFERING)),
                verify=True,
            )
            for name, number in (("rule-half", rows // 2), ("rule-whole", rows))
        ]
        for _ in range(_WARM_UP):
            _measured(session, half, directory)
        return _measured(session, half, directory), _measured(session, whole, directory)


def _measured(session: SparkSession, plan: BucketPlan, directory: Path) -> _Measured:
    def measure() -> int:
        stages = Stages(lambda line: None)
        with compare(SparkEngine(session), plan, lambda: None, stages) as compared:
            compared.findings.write(directory / "rule-found")
            return sum(sum(each.values()) for each in compared.findings.counts().values())

    began = time.monotonic()
    rule, number = _processor(measure)
    wall = time.monotonic() - began
    bare, _ = _processor(lambda: _exchanged(_read(session, plan)))
    return _Measured(rows=plan.rows, rule=rule, bare=bare, wall=wall, found=number)


def _read(session: SparkSession, plan: BucketPlan) -> DataFrame:
    rows = snapshot_rows(session, plan)
    assert rows is not None, "the snapshots are on this machine"
    return hashed(rows)


def _exchanged(rows: DataFrame) -> Any:
    exchanged = rows.select("catalog", "h1", "h2", "epoch", "deleted", "fp").repartition("h1", "h2")
    return exchanged.selectExpr("bit_xor(fp)", "bit_xor(h1)", "sum(epoch)").collect()


def _processor(work: Callable[[], Any]) -> tuple[float, Any]:
    """The processor seconds of Spark during some work, and what the work returns."""
    before = _seconds()
    result = work()
    return _seconds() - before, result


def _seconds() -> float:
    family = psutil.Process().children(recursive=True)
    return sum(each.cpu_times().user + each.cpu_times().system for each in family)
