"""The digest rows of catalogs as a frame of Spark.

The rows of catalogs of any kind are a data source of Spark, with a partition for each range of
buckets of a catalog. Where all catalogs are snapshots on this machine, Spark reads their Parquet
files itself.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.copysignatures import DAMAGED, UNCHECKED, SignatureCheck
from replication.reconcile.digestrows import ALL_BUCKETS, BucketRange, rows_within
from replication.reconcile.inputs.input import OpenedInput
from replication.reconcile.inputs.snapshotinput import SnapshotInput

FORMAT = "concord_digests"
SCHEMA = (
    "catalog int, authority string, origin string, xid string, "
    "epoch bigint, deleted boolean, digest string, changedat bigint, signature tinyint"
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


_SNAPSHOT_SCHEMA = (
    "authority string, origin string, xid string, epoch bigint, deleted boolean, digest string, "
    "changedat bigint, intact boolean"
)


def snapshot_rows(spark: SparkSession, plan: BucketPlan) -> DataFrame | None:
    """All rows of catalogs that are snapshots on this machine, which Spark reads itself.

    `None` if the plan needs `digest_rows`: a catalog is of another kind, only some buckets are
    read, which Python finds faster in the files, or signatures are verified, also in Python.
    """
    paths = [_path_of(catalog.input) for catalog in plan.catalogs]
    if None in paths or [*plan.ranges] != [ALL_BUCKETS] or plan.keys is not None:
        return None
    frames = (
        spark.read.schema(_SNAPSHOT_SCHEMA)
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
