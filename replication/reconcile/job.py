"""The job: survey the catalogs, compare them, have replicas repaired, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from replication.reconcile.catalogs import CatalogInput, survey
from replication.reconcile.compare import Compared, SecondLook, compare
from replication.reconcile.confirm import confirm
from replication.reconcile.findings import Listed
from replication.reconcile.readplan import ReadPlan, plan_of
from replication.reconcile.repair import RepairOutcome
from replication.reconcile.repair import repair as repair_catalogs
from replication.reconcile.report import paths_in, write_report
from replication.reconcile.rule import Difference
from replication.reconcile.session import open_session, spark_errors
from replication.reconcile.stages import Stages
from replication.reconcile.summary import CatalogSummary, Summary

SAMPLES = 20


def run_reconcile(
    catalogs: Sequence[CatalogInput],
    *,
    report: Path | None,
    repair: bool,
    master: str,
    verify: bool,
    settle_seconds: float,
    progress: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    spark: SparkSession | None = None,
) -> Summary:
    """Compare catalogs and say where they differ.

    Args:
        catalogs: two or more, each under its own name.
        report: directory for `findings.parquet`, `summary.json`, `report.html` and, last,
            `_SUCCESS`; `None` writes nothing.
        repair: have replicas fetch again what is missing, stale or diverged.
        master: where Spark runs; empty leaves it to spark-submit.
        verify: have the catalogs compute every digest anew, and read all buckets. Without
            it stored digests are compared, and buckets that agree everywhere are not read.
        settle_seconds: how long a difference gets to vanish before it is reported.
        progress: is told each step, a line at a time.
        sleep: waits for the settling.
        spark: a session to use; without one the job opens and closes its own.

    Raises:
        ReconcileError: a catalog can't be read or understood, or refuses a repair; no
            report was written.
    """
    startedat = datetime.now(UTC)
    stages = Stages(progress)
    with stages.stage("survey", f"asking {len(catalogs)} catalogs what they hold"):
        plan = plan_of(survey(catalogs), verify=verify)

    def second_look(first: Sequence[Difference]) -> list[Difference]:
        sleep(settle_seconds)
        return confirm(first, plan)

    with (
        _session(spark, master, plan, stages) as session,
        spark_errors(),
        _compared(session, plan, second_look, stages) as found,
    ):
        outcome = _repair(found, plan, stages) if repair else None
        summary = _summary(startedat, plan, found, outcome, report, stages)
        if report:
            write_report(report, summary, found.findings)
    return summary


@contextmanager
def _session(
    given: SparkSession | None, master: str, plan: ReadPlan, stages: Stages
) -> Iterator[SparkSession | None]:
    """The session to use; none where nothing is to be read, for it takes seconds to start."""
    if given is not None or not plan.ranges:
        yield given
        return
    with ExitStack() as stack:
        with stages.stage("start", "starting Spark"):
            session = stack.enter_context(open_session(master, plan.entities))
        yield session


@contextmanager
def _compared(
    spark: SparkSession | None, plan: ReadPlan, second_look: SecondLook, stages: Stages
) -> Iterator[Compared]:
    if spark is None or not plan.ranges:
        stages.progress("all buckets agree")
        yield Compared(findings=Listed([]), rows=[0] * len(plan.catalogs))
        return
    with compare(spark, plan, second_look, stages) as found:
        yield found


def _repair(found: Compared, plan: ReadPlan, stages: Stages) -> tuple[RepairOutcome, ...]:
    with stages.stage("repair", "repairing"):
        remotes = [catalog.remote for catalog in plan.catalogs]
        return repair_catalogs(found.findings, plan.topology, remotes, stages.progress)


def _summary(
    startedat: datetime,
    plan: ReadPlan,
    found: Compared,
    outcome: tuple[RepairOutcome, ...] | None,
    report: Path | None,
    stages: Stages,
) -> Summary:
    return Summary(
        startedat=startedat,
        verify=plan.verify,
        catalogs=tuple(
            CatalogSummary(
                name=catalog.name,
                url=catalog.url,
                authority=catalog.authority,
                entities=catalog.entities,
                rows=rows,
                as_of=catalog.as_of,
            )
            for catalog, rows in zip(plan.catalogs, found.rows, strict=True)
        ),
        buckets_read=plan.buckets,
        origins=found.origins,
        unverifiable=found.unverifiable,
        vanished=found.vanished,
        is_confirmed=found.is_confirmed,
        counts=found.findings.counts(),
        samples=found.findings.samples(SAMPLES),
        repair=outcome,
        elapsed=stages.elapsed,
        paths=paths_in(report) if report else (),
    )
