"""The rule of reconciliation on Spark, over synthetic catalogs: processor time of a row."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession

from benchmarks.figure import Aim, Figure
from benchmarks.size import Size
from replication.reconcile.compare import find_differences
from replication.reconcile.session import open_session
from replication.reconcile.sparkengine import SparkEngine, hashed
from replication.reconcile.topology import WHOLE_CATALOG, Coverage, Topology

_CATALOGS = 4
_ROWS = 10_000_000
_QUICK_ROWS = 1_000_000
_DIFFERING = 1000
"""One row in so many differs."""
_NAMES = tuple(f"c{number}" for number in range(_CATALOGS))
_AUTHORITIES = tuple(f"https://{name}.example.com" for name in _NAMES)
_TOPOLOGY = Topology(
    names=_NAMES,
    authorities=_AUTHORITIES,
    coverage=tuple(
        {each: Coverage(WHOLE_CATALOG, int(each != own)) for each in _AUTHORITIES}
        for own in _AUTHORITIES
    ),
)
_COPIES = f"""
SELECT CAST(id % {_CATALOGS} AS INT) AS catalog, authority, origin, origin AS xid,
    CASE WHEN is_stale THEN 1 ELSE 2 END AS epoch, false AS deleted, digest, 0 AS changedat,
    xxhash64(digest) AS fp, CAST(0 AS TINYINT) AS signature
FROM (
    SELECT id, origin, authority, is_stale,
        sha2(concat(authority, origin, CAST(is_stale AS STRING)), 256) AS digest
    FROM (
        SELECT id, concat('/messagegroups/g', number % 1000, '/messages/m', number) AS origin,
            concat('https://c', number % {_CATALOGS}, '.example.com') AS authority,
            id % {_CATALOGS} <> number % {_CATALOGS} AND id % {_DIFFERING} = 7 AS is_stale
        FROM (SELECT id, id DIV {_CATALOGS} AS number FROM {{ids}})
    )
)"""


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
        f"{whole.rows:,} rows of {_CATALOGS} catalogs, {whole.found:,} differences described and "
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
        # The first run compiles.
        _measured(session, directory, rows // 10)
        return _measured(session, directory, rows // 2), _measured(session, directory, rows)


def _measured(session: SparkSession, directory: Path, rows: int) -> _Measured:
    with tempfile.TemporaryDirectory(dir=directory) as held:
        session.range(rows).createOrReplaceTempView("ids")
        session.sql(_COPIES.format(ids="ids")).write.parquet(f"{held}/rows")
        engine = SparkEngine(session)
        read = session.read.parquet(f"{held}/rows")

        def compare() -> int:
            with (
                engine.cached(hashed(read)) as view,
                find_differences(engine, view, _TOPOLOGY) as found,
            ):
                session.table(found.described(is_few=True)).write.parquet(f"{held}/found")
                return found.number

        began = time.monotonic()
        rule, number = _processor(compare)
        wall = time.monotonic() - began
        bare, _ = _processor(lambda: _exchanged(hashed(read)))
    return _Measured(rows=rows, rule=rule, bare=bare, wall=wall, found=number)


def _exchanged(rows: DataFrame) -> Any:
    exchanged = rows.select("catalog", "h1", "h2", "epoch", "deleted", "fp").repartition("h1", "h2")
    return exchanged.selectExpr("bit_xor(fp)", "bit_xor(h1)", "sum(epoch)").collect()


def _processor(work: Callable[[], Any]) -> tuple[float, Any]:
    """The processor seconds of Java during some work, and what the work returns."""
    before = _seconds()
    result = work()
    return _seconds() - before, result


def _seconds() -> float:
    family = psutil.Process().children(recursive=True)
    spent = [each.cpu_times() for each in family if "java" in each.name()]
    return sum(each.user + each.system for each in spent)
