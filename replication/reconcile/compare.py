"""The comparison: read the digest rows, find the differences, and read those a second time.

Catalogs are read one after the other while they change, so a first difference may only mean
that an entity was replicated between two reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from catalog.model.digest import bucket
from catalog.model.entity import Origin
from replication.reconcile.bucketplan import BucketPlan
from replication.reconcile.digestrows import digest_rows
from replication.reconcile.errors import CatalogUnread
from replication.reconcile.findings import (
    Difference,
    Findings,
    FindingsFrame,
    FindingsList,
    differences_of,
)
from replication.reconcile.keysurvey import survey_keys
from replication.reconcile.rule import KEY, described, find_differences, hashed, origin_key
from replication.reconcile.topology import Topology

MOST_CONFIRMED = 100_000
"""The most differences that are kept in memory and read a second time."""


@dataclass(frozen=True, slots=True)
class Stages:
    """Announces each stage of a run to `progress`, and keeps the seconds that it took."""

    progress: Callable[[str], None]
    elapsed: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, line: str) -> Iterator[None]:
        self.progress(line)
        started = time.monotonic()
        yield
        self.elapsed[name] = round(time.monotonic() - started, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogComparison:
    """The differences, and the numbers of what was compared: `rows` by catalog, and origins.

    `signatures` are the numbers of copies by authority and code, if they were checked.
    `unverifiable` origins belong to authorities that were not compared. `vanished` differences
    were gone at the second reading, which took place if `is_confirmed`.
    """

    findings: Findings
    rows: Sequence[int]
    origins: int = 0
    unverifiable: int = 0
    vanished: int = 0
    is_confirmed: bool = True
    signatures: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@contextmanager
def compare(
    spark: SparkSession, plan: BucketPlan, settle: Callable[[], None], stages: Stages
) -> Iterator[CatalogComparison]:
    """Compare the catalogs; the findings can be used while the context is open.

    Args:
        settle: waits before differences are read a second time.

    Raises:
        ReconcileError: a catalog can't be read, sends malformed rows, or lists an origin twice.
    """
    topology = plan.topology
    requests = sum(map(len, plan.reads))
    with _persisted(hashed(digest_rows(spark, plan))) as rows:
        with stages.stage("read", f"reading {plan.buckets:,} buckets in {requests} requests"):
            counts = _count_by_catalog(rows, len(plan.catalogs))
            signatures = {} if plan.keys is None else _count_signatures(rows)
        totals = Observation("totals")
        with _persisted(find_differences(rows, topology, totals)) as found:
            with stages.stage("compare", f"comparing {sum(counts):,} rows"):
                count = found.count()
                _check_doubled(totals.get, rows, topology)
                is_few = count <= MOST_CONFIRMED
                frame = described(rows, found, topology, is_few=is_few)
                first = differences_of(frame) if count and is_few else []
            result = CatalogComparison(
                findings=FindingsList(first),
                rows=counts,
                origins=totals.get["origins"],
                unverifiable=totals.get["unverifiable"],
                signatures=signatures,
            )
            if not is_few:
                with _persisted(frame) as kept:
                    yield replace(result, findings=FindingsFrame(kept), is_confirmed=False)
                return
    if first:
        with stages.stage("confirm", f"reading {len(first):,} differences again"):
            settle()
            if plan.keys is not None:
                # An authority may have begun to sign with another key meanwhile.
                plan = replace(plan, keys=survey_keys(plan.catalogs))
            again = _confirmed(spark, first, plan)
        result = replace(result, findings=FindingsList(again), vanished=len(first) - len(again))
    yield result


def _confirmed(
    spark: SparkSession, first: Sequence[Difference], plan: BucketPlan
) -> list[Difference]:
    """The differences of `first` that are still there, as they are now."""
    origins = {Origin(one.authority, one.origin) for one in first}
    rivals = {
        Origin(one.rival_authority, one.rival_origin)
        for one in first
        if one.rival_authority is not None and one.rival_origin is not None
    }
    buckets = {bucket(one.authority, one.xid) for one in origins | rivals}
    table = pa.table(
        {"authority": [one.authority for one in origins], "origin": [one.xid for one in origins]}
    )
    asked = spark.createDataFrame(table).select(*origin_key())
    with _persisted(hashed(digest_rows(spark, plan.narrowed(buckets)))) as rows:
        found = find_differences(rows, plan.topology, Observation())
        found = found.join(F.broadcast(asked), KEY, "left_semi")
        with _persisted(found) as differing:
            again = differences_of(described(rows, differing, plan.topology, is_few=True))
    before = {one.key: one for one in first}
    kept = [one for one in again if one.key in before and not _has_moved(before[one.key], one)]
    position = plan.topology.names.index
    return sorted(kept, key=lambda one: (*one.key[:2], position(one.catalog), one.key[3]))


def _has_moved(before: Difference, now: Difference) -> bool:
    """Whether the difference of `before` is over, and another one has come up since.

    A replica that has reached the epoch it lacked is only behind again, and an authority
    that has reached the epoch that its replica had lost nothing.
    """
    if now.finding == "stale" and before.reference_epoch is not None:
        return now.epoch is not None and now.epoch >= before.reference_epoch
    if now.finding == "ahead" and before.epoch is not None:
        return now.reference_epoch is not None and now.reference_epoch >= before.epoch
    return False


def _check_doubled(totals: Mapping[str, int], rows: DataFrame, topology: Topology) -> None:
    if not totals["doubled"]:
        return
    keys = ["catalog", "authority", "origin"]
    example = rows.groupBy(*keys).count().where(F.col("count") > 1).select(*keys).first()
    assert example is not None
    name = topology.names[example["catalog"]]
    raise CatalogUnread(
        f"Catalog {name} lists {example['origin']} of {example['authority']} more than once.",
        "Its store is damaged, or two of its links give one origin two names.",
        name,
    )


@contextmanager
def _persisted(frame: DataFrame) -> Iterator[DataFrame]:
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _count_signatures(rows: DataFrame) -> dict[str, dict[int, int]]:
    counts: dict[str, dict[int, int]] = {}
    for row in rows.groupBy("authority", "signature").count().collect():
        counts.setdefault(row["authority"], {})[row["signature"]] = row["count"]
    return counts


def _count_by_catalog(rows: DataFrame, catalogs: int) -> list[int]:
    """The number of rows that each catalog sent. This action reads them."""
    counts = {row["catalog"]: row["count"] for row in rows.groupBy("catalog").count().collect()}
    return [counts.get(catalog, 0) for catalog in range(catalogs)]
