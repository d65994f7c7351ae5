"""The job: survey the catalogs, compare them, repair replicas, write the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from replication.reconcile import catalogs
from replication.reconcile.bucketplan import BucketPlan, plan_of
from replication.reconcile.compare import (
    CatalogComparison,
    Stages,
    compare,
    differing_attributes,
    in_silence,
)
from replication.reconcile.engine import MOST_ROWS, DuckdbEngine, Engine, is_submitted
from replication.reconcile.errors import CatalogUnread, ReconcileError
from replication.reconcile.explanations import find_causes, find_commands, find_uncompared
from replication.reconcile.findings import Findings
from replication.reconcile.inputs.input import Input, OpenedInput
from replication.reconcile.repairplan import RepairOutcome, planned
from replication.reconcile.repairplan import repair as repair_catalogs
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
from replication.reconcile.signatures import DAMAGED, UNCHECKED, UNSIGNED, VERIFIED, survey_keys
from replication.reconcile.topology import Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLES = 20
MOST_EARLIER = 40
LAG_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileJob:
    """A comparison of catalogs that names every difference.

    Args:
        inputs: two or more catalogs with distinct names.
        progress: receives a line for each stage.
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
        sleep: waits for a number of seconds.
        spark: the session to use; `None` lets the job open and close a session.
        smaller: the names of catalogs that may have far fewer entities than before.
        lag_seconds: how long a change may take to a replica. Of a replica that was read before
            the comparison, differences by later changes are in flight.
        deep: name the differing attributes of the first differences of each finding.
    """

    inputs: Sequence[Input]
    progress: Callable[[str], None]
    report: Path | None = None
    repair: bool = False
    master: str = ""
    verify: bool = True
    signatures: bool = False
    settle_seconds: float = 0.0
    sleep: Callable[[float], None] = time.sleep
    spark: SparkSession | None = None
    smaller: frozenset[str] = frozenset()
    lag_seconds: float = LAG_SECONDS
    deep: bool = False

    def run(self) -> ReconcileSummary:
        """Compare the catalogs, and report to each catalog the findings about it.

        A catalog that can't be read is left out, and the remaining catalogs are compared.

        Raises:
            ReconcileError: fewer than two catalogs can be read, a catalog refuses a repair, or
                Spark fails; no report was written.
        """
        catalogs.check_given(self.inputs)
        reporter = ResultReporter(self.inputs, self.progress)
        unread: list[CatalogUnread] = []
        try:
            with TemporaryDirectory(prefix="concord-reconcile-") as work, ExitStack() as stack:
                opened = self._opened(Path(work), unread, stack)
                # Each round leaves out at least one more catalog, so the loop ends.
                while True:
                    if len(self.inputs) - len(unread) < 2:
                        raise unread[-1]
                    try:
                        summary = self._reconcile(opened, unread)
                        break
                    except CatalogUnread as fault:
                        unread.append(fault)
                        told = "The others are compared again, without it."
                        self.progress(f"{fault.message} {told}")
        except ReconcileError as error:
            reporter.tell_failure(error)
            raise
        reporter.tell(summary)
        return summary

    def _opened(
        self, work: Path, unread: list[CatalogUnread], stack: ExitStack
    ) -> list[OpenedInput]:
        """The inputs that can be read, opened until `stack` closes; the faults go to `unread`."""
        opened = []
        for each in self.inputs:
            try:
                opened.append(stack.enter_context(each.opened(work, self.progress)))
            except CatalogUnread as fault:
                unread.append(fault)
        return opened

    def _reconcile(
        self, opened: Sequence[OpenedInput], unread: list[CatalogUnread]
    ) -> ReconcileSummary:
        startedat, stages = datetime.now(UTC), Stages(self.progress)
        left_out = {each.catalog for each in unread}
        asked = [each for each in opened if each.name not in left_out]
        with stages.stage("survey", f"asking {len(asked)} catalogs for their fingerprints"):
            surveyed = catalogs.survey(asked, unread)
            keys = survey_keys(surveyed) if self.signatures else None
            plan = plan_of(surveyed, verify=self.verify, keys=keys, lag_seconds=self.lag_seconds)
            shrunk = catalogs.find_shrunk(surveyed, self.smaller)
            read = {each.name for each in surveyed}
            others = [each for each in self.inputs if each.name not in read]
            uncompared = find_uncompared(surveyed, others)
        with self._engine(plan, stages) as engine, self._compared(engine, plan, stages) as compared:
            findings, places = compared.findings, Places(surveyed)
            samples = findings.samples(SAMPLES)
            attributes = {}
            if self.deep:
                with stages.stage("deep", "comparing attributes"):
                    shown = (one for found in samples.values() for one in found)
                    attributes = differing_attributes(shown, surveyed)
            outcomes = self._repair(plan, findings, shrunk, stages)
            summary = ReconcileSummary(
                startedat=startedat,
                verify=plan.verify,
                catalogs=_summaries(plan, compared),
                buckets_read=plan.buckets,
                origins=compared.origins,
                unverifiable=compared.unverifiable,
                signatures=_signatures(plan, compared),
                vanished=compared.vanished,
                in_flight=compared.in_flight,
                is_confirmed=compared.is_confirmed,
                counts=findings.counts(),
                samples=samples,
                attributes=attributes,
                ranked=findings.ranked(MOST_TOLD),
                repair=outcomes,
                elapsed=stages.elapsed,
                paths=paths_in(self.report) if self.report else (),
                uncompared=tuple(uncompared),
                unread=self._unread(unread),
                shrunk=shrunk,
                causes=find_causes(findings, places),
                schemaids={each.name: each.schemaids for each in surveyed if each.schemaids},
                commands=find_commands(samples, places),
            )
            if self.report:
                lost = {each.name for each in shrunk}
                # The same lines of progress come where the plan is executed.
                actions = planned(findings, plan.topology, plan.catalogs, lost, in_silence)
                write_report(self.report, summary, findings, actions)
        return summary

    @contextmanager
    def _engine(self, plan: BucketPlan, stages: Stages) -> Iterator[Engine | None]:
        """The engine of the comparison; `None` if the plan reads no buckets.

        Spark takes half a minute to start, while DuckDB compares few rows in memory in a second.
        """
        spark, is_small = self.spark, plan.rows <= MOST_ROWS
        if not plan.ranges:
            yield None
        elif spark is None and not self.master and is_small and not is_submitted():
            with closing(DuckdbEngine()) as engine:
                yield engine
        else:
            from replication.reconcile.sparkengine import SparkEngine
            from replication.reconcile.sparksession import open_session, spark_errors

            with ExitStack() as stack:
                if spark is None:
                    with stages.stage("start", "starting Spark"):
                        spark = stack.enter_context(open_session(self.master, plan.entities))
                stack.enter_context(spark_errors())
                yield SparkEngine(spark)

    @contextmanager
    def _compared(
        self, engine: Engine | None, plan: BucketPlan, stages: Stages
    ) -> Iterator[CatalogComparison]:
        if engine is None:
            stages.progress("all buckets agree")
            yield CatalogComparison(findings=Findings.of([]), rows=[0] * len(plan.catalogs))
            return
        with compare(engine, plan, lambda: self.sleep(self.settle_seconds), stages) as compared:
            yield compared

    def _repair(
        self,
        plan: BucketPlan,
        findings: Findings,
        shrunk: Sequence[catalogs.ShrunkCatalog],
        stages: Stages,
    ) -> tuple[RepairOutcome, ...] | None:
        """Repair the differences, if the job is to repair.

        A catalog that refuses a repair is not left out of a new comparison: the run fails.
        """
        if not self.repair:
            return None
        lost = {each.name for each in shrunk}
        try:
            with stages.stage("repair", "repairing"):
                return repair_catalogs(
                    findings, plan.topology, plan.catalogs, lost, stages.progress
                )
        except CatalogUnread as fault:
            raise ReconcileError(fault.message, fault.hint) from fault

    def _unread(self, unread: Sequence[CatalogUnread]) -> tuple[UnreadCatalog, ...]:
        urls = {each.name: each.url for each in self.inputs}
        return tuple(
            UnreadCatalog(
                name=each.catalog, url=urls[each.catalog], reason=each.message, advice=each.hint
            )
            for each in unread
        )


def _summaries(plan: BucketPlan, compared: CatalogComparison) -> tuple[CatalogSummary, ...]:
    return tuple(
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
    )


def _earlier(catalog: catalogs.SurveyedCatalog) -> tuple[EarlierRun, ...]:
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
