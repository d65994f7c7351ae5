"""Spark as the engine of the rule, for any number of rows.

The rows of catalogs of any kind are a data source of Spark, with a partition for each range of
buckets of a catalog. Where all catalogs are snapshots on this machine, Spark reads their Parquet
files itself.
"""

from __future__ import annotations

import pickle
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.digestrows import ALL_BUCKETS, BucketRange, rows_within
from replication.reconcile.engine import Statement
from replication.reconcile.inputs.input import OpenedInput
from replication.reconcile.inputs.snapshotinput import SnapshotInput
from replication.reconcile.signatures import DAMAGED, UNCHECKED, SignatureCheck

FORMAT = "concord_digests"
_EVERY_SECONDS = 5.0
_COLUMNS = (
    "authority string, origin string, xid string, epoch bigint, deleted boolean, digest string, "
    "changedat bigint"
)


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
        arguments = dict(statement.arguments)
        text = statement.text.format(**frames)
        return self.view(self._session.sql(text, arguments or None))

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

    def stream(self, frame: str) -> Iterator[dict[str, Any]]:
        # The iterator holds one partition at a time.
        return (row.asDict() for row in self._session.table(frame).toLocalIterator())

    def write(self, frame: str, path: Path) -> None:
        writer = self._session.table(frame).write.mode("overwrite")
        writer.option("compression", "zstd").parquet(str(path))


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


def digest_rows(spark: SparkSession, plan: BucketPlan) -> DataFrame:
    """The rows of the plan's catalogs in one lazy frame: an action of Spark reads the rows."""
    spark.dataSource.register(DigestSource)
    reader = _DigestReader(
        [catalog.input for catalog in plan.catalogs],
        [_BucketsOfCatalog(*request) for request in plan.requests],
        plan.verify,
        plan.check,
    )
    # Spark's logs mask an option with this name, and the inputs have tokens.
    option = b64encode(pickle.dumps(reader)).decode()
    return spark.read.format(FORMAT).option("secretreader", option).load()


@dataclass(frozen=True, slots=True)
class _BucketsOfCatalog(InputPartition):
    """A partition; a single request reads the rows of the partition."""

    catalog: int
    buckets: BucketRange


class DigestSource(DataSource):
    """`spark.read.format("concord_digests")`; `secretreader` is the pickled reader in base64."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return f"catalog int, {_COLUMNS}, signature tinyint"

    def reader(self, schema: Any) -> DataSourceReader:
        # The driver of this job has pickled the reader.
        found = pickle.loads(b64decode(self.options["secretreader"]))
        assert isinstance(found, DataSourceReader)
        return found


@dataclass(frozen=True)
class _DigestReader(DataSourceReader):
    inputs: Sequence[OpenedInput]
    ranges: Sequence[_BucketsOfCatalog]
    verify: bool
    check: SignatureCheck | None

    def partitions(self) -> Sequence[InputPartition]:
        return self.ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _BucketsOfCatalog)
        given, catalog = self.inputs[partition.catalog], partition.catalog
        return rows_within(given, catalog, partition.buckets, verify=self.verify, check=self.check)


def snapshot_rows(spark: SparkSession, plan: BucketPlan) -> DataFrame | None:
    """All rows of catalogs that are snapshots on this machine, which Spark reads itself.

    `None` if the plan needs `digest_rows`: a catalog is of another kind, only some buckets are
    read, which Python finds faster in the files, or signatures are verified, also in Python.
    """
    paths = [_path_of(catalog.input) for catalog in plan.catalogs]
    if None in paths or [*plan.ranges] != [ALL_BUCKETS] or plan.keys is not None:
        return None
    frames = (
        spark.read.schema(f"{_COLUMNS}, intact boolean")
        .option("pathGlobFilter", "*.parquet")
        .parquet(f"file:{path}")
        .where("origin <> '/'")
        .select(
            F.lit(position).alias("catalog"),
            *("authority", "origin", "xid", "epoch", "deleted", "digest", "changedat"),
            F.expr(f"CAST(IF(intact, {UNCHECKED}, {DAMAGED}) AS TINYINT)").alias("signature"),
        )
        for position, path in enumerate(paths)
    )
    return reduce(DataFrame.unionAll, frames)


def _path_of(given: OpenedInput) -> str | None:
    """The path of a snapshot for Spark, which takes some characters of a path as wildcards."""
    path = given.path if isinstance(given, SnapshotInput) else None
    return None if path is None or {*path} & {*"*?[]{}\\"} else path


@contextmanager
def unread_snapshots(plan: BucketPlan) -> Iterator[None]:
    """Turn the error of Spark about a file of a snapshot into `CatalogUnread`."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if "FAILED_READ_FILE" in (said := unquote(str(error))):
            for given in (catalog.input for catalog in plan.catalogs):
                if isinstance(given, SnapshotInput) and f"file://{given.path}/" in said:
                    raise given.unread("Spark could not read a file of it") from error
        raise


def hashed(rows: DataFrame) -> DataFrame:
    """Digest rows with hashes of the strings, so that the steps of the rule move only numbers.

    An origin has two independent hashes; both collide together in one of 10^22 runs.
    """
    origin = (F.xxhash64(F.lit(n), "authority", "origin").alias(f"h{n}") for n in (1, 2))
    return rows.select("*", *origin, F.xxhash64("digest").alias("fp"))
