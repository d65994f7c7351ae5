"""The job: survey the catalogs, compare them, repair replicas, write the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from catalog.operations.reconciliations import FindingName
from replication.reconcile.attributes import differing_attributes
from replication.reconcile.bucketplan import BucketPlan, plan_of
from replication.reconcile.catalogs import SurveyedCatalog, check_given, survey
from replication.reconcile.causes import commands_for, find_causes
from replication.reconcile.compare import CatalogComparison, Stages, compare
from replication.reconcile.copysignatures import DAMAGED, UNCHECKED, UNSIGNED, VERIFIED
from replication.reconcile.duckdbengine import MOST_ROWS, DuckdbEngine
from replication.reconcile.engine import Engine, is_submitted
from replication.reconcile.errors import CatalogUnread, ReconcileError
from replication.reconcile.findings import FindingsList
from replication.reconcile.inputs.input import Input, OpenedInput
from replication.reconcile.keysurvey import survey_keys
from replication.reconcile.repairplan import planned
from replication.reconcile.repairrequests import RepairOutcome
from replication.reconcile.repairrequests import repair as repair_catalogs
from replication.reconcile.report import (
    AuthoritySignatures,
    CatalogSummary,
    EarlierRun,
    ReconcileSummary,
    UnreadCatalog,
    paths_in,
    write_report,
)
from replication.reconcile.results import MOST_TOLD, ResultReporter
from replication.reconcile.shrinkage import find_shrunk
from replication.reconcile.uncompared import find_uncompared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = 20
MOST_EARLIER = 40
LAG_SECONDS = 60.0


def run_reconcile(
    inputs: Sequence[Input],
    *,
    report: Path | None,
    repair: bool,
    master: str,
    verify: bool,
    signatures: bool = False,
    settle_seconds: float,
    progress: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    spark: SparkSession | None = None,
    smaller: frozenset[str] = frozenset(),
    lag_seconds: float = LAG_SECONDS,
    deep: bool = False,
) -> ReconcileSummary:
    """Compare catalogs, name every difference, and report to each catalog the findings about it.

    Args:
        inputs: two or more catalogs with distinct names.
        report: directory for `findings.parquet`, `summary.json`, `report.html` and, last,
            `_SUCCESS`; `None` writes nothing.
        repair: have catalogs fetch again entities that are missing, stale or diverged.
        master: the Spark master. If empty, DuckDB compares up to `MOST_ROWS` rows in the process,
            unless `spark` is given or spark-submit started the program; otherwise Spark uses the
            master of spark-submit or, without spark-submit, `local[*]`.
        verify: have the catalogs compute every digest anew, and read every bucket. Otherwise
            compare stored digests, in the buckets with different fingerprints.
        signatures: verify the signatures of copies, too; reads every bucket.
        settle_seconds: the wait before differences are read a second time.
        progress: receives a line for each stage.
        sleep: waits for a number of seconds.
        spark: the session to use; `None` lets the job open and close a session.
        smaller: the names of catalogs that may have far fewer entities than before.
        lag_seconds: how long a change may take to a replica. Of a replica that was read before
            the comparison, differences by later changes are in flight.
        deep: name the differing attributes of the first differences of each finding.

    A catalog that can't be read is left out, and the remaining catalogs are compared.

    Raises:
        ReconcileError: fewer than two catalogs can be read, a catalog refuses a repair, or Spark
            fails; no report was written.
    """
    check_given(inputs)
    reporter = ResultReporter(inputs, progress)
    unread: list[CatalogUnread] = []
    with ExitStack() as stack:
        opened = _opened(inputs, unread, stack, progress)
        if len(opened) < 2:
            reporter.tell_failure(unread[0])
            raise unread[0]
        # Each round leaves out at least one more catalog, so the loop ends.
        while True:
            try:
                summary = _reconcile(
                    inputs,
                    opened,
                    unread,
                    report=report,
                    repair=repair,
                    master=master,
                    verify=verify,
                    signatures=signatures,
                    settle=lambda: sleep(settle_seconds),
                    progress=progress,
                    spark=spark,
                    smaller=smaller,
                    lag_seconds=lag_seconds,
                    deep=deep,
                )
                break
            except CatalogUnread as fault:
                unread.append(fault)
                if len(inputs) - len(unread) < 2:
                    reporter.tell_failure(fault)
                    raise
                progress(f"{fault.message} The others are compared again, without it.")
            except ReconcileError as error:
                reporter.tell_failure(error)
                raise
    reporter.tell(summary)
    return summary


def _opened(
    inputs: Sequence[Input],
    unread: list[CatalogUnread],
    stack: ExitStack,
    progress: Callable[[str], None],
) -> list[OpenedInput]:
    """The inputs that can be read, opened until `stack` closes; the faults go to `unread`."""
    work = Path(stack.enter_context(TemporaryDirectory(prefix="concord-reconcile-")))
    opened = []
    for each in inputs:
        try:
            opened.append(stack.enter_context(each.opened(work, progress)))
        except CatalogUnread as fault:
            unread.append(fault)
    return opened


def _reconcile(
    inputs: Sequence[Input],
    opened: Sequence[OpenedInput],
    unread: list[CatalogUnread],
    *,
    report: Path | None,
    repair: bool,
    master: str,
    verify: bool,
    signatures: bool,
    settle: Callable[[], None],
    progress: Callable[[str], None],
    spark: SparkSession | None,
    smaller: frozenset[str],
    lag_seconds: float,
    deep: bool,
) -> ReconcileSummary:
    startedat = datetime.now(UTC)
    stages = Stages(progress)
    left_out = {each.catalog for each in unread}
    asked = [each for each in opened if each.name not in left_out]
    with stages.stage("survey", f"asking {len(asked)} catalogs for their fingerprints"):
        surveyed = survey(asked, unread)
        keys = survey_keys(surveyed) if signatures else None
        plan = plan_of(surveyed, verify=verify, keys=keys, lag_seconds=lag_seconds)
        shrunk = find_shrunk(surveyed, smaller)
        read = {each.name for each in surveyed}
        uncompared = find_uncompared(surveyed, [each for each in inputs if each.name not in read])
    with (
        _engine(spark, master, plan, stages) as engine,
        _compared(engine, plan, settle, stages) as compared,
    ):
        samples, attributes = compared.findings.samples(SAMPLES), {}
        if deep:
            with stages.stage("deep", "comparing attributes"):
                shown = (one for found in samples.values() for one in found)
                attributes = differing_attributes(shown, surveyed)
        outcomes, lost = None, {each.name for each in shrunk}
        if repair:
            with stages.stage("repair", "repairing"):
                outcomes = _repair(plan, compared, lost, stages)
        summary = _summary(startedat, plan, compared, outcomes, report, stages)
        summary = replace(
            summary,
            uncompared=tuple(uncompared),
            unread=_told(inputs, unread),
            shrunk=shrunk,
            causes=find_causes(compared.findings, surveyed),
            schemaids={each.name: each.schemaids for each in surveyed if each.schemaids},
            attributes=attributes,
            commands=_commands(summary, surveyed),
            ranked=compared.findings.ranked(MOST_TOLD),
        )
        if report:
            actions = planned(compared.findings, plan.topology, plan.catalogs, lost, _in_silence)
            write_report(report, summary, compared.findings, actions)
    return summary


def _in_silence(line: str) -> None:
    """No progress: the same lines come where the plan is executed."""


def _commands(
    summary: ReconcileSummary, catalogs: Sequence[SurveyedCatalog]
) -> dict[FindingName, tuple[str, ...]]:
    """For each finding that no repair settles, the commands that may settle the samples."""
    return {
        finding: commands
        for finding, found in summary.samples.items()
        if (
            commands := tuple(
                dict.fromkeys(
                    command
                    for one in found
                    for command in commands_for(finding, one.catalog, one.authority, catalogs)
                )
            )
        )
    }


def _told(inputs: Sequence[Input], unread: Sequence[CatalogUnread]) -> tuple[UnreadCatalog, ...]:
    urls = {each.name: each.url for each in inputs}
    return tuple(
        UnreadCatalog(
            name=each.catalog, url=urls[each.catalog], reason=each.message, advice=each.hint
        )
        for each in unread
    )


def _repair(
    plan: BucketPlan, compared: CatalogComparison, shrunk: set[str], stages: Stages
) -> tuple[RepairOutcome, ...]:
    """Repair the differences.

    A catalog that refuses a repair is not left out of a new comparison: the run fails.
    """
    try:
        return repair_catalogs(
            compared.findings, plan.topology, plan.catalogs, shrunk, stages.progress
        )
    except CatalogUnread as fault:
        raise ReconcileError(fault.message, fault.hint) from fault


@contextmanager
def _engine(
    given: SparkSession | None, master: str, plan: BucketPlan, stages: Stages
) -> Iterator[Engine | None]:
    """The engine of the comparison; `None` if the plan reads no buckets.

    Spark takes half a minute to start, while DuckDB compares few rows in memory in a second.
    """
    if not plan.ranges:
        yield None
    elif given is None and not master and plan.rows <= MOST_ROWS and not is_submitted():
        with closing(DuckdbEngine()) as engine:
            yield engine
    else:
        from replication.reconcile.session import open_session, spark_errors
        from replication.reconcile.sparkengine import SparkEngine

        with ExitStack() as stack:
            if given is None:
                with stages.stage("start", "starting Spark"):
                    given = stack.enter_context(open_session(master, plan.entities))
            stack.enter_context(spark_errors())
            yield SparkEngine(given)


@contextmanager
def _compared(
    engine: Engine | None, plan: BucketPlan, settle: Callable[[], None], stages: Stages
) -> Iterator[CatalogComparison]:
    if engine is None:
        stages.progress("all buckets agree")
        yield CatalogComparison(findings=FindingsList([]), rows=[0] * len(plan.catalogs))
        return
    with compare(engine, plan, settle, stages) as compared:
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
                url=catalog.input.url,
                authority=catalog.authority,
                entities=catalog.entities,
                rows=rows,
                as_of=catalog.as_of,
                moment=catalog.moment,
                earlier=_earlier(catalog),
            )
            for catalog, rows in zip(plan.catalogs, compared.rows, strict=True)
        ),
        buckets_read=plan.buckets,
        origins=compared.origins,
        unverifiable=compared.unverifiable,
        signatures=_signatures(plan, compared),
        vanished=compared.vanished,
        in_flight=compared.in_flight,
        is_confirmed=compared.is_confirmed,
        counts=compared.findings.counts(),
        samples=compared.findings.samples(SAMPLES),
        repair=outcomes,
        elapsed=stages.elapsed,
        paths=paths_in(report) if report else (),
    )


def _earlier(catalog: SurveyedCatalog) -> tuple[EarlierRun, ...]:
    told = sorted(catalog.told, key=lambda each: each.endedat)
    return tuple(
        EarlierRun(
            endedat=each.endedat,
            differences=sum(each.findings.values()),
            entities=each.entities.get(catalog.authority, 0),
        )
        for each in told
        if each.outcome != "failed"
    )[-MOST_EARLIER:]


def _signatures(
    plan: BucketPlan, compared: CatalogComparison
) -> tuple[AuthoritySignatures, ...] | None:
    if plan.keys is None:
        return None
    origins = {each.authority: each.origin for each in plan.keys}
    return tuple(
        AuthoritySignatures(
            authority=authority,
            keys=origins.get(authority),
            verified=codes.get(VERIFIED, 0),
            unsigned=codes.get(UNSIGNED, 0),
            forged=sum(n for code, n in codes.items() if UNSIGNED < code < DAMAGED),
            unchecked=codes.get(UNCHECKED, 0),
        )
        for authority, codes in sorted(compared.signatures.items())
    )
