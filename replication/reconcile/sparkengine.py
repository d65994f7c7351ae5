"""Spark as the engine of the rule, for any number of rows.

The digest rows of catalogs are a data source of Spark, with a partition for each range of buckets
of a catalog.
"""

from __future__ import annotations

import pickle
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import orjson
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from catalog.model.entity import Origin
from catalog.operations.reconciliations import FindingName
from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.copysignatures import SignatureCheck
from replication.reconcile.digestrows import BucketRange, rows_within
from replication.reconcile.findings import (
    COPY_FINDINGS,
    FINDINGS,
    REPAIRABLE,
    Counts,
    Difference,
    Findings,
    WantedRepair,
    by_catalog,
    counts_of,
)
from replication.reconcile.inputs.input import OpenedInput
from replication.reconcile.rule import Statement

FORMAT = "concord_digests"
SCHEMA = (
    "catalog int, authority string, origin string, xid string, "
    "epoch bigint, deleted boolean, digest string, changedat bigint, fp bigint, signature tinyint"
)


def digest_rows(spark: SparkSession, plan: BucketPlan) -> DataFrame:
    """The rows of the plan's catalogs in one lazy frame: an action of Spark reads the rows."""
    spark.dataSource.register(DigestSource)
    inputs = pickle.dumps([catalog.input for catalog in plan.catalogs])
    return (
        spark.read.format(FORMAT)
        .option("secretinputs", b64encode(inputs).decode())
        .option("requests", _json([(catalog, *part) for catalog, part in plan.requests]))
        .option("verify", _json(plan.verify))
        .option(
            "keys", _json(None if plan.keys is None else SignatureCheck.of(plan.keys).written())
        )
        .load()
    )


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


@dataclass(frozen=True, slots=True)
class _BucketsOfCatalog(InputPartition):
    """A partition; a single request reads the rows of the partition."""

    catalog: int
    buckets: BucketRange


class DigestSource(DataSource):
    """`spark.read.format("concord_digests")`: the digest rows of several catalogs.

    Options: `secretinputs`, the pickled inputs in base64 (Spark's logs mask an option with that
    name, and the inputs have tokens), and as JSON `requests` [[catalog, from, to], …], `verify`,
    and `keys`, the keys for checking signatures; null checks no signatures.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return _DigestReader(dict(self.options))


class _DigestReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        # The driver of this job has pickled the inputs.
        self._inputs: list[OpenedInput] = pickle.loads(b64decode(options["secretinputs"]))
        self._requests = orjson.loads(options["requests"])
        self._verify = orjson.loads(options["verify"])
        keys = orjson.loads(options["keys"])
        self._check = None if keys is None else SignatureCheck.read(keys)

    def partitions(self) -> Sequence[InputPartition]:
        return [
            _BucketsOfCatalog(catalog, BucketRange(start, stop))
            for catalog, start, stop in self._requests
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _BucketsOfCatalog)
        given = self._inputs[partition.catalog]
        return rows_within(
            given, partition.catalog, partition.buckets, verify=self._verify, check=self._check
        )


_EVERY_SECONDS = 5.0


class SparkEngine:
    """Executes queries in a Spark session; a frame is the name of a temporary view."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    @contextmanager
    def read(self, plan: BucketPlan, progress: Callable[[str], None]) -> Iterator[str]:
        with (
            self.cached(hashed(digest_rows(self._session, plan))) as rows,
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


def hashed(rows: DataFrame) -> DataFrame:
    """Digest rows with hashes of the strings, so that the steps of the rule move only numbers.

    An origin has two independent hashes; both collide together in one of 10^22 runs.
    """
    origin = (F.xxhash64(F.lit(n), "authority", "origin").alias(f"h{n}") for n in (1, 2))
    return rows.select("*", *origin)


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
