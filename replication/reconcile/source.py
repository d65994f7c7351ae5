"""Spark's view of the catalogs: a data source whose partitions are ranges of buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from replication.reconcile.ranges import BucketRange
from replication.reconcile.readplan import ReadPlan
from replication.reconcile.remote import Remote
from replication.reconcile.rows import read_rows

FORMAT = "concord_digests"
SCHEMA = (
    "catalog int, authority string, origin string, xid string, "
    "epoch bigint, deleted boolean, digest string, fp bigint"
)


@dataclass(frozen=True, slots=True)
class _Read(InputPartition):
    """One request: which catalog, and which of its buckets."""

    catalog: int
    buckets: BucketRange


class DigestSource(DataSource):
    """`spark.read.format("concord_digests")`: the digest rows of several catalogs.

    Options, as JSON: `catalogs` [[name, URL], …], `tokens` [token or null, …] (an option
    of this name is kept out of Spark's logs), `reads` [[catalog, from, to], …], `verify`.
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
        tokens = orjson.loads(options["tokens"])
        named = zip(orjson.loads(options["catalogs"]), tokens, strict=True)
        self._remotes = [Remote(name=name, url=url, token=token) for (name, url), token in named]
        self._reads = orjson.loads(options["reads"])
        self._verify = orjson.loads(options["verify"])

    def partitions(self) -> Sequence[InputPartition]:
        return [_Read(catalog, BucketRange(start, stop)) for catalog, start, stop in self._reads]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Read)
        remote = self._remotes[partition.catalog]
        for batch in read_rows(remote, partition.buckets, verify=self._verify):
            catalog = pa.array([partition.catalog] * len(batch), pa.int32())
            yield pa.RecordBatch.from_arrays(
                [catalog, *(batch.column(name) for name in _NAMES)], names=["catalog", *_NAMES]
            )


_NAMES = ["authority", "origin", "xid", "epoch", "deleted", "digest", "fp"]


def digest_rows(spark: SparkSession, plan: ReadPlan) -> DataFrame:
    """The rows of all catalogs in one frame, read when an action needs them."""
    spark.dataSource.register(DigestSource)
    catalogs = plan.catalogs
    # Neighbours in this order run at the same time: no catalog gets all requests at once.
    turns = zip_longest(*([(c, *part) for part in parts] for c, parts in enumerate(plan.reads)))
    return (
        spark.read.format(FORMAT)
        .option("catalogs", _json([[catalog.name, catalog.url] for catalog in catalogs]))
        .option("tokens", _json([catalog.token for catalog in catalogs]))
        .option("reads", _json([part for turn in turns for part in turn if part is not None]))
        .option("verify", _json(plan.verify))
        .load()
    )


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
