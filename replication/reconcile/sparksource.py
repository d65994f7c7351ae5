"""The digest rows of catalogs as a Spark data source.

Each partition of the data source is a range of buckets of one catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from replication.reconcile.bucketplan import BucketPlan, BucketRange
from replication.reconcile.copysignatures import SignatureCheck
from replication.reconcile.digestrows import reads_of, rows_within
from replication.reconcile.remotecatalog import RemoteCatalog

FORMAT = "concord_digests"
SCHEMA = (
    "catalog int, authority string, origin string, xid string, "
    "epoch bigint, deleted boolean, digest string, fp bigint, signature tinyint"
)


def digest_rows(spark: SparkSession, plan: BucketPlan) -> DataFrame:
    """The rows of the plan's catalogs in one lazy frame: an action of Spark reads the rows."""
    spark.dataSource.register(DigestSource)
    remotes = [catalog.remote for catalog in plan.catalogs]
    return (
        spark.read.format(FORMAT)
        .option("catalogs", _json([[remote.name, remote.url] for remote in remotes]))
        .option("tokens", _json([remote.token for remote in remotes]))
        .option("reads", _json(reads_of(plan)))
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

    Options, as JSON: `catalogs` [[name, URL], …], `tokens` [token or null, …] (Spark's logs
    mask an option with the name `tokens`), `reads` [[catalog, from, to], …], `verify`, and `keys`,
    the keys for checking signatures; null checks no signatures.
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
        catalogs, tokens = orjson.loads(options["catalogs"]), orjson.loads(options["tokens"])
        self._remotes = [
            RemoteCatalog(name=name, url=url, token=token)
            for (name, url), token in zip(catalogs, tokens, strict=True)
        ]
        self._reads = orjson.loads(options["reads"])
        self._verify = orjson.loads(options["verify"])
        keys = orjson.loads(options["keys"])
        self._check = None if keys is None else SignatureCheck.read(keys)

    def partitions(self) -> Sequence[InputPartition]:
        return [
            _BucketsOfCatalog(catalog, BucketRange(start, stop))
            for catalog, start, stop in self._reads
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _BucketsOfCatalog)
        remote = self._remotes[partition.catalog]
        return rows_within(
            remote, partition.catalog, partition.buckets, verify=self._verify, check=self._check
        )
