"""The job: survey the catalogs, compare them, repair replicas, write the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from replication.reconcile.bucketplan import BucketPlan, plan_of
from replication.reconcile.catalogs import survey
from replication.reconcile.compare import CatalogComparison, Stages, compare
from replication.reconcile.findings import FindingsList
from replication.reconcile.remotecatalog import RemoteCatalog
from replication.reconcile.repairrequests import RepairOutcome
from replication.reconcile.repairrequests import repair as repair_catalogs
from replication.reconcile.report import CatalogSummary, ReconcileSummary, paths_in, write_report
from replication.reconcile.session import open_session, spark_errors

SAMPLES = 20


def run_reconcile(
    catalogs: Sequence[RemoteCatalog],
    *,
    report: Path | None,
    repair: bool,
    master: str,
    verify: bool,
    settle_seconds: float,
    progress: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    spark: SparkSession | None = None,
) -> ReconcileSummary:
    """Compare catalogs, and name every difference.

    Args:
        catalogs: two or more, each under its own name.
        report: directory for `findings.parquet`, `summary.json`, `report.html` and, last,
            `_SUCCESS`; `None` writes nothing.
        repair: have catalogs fetch again entities that are missing, stale or diverged.
        master: the Spark master; empty for that of spark-submit, or `local[*]` without it.
        verify: have the catalogs compute every digest anew, and read all buckets. Otherwise
            compare stored digests, in the buckets whose fingerprints differ.
        settle_seconds: the wait before differences are read a second time.
        progress: receives a line for each stage.
        sleep: waits that many seconds.
        spark: a session to use; without one the job opens and closes its own.

    Raises:
        ReconcileError: a catalog can't be read or understood, or refuses a repair; no
            report was written.
    """
    startedat = datetime.now(UTC)
    stages = Stages(progress)
    with stages.stage("survey", f"asking {len(catalogs)} catalogs for their fingerprints"):
        plan = plan_of(survey(catalogs), verify=verify)
    with (
        _session(spark, master, plan, stages) as session,
        spark_errors(),
        _compared(session, plan, lambda: sleep(settle_seconds), stages) as compared,
    ):
        outcomes = None
        if repair:
            with stages.stage("repair", "repairing"):
                remotes = [catalog.remote for catalog in plan.catalogs]
                outcomes = repair_catalogs(
                    compared.findings, plan.topology, remotes, stages.progress
                )
        summary = _summary(startedat, plan, compared, outcomes, report, stages)
        if report:
            write_report(report, summary, compared.findings)
    return summary


@contextmanager
def _session(
    given: SparkSession | None, master: str, plan: BucketPlan, stages: Stages
) -> Iterator[SparkSession | None]:
    """The session to use; none if nothing is to be read, for it takes seconds to start."""
    if given is not None or not plan.ranges:
        yield given
        return
    with ExitStack() as stack:
        with stages.stage("start", "starting Spark"):
            session = stack.enter_context(open_session(master, plan.entities))
        yield session


@contextmanager
def _compared(
    spark: SparkSession | None, plan: BucketPlan, settle: Callable[[], None], stages: Stages
) -> Iterator[CatalogComparison]:
    if spark is None or not plan.ranges:
        stages.progress("all buckets agree")
        yield CatalogComparison(findings=FindingsList([]), rows=[0] * len(plan.catalogs))
        return
    with compare(spark, plan, settle, stages) as compared:
        yield compared


def _summary(
    startedat: datetime,
    plan: BucketPlan,
    compared: CatalogComparison,
    outcomes: tuple[RepairOutcome, ...] | None,
    report: Path | None,
    stages: Stages,
) -> ReconcileSummary:
    return ReconcileSummary(
        startedat=startedat,
        verify=plan.verify,
        catalogs=tuple(
            CatalogSummary(
                name=catalog.name,
                url=catalog.remote.url,
                authority=catalog.authority,
                entities=catalog.entities,
                rows=rows,
                as_of=catalog.as_of,
            )
            for catalog, rows in zip(plan.catalogs, compared.rows, strict=True)
        ),
        buckets_read=plan.buckets,
        origins=compared.origins,
        unverifiable=compared.unverifiable,
        vanished=compared.vanished,
        is_confirmed=compared.is_confirmed,
        counts=compared.findings.counts(),
        samples=compared.findings.samples(SAMPLES),
        repair=outcomes,
        elapsed=stages.elapsed,
        paths=paths_in(report) if report else (),
    )
