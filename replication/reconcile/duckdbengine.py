"""DuckDB as the engine of the rule, for rows that fit into the memory of the process."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.copysignatures import SignatureCheck
from replication.reconcile.digestrows import ROWS, BucketRange, rows_within
from replication.reconcile.findings import Difference, Findings, FindingsList
from replication.reconcile.rule import Statement

_EVERY_SECONDS = 2.0


def progress_of(
    parts: Iterable[list[pa.RecordBatch]], expected: int, progress: Callable[[str], None]
) -> Iterator[list[pa.RecordBatch]]:
    """The parts of a reading, with a line every two seconds.

    Args:
        expected: the number of live entities to read; tombstones come in addition.
    """
    began = last = time.monotonic()
    rows = 0
    for part in parts:
        rows += sum(map(len, part))
        now = time.monotonic()
        if now - last >= _EVERY_SECONDS:
            last = now
            progress(progress_line(rows, expected, now - began))
        yield part


def progress_line(rows: int, expected: int, seconds: float) -> str:
    """The state of a reading in words, as `42 %: 1,200,000 of 2,857,000 rows, 12 s, 17 s left`."""
    share = min(rows / expected, 1.0) if expected else 1.0
    left = seconds / share - seconds if share else 0.0
    return f"{share:.0%}: {rows:,} of {expected:,} rows, {seconds:.0f} s, about {left:.0f} s left"


MOST_ROWS = 1_000_000
"""The most rows to compare without Spark; a million rows take about 300 MB and two seconds."""
_READS_AT_ONCE = 8
_ARGUMENT = re.compile(r":([a-z]+[0-9]+)\b")
_HASHED = """
SELECT *, hash('1', authority, origin) AS h1, hash('2', authority, chr(10), origin) AS h2,
    hash(digest) AS fp
FROM {rows}"""


class DuckdbEngine:
    """Executes queries in memory; a frame is the name of a table."""

    def __init__(self) -> None:
        self._database = duckdb.connect(":memory:")
        self._names = (f"frame{number}" for number in itertools.count())

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def read(self, plan: BucketPlan, progress: Callable[[str], None]) -> Iterator[str]:
        check = None if plan.keys is None else SignatureCheck.of(plan.keys)

        def read(request: tuple[int, BucketRange]) -> list[pa.RecordBatch]:
            catalog, buckets = request
            given = plan.catalogs[catalog].input
            return list(rows_within(given, catalog, buckets, verify=plan.verify, check=check))

        with ThreadPoolExecutor(max_workers=_READS_AT_ONCE) as pool:
            parts = progress_of(pool.map(read, plan.requests), plan.rows, progress)
            batches = [batch for part in parts for batch in part]
        with self.hashed(pa.Table.from_batches(batches, ROWS)) as rows:
            yield rows

    @contextmanager
    def hashed(self, rows: pa.Table) -> Iterator[str]:
        """A frame of digest rows with the columns of hashes that the rule needs."""
        given = next(self._names)
        self._database.register(given, rows)
        with self.keep(self.query(Statement(_HASHED), rows=given)) as kept:
            # The table has copied the rows, so the Arrow table can be released.
            self._database.unregister(given)
            yield kept

    def query(self, statement: Statement, **frames: str) -> str:
        name = next(self._names)
        # The rule writes arguments as Spark does, `:name`; DuckDB needs `$name`.
        text = _ARGUMENT.sub(r"$\1", statement.text.format(**frames))
        self._database.execute(
            f"CREATE TEMP TABLE {name} AS {text}", dict(statement.arguments) or None
        )
        return name

    def observe(
        self, frame: str, totals: Mapping[str, str]
    ) -> tuple[str, Callable[[], Mapping[str, int]]]:
        aggregates = ", ".join(f"{text} AS {name}" for name, text in totals.items())
        statement = Statement(f"SELECT {aggregates} FROM {{origins}}")

        def read() -> Mapping[str, int]:
            [found] = self.fetch(self.query(statement, origins=frame))
            # DuckDB's sums have 128 bits, and Arrow represents 128-bit integers as decimals.
            return {name: int(number) for name, number in found.items()}

        return frame, read

    @contextmanager
    def keep(self, frame: str) -> Iterator[str]:
        # `query` has already stored the rows in a table.
        try:
            yield frame
        finally:
            self._database.execute(f"DROP TABLE {frame}")

    def count(self, frame: str) -> int:
        return len(self._database.table(frame))

    def fetch(self, frame: str) -> list[dict[str, Any]]:
        table = self._database.table(frame).to_arrow_table()
        found: list[dict[str, Any]] = table.to_pylist()
        return found

    @contextmanager
    def findings(self, frame: str) -> Iterator[Findings]:
        order = ("authority", "origin", "catalog", "finding")
        rows = sorted(self.fetch(frame), key=lambda row: [row[name] for name in order])
        yield FindingsList([Difference(**row) for row in rows])
