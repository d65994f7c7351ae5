"""The digest rows of catalogs as a Spark data source.

Each partition of the data source is a range of buckets of one catalog.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.copysignatures import SignatureCheck
from replication.reconcile.digestrows import BucketRange, rows_within
from replication.reconcile.inputs.input import OpenedInput

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
