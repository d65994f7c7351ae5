"""The comparison itself: read the digest rows once, judge them, look at what differs again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from replication.reconcile.columns import judge, keyed
from replication.reconcile.description import described
from replication.reconcile.errors import ReconcileError
from replication.reconcile.findings import Findings, Framed, Listed, differences_in
from replication.reconcile.readplan import ReadPlan
from replication.reconcile.rule import Difference
from replication.reconcile.source import digest_rows
from replication.reconcile.stages import Stages
from replication.reconcile.topology import Topology

MOST_CONFIRMED = 100_000
"""So many differences fit into memory twice; with more, one look has to do."""

SecondLook = Callable[[Sequence[Difference]], list[Difference]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The differences, and how much was compared to find them; `rows` go by catalog."""

    findings: Findings
    rows: Sequence[int]
    origins: int = 0
    unverifiable: int = 0
    vanished: int = 0
    is_confirmed: bool = True


@contextmanager
def compare(
    spark: SparkSession,
    plan: ReadPlan,
    second_look: SecondLook,
    stages: Stages,
) -> Iterator[Compared]:
    """Read and judge; what comes of it can be used while the context is open.

    Raises:
        ReconcileError: a catalog can't be read, sends rows that are malformed, or lists
            an origin twice.
    """
    topology = plan.topology
    requests = sum(map(len, plan.reads))
    with _persisted(keyed(digest_rows(spark, plan))) as rows:
        with stages.stage("read", f"reading {plan.buckets:,} buckets in {requests} requests"):
            counts = _count(rows, len(plan.catalogs))
        totals = Observation("totals")
        with _persisted(judge(rows, topology, totals)) as judged:
            with stages.stage("compare", f"comparing {sum(counts):,} rows"):
                count = judged.count()
                base = _base(counts, rows, totals, topology)
                is_few = count <= MOST_CONFIRMED
                frame = described(rows, judged, topology, is_few=is_few)
                first = differences_in(frame) if count and is_few else []
            if not is_few:
                with _persisted(frame) as framed:
                    yield replace(base, findings=Framed(framed), is_confirmed=False)
                return
    yield _confirmed(base, first, second_look, stages)


def _base(
    counts: Sequence[int], rows: DataFrame, totals: Observation, topology: Topology
) -> Compared:
    """What is known once all rows have been judged, still without the differences."""
    numbers = totals.get
    if numbers["doubled"]:
        raise _doubled(rows, topology)
    return Compared(
        findings=Listed([]),
        rows=counts,
        origins=numbers["origins"],
        unverifiable=numbers["unverifiable"],
    )


def _confirmed(
    base: Compared, first: Sequence[Difference], second_look: SecondLook, stages: Stages
) -> Compared:
    if not first:
        return base
    with stages.stage("confirm", f"looking at {len(first):,} differences again"):
        kept = second_look(first)
    return replace(base, findings=Listed(kept), vanished=len(first) - len(kept))


@contextmanager
def _persisted(frame: DataFrame) -> Iterator[DataFrame]:
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _count(rows: DataFrame, catalogs: int) -> list[int]:
    """How many rows each catalog sent. This is the action that reads them."""
    counts = {row["catalog"]: row["count"] for row in rows.groupBy("catalog").count().collect()}
    return [counts.get(catalog, 0) for catalog in range(catalogs)]


def _doubled(rows: DataFrame, topology: Topology) -> ReconcileError:
    keys = ["catalog", "authority", "origin"]
    example = rows.groupBy(*keys).count().where(F.col("count") > 1).select(*keys).first()
    assert example is not None
    return ReconcileError(
        f"Catalog {topology.names[example['catalog']]} lists {example['origin']} of "
        f"{example['authority']} more than once.",
        "Its store is damaged, or two of its links give one origin two names.",
    )
