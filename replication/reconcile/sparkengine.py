"""Spark as the engine of the rule, for any number of rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from catalog.model.entity import Origin
from catalog.operations.reconciliations import REPAIRABLE, FindingName
from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.findings import (
    COPY_FINDINGS,
    FINDINGS,
    Counts,
    Difference,
    Findings,
    WantedRepair,
    by_catalog,
    counts_of,
)
from replication.reconcile.rule import Statement
from replication.reconcile.sparkrows import digest_rows, hashed, snapshot_rows, unread_snapshots

_EVERY_SECONDS = 5.0


class SparkEngine:
    """Executes queries in a Spark session; a frame is the name of a temporary view."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    @contextmanager
    def read(self, plan: BucketPlan, progress: Callable[[str], None]) -> Iterator[str]:
        kept = snapshot_rows(self._session, plan)
        # Spark reads the files of snapshots twice in less time than it takes to keep their rows.
        with (
            self.cached(hashed(digest_rows(self._session, plan)))
            if kept is None
            else nullcontext(self.view(hashed(kept))) as rows,
            unread_snapshots(plan),
            _told(self._session, progress),
        ):
            yield rows

    @contextmanager
    def cached(self, frame: DataFrame) -> Iterator[str]:
        """A view of a DataFrame, computed once; Spark computes lost partitions again."""
        # A statement finds cached data by the name of the view, and would not find the data of a
        # cached DataFrame behind the view.
        name, catalog = self.view(frame), self._session.catalog
        catalog.cacheTable(name, StorageLevel.MEMORY_AND_DISK)
        try:
            yield name
        finally:
            catalog.uncacheTable(name)
            catalog.dropTempView(name)

    def view(self, frame: DataFrame) -> str:
        """The name of a new view of a DataFrame."""
        name = f"concord_{uuid4().hex}"
        frame.createOrReplaceTempView(name)
        return name

    def query(self, statement: Statement, **frames: str) -> str:
        return self.view(self._frame_of(statement, **frames))

    def _frame_of(self, statement: Statement, **frames: str) -> DataFrame:
        arguments = dict(statement.arguments)
        return self._session.sql(statement.text.format(**frames), arguments or None)

    def observe(
        self, frame: str, totals: Mapping[str, str]
    ) -> tuple[str, Callable[[], Mapping[str, int]]]:
        # An observation computes the totals in the Spark job that reads the frame anyway.
        found = Observation("totals")
        aggregates = (F.expr(text).alias(name) for name, text in totals.items())
        observed = self._session.table(frame).observe(found, *aggregates)
        return self.view(observed), lambda: found.get

    @contextmanager
    def keep(self, frame: str) -> Iterator[str]:
        # Not `cached`: Spark never finds a view with an observation in the cache, and would compute
        # the view for each statement. The observation needs an eager job with a plan of more than
        # the name of the view.
        kept = (
            self._session.table(frame)
            .select("*")
            .localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        )
        name = self.view(kept)
        try:
            yield name
        finally:
            self._session.catalog.dropTempView(name)

    def count(self, frame: str) -> int:
        return self._session.table(frame).count()

    def fetch(self, frame: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in self._session.table(frame).collect()]

    @contextmanager
    def findings(self, frame: str) -> Iterator[Findings]:
        with self.keep(frame) as kept:
            yield FindingsFrame(self._session.table(kept))


@contextmanager
def _told(session: SparkSession, progress: Callable[[str], None]) -> Iterator[None]:
    """Tell the share of the tasks that are done, every few seconds, while the context is open."""
    tracker, is_over, began = session.sparkContext.statusTracker(), Event(), time.monotonic()

    def tell() -> None:
        while not is_over.wait(_EVERY_SECONDS):
            found = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
            stages = [stage for stage in found if stage is not None and stage.numTasks]
            if tasks := sum(stage.numTasks for stage in stages):
                done = sum(stage.numCompletedTasks for stage in stages)
                seconds = time.monotonic() - began
                progress(f"{done / tasks:.0%} of {tasks:,} tasks of this step, {seconds:.0f} s")

    thread = Thread(target=tell, name="progress of Spark", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@dataclass(frozen=True, slots=True)
class FindingsFrame:
    """Differences in a persisted DataFrame with the columns of `Difference`."""

    frame: DataFrame

    def counts(self) -> Counts:
        rows = self.frame.groupBy("finding", "catalog").count().collect()
        return counts_of((row["finding"], row["catalog"], row["count"]) for row in rows)

    def samples(self, most: int) -> dict[FindingName, tuple[Difference, ...]]:
        return {
            finding: found
            for finding in FINDINGS
            if (found := tuple(_differences(self._first(finding, most))))
        }

    def _first(self, finding: FindingName, most: int) -> DataFrame:
        found = self.frame.where(F.col("finding") == finding)
        return found.orderBy("authority", "origin", "catalog").limit(most)

    def ranked(self, most: int) -> tuple[Difference, ...]:
        order = ("authority", "origin", "catalog", "finding")
        each = Window.partitionBy("finding", "catalog").orderBy(*order)
        # Spark keeps no more than `most` rows of each partition while it sorts them.
        numbered = self.frame.withColumn("rank", F.row_number().over(each))
        few = numbered.where(F.col("rank") <= most).orderBy("rank", *order).limit(most)
        return tuple(_differences(few.drop("rank")))

    def authorities(self) -> Mapping[str, Mapping[str, int]]:
        rows = self._repairable().groupBy("catalog", "authority").count().collect()
        return by_catalog((row["catalog"], row["authority"], row["count"]) for row in rows)

    def repairs(
        self, catalog: str, authorities: Collection[str], sources: Collection[str]
    ) -> Iterator[WantedRepair]:
        wanted = self._wanted(catalog, authorities)
        origins = wanted.join(self._spoilt(sources), ["authority", "origin"], "left_anti").orderBy(
            F.size(F.split("origin", "/")), "origin", "authority"
        )
        # The iterator holds one partition at a time, since differences may exceed the memory.
        for row in origins.toLocalIterator():
            origin = Origin(row["authority"], row["origin"])
            yield WantedRepair(origin, row["finding"], row["epoch"])

    def withheld(self, catalog: str, authorities: Collection[str], sources: Collection[str]) -> int:
        wanted = self._wanted(catalog, authorities)
        return wanted.join(self._spoilt(sources), ["authority", "origin"], "left_semi").count()

    def write(self, path: Path) -> None:
        self.frame.write.mode("overwrite").option("compression", "zstd").parquet(str(path))

    def _wanted(self, catalog: str, authorities: Collection[str]) -> DataFrame:
        return (
            self._repairable()
            .where((F.col("catalog") == catalog) & F.col("authority").isin(*authorities))
            .groupBy("authority", "origin")
            .agg(F.min("finding").alias("finding"), F.max("reference_epoch").alias("epoch"))
        )

    def _spoilt(self, sources: Collection[str]) -> DataFrame:
        return self.frame.where(
            F.col("catalog").isin(*sources) & F.col("finding").isin(*COPY_FINDINGS)
        )

    def _repairable(self) -> DataFrame:
        return self.frame.where(F.col("finding").isin(*REPAIRABLE))


def _differences(frame: DataFrame) -> list[Difference]:
    return [Difference(**row.asDict()) for row in frame.collect()]
