"""The engines that execute the rule: an interface, and DuckDB for rows that fit into the memory."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.digestrows import ROWS, BucketRange, rows_within


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in SQL that both Spark and DuckDB execute.

    Args:
        text: the statement, with relations as `{name}` and arguments as `:name`.
        arguments: the values of the arguments. The values may come from hostile catalogs, so the
            text never contains a value.
    """

    text: str
    arguments: Mapping[str, str] = field(default_factory=dict)


class Engine(Protocol):
    """Executes queries. A frame is the name of a relation that later queries can read."""

    def read(
        self, plan: BucketPlan, progress: Callable[[str], None]
    ) -> AbstractContextManager[str]:
        """A frame of the rows that a plan reads, with the hashes that the rule needs.

        Args:
            progress: receives a line from time to time, while the work takes long.

        Raises:
            CatalogUnread: a catalog could not be read, or sent malformed rows.
        """

    def query(self, statement: Statement, **frames: str) -> str:
        """The result of a query; `frames` gives a frame to each relation of the statement."""

    def observe(
        self, frame: str, totals: Mapping[str, str]
    ) -> tuple[str, Callable[[], Mapping[str, int]]]:
        """Return the frame to read in place of `frame`, and a function that returns the totals.

        The function may be called after a frame derived from the returned frame was kept.

        Args:
            totals: aggregate expressions over `frame`, by name.
        """

    def keep(self, frame: str) -> AbstractContextManager[str]:
        """A frame with the rows of `frame`, computed once, when the context is entered."""

    def count(self, frame: str) -> int:
        """The number of rows of a frame."""

    def fetch(self, frame: str) -> list[dict[str, Any]]:
        """The rows of a frame, in order, loaded into memory."""

    def stream(self, frame: str) -> Iterator[dict[str, Any]]:
        """The rows of a frame, in order, of which few are in memory at a time."""

    def write(self, frame: str, path: Path) -> None:
        """Write the rows of a frame to the Parquet directory `path`, and replace the contents."""


def is_submitted() -> bool:
    """Whether spark-submit has started the program and Spark."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


_EVERY_SECONDS = 2.0


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
        def read(request: tuple[int, BucketRange]) -> list[pa.RecordBatch]:
            catalog, buckets = request
            given = plan.catalogs[catalog].input
            return list(rows_within(given, catalog, buckets, verify=plan.verify, check=plan.check))

        # Only the answers come from threads: a connection of DuckDB is for one thread at a time.
        with ThreadPoolExecutor(max_workers=_READS_AT_ONCE) as pool:
            parts = progress_of(pool.map(read, plan.requests), plan.rows, progress)
            batches = [batch for part in parts for batch in part]
        with self.hashed(pa.Table.from_batches(batches, ROWS)) as rows:
            yield rows

    @contextmanager
    def hashed(self, rows: pa.Table) -> Iterator[str]:
        """A frame of digest rows with the columns of hashes that the rule needs."""
        with self.keep(self.load(rows, _HASHED)) as kept:
            yield kept

    def load(self, rows: pa.Table, text: str = "SELECT * FROM {rows}") -> str:
        """A frame of rows in memory."""
        given = next(self._names)
        self._database.register(given, rows)
        kept = self.query(Statement(text), rows=given)
        # The frame has copied the rows, so the Arrow table can be released.
        self._database.unregister(given)
        return kept

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
        found: list[dict[str, Any]] = self._table(frame).to_pylist()
        return found

    def stream(self, frame: str) -> Iterator[dict[str, Any]]:
        return iter(self.fetch(frame))

    def write(self, frame: str, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        pq.write_table(self._table(frame), path / "part-00000.parquet", compression="zstd")

    def _table(self, frame: str) -> pa.Table:
        return self._database.table(frame).to_arrow_table()


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
