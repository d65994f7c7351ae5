"""Each catalog of a comparison is told what was found there; one that cannot be told is named."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from catalog.operations.reconciliations import NewFindings, NewReconciliation
from replication.reconcile.errors import ReconcileError
from replication.reconcile.findings import Difference, Findings
from replication.reconcile.job import ReconcileJob
from replication.reconcile.repairplan import RepairOutcome
from replication.reconcile.report import CatalogSummary, ReconcileSummary
from replication.reconcile.results import ResultReporter
from replication.reconcile.sparkengine import SparkEngine
from tests.spark.federation import Federation, three_catalogs

pytestmark = pytest.mark.slow


def summary(**more: Any) -> ReconcileSummary:
    values: dict[str, Any] = {
        "startedat": datetime.now(UTC),
        "verify": True,
        "catalogs": (),
        "buckets_read": 1,
        "origins": 9,
        "unverifiable": 4,
        "vanished": 0,
        "in_flight": 0,
        "is_confirmed": True,
        "counts": {},
        "samples": {},
        "repair": None,
        "elapsed": {},
        "paths": (),
    }
    return ReconcileSummary(**values | more)


def test_each_catalog_is_told_its_own_result(federation: Federation) -> None:
    eu, us, hub = three_catalogs(federation)
    hub.takes_results = False
    lines: list[str] = []
    reporter = ResultReporter(federation.inputs(), lines.append)
    counts = {"missing": {"eu": 3}, "diverged": {"eu": 1}, "stale": {"hub": 2}}
    repair = (RepairOutcome(catalog="eu", requested=4),)
    reporter.tell(summary(counts=counts, repair=repair))
    [told], [other] = eu.told, us.told
    body = NewReconciliation.model_validate(told)
    assert body.findings == {"missing": 3, "diverged": 1}
    assert (body.outcome, body.name, body.catalogs) == ("different", "eu", ["eu", "us", "hub"])
    assert (body.repaired, body.unverifiable) == (4, 4)
    assert NewReconciliation.model_validate(other).outcome == "equal"
    assert other["repaired"] == 0
    assert told["run"] == other["run"]
    [line] = lines
    assert line.startswith("hub was not told the result: Catalog hub at ")


def test_each_catalog_is_told_the_findings_that_concern_it(federation: Federation) -> None:
    eu, us, hub = three_catalogs(federation)
    own = {"authority": eu.authority, "epoch": 2, "reference": "eu", "reference_epoch": 3}
    found = (
        Difference(finding="stale", catalog="hub", origin="/messagegroups/a", **own),
        Difference(finding="stale", catalog="us", origin="/messagegroups/b", **own),
        # What no node would take is left out, and stops nothing.
        Difference(finding="stale", catalog="us", origin="no path", **own),
    )
    counts = {"stale": {"hub": 1, "us": 2}}
    catalogs = tuple(
        CatalogSummary(
            name=each.name, url=each.url, authority=each.authority, entities=1, rows=1, as_of=None
        )
        for each in (eu, us, hub)
    )
    told = summary(counts=counts, catalogs=catalogs, ranked=found)
    ResultReporter(federation.inputs(), lambda line: None).tell(told)
    origins = {
        each.name: [one["origin"] for one in each.told_findings[0]["findings"]]
        for each in (eu, us, hub)
    }
    assert origins == {
        "eu": ["/messagegroups/a", "/messagegroups/b"],
        "us": ["/messagegroups/b"],
        "hub": ["/messagegroups/a"],
    }
    compared = NewFindings.model_validate(us.told_findings[0]).compared
    assert [each.findings for each in compared] == [{}, {"stale": 2}, {"stale": 1}]


def test_a_comparison_that_fails_is_told_and_raised_all_the_same(federation: Federation) -> None:
    eu, us, hub = three_catalogs(federation)
    us.digestversion = hub.digestversion = 99
    lines: list[str] = []
    with pytest.raises(ReconcileError) as caught:
        ReconcileJob(
            inputs=federation.inputs(),
            report=None,
            repair=False,
            master="local[2]",
            verify=True,
            settle_seconds=0,
            progress=lines.append,
        ).run()
    for node in (eu, us, hub):
        body = NewReconciliation.model_validate(node.told[-1])
        assert (body.outcome, body.error) == ("failed", caught.value.message)
    assert not [line for line in lines if "was not told" in line]


def test_both_engines_answer_the_questions_of_reports_and_repairs_alike(
    spark: SparkSession,
) -> None:
    many = [("stale", "eu")] * 5 + [("stale", "us")] * 2 + [("missing", "eu")]
    found = [
        Difference(finding=finding, catalog=catalog, authority="urn:a", origin=f"/groups/g{number}")
        for number, (finding, catalog) in enumerate(many)
    ]
    found.append(replace(found[0], finding="forged", catalog="us"))
    columns = ", ".join(f"{each.name} string" for each in fields(Difference))
    engine = SparkEngine(spark)
    frame = spark.createDataFrame([asdict(each) for each in found], columns)
    in_spark, in_memory = Findings(engine, engine.view(frame)), Findings.of(found)
    ranked = in_memory.ranked(6)
    assert in_spark.ranked(6) == ranked
    assert in_spark.samples(2) == in_memory.samples(2)
    assert in_spark.counts() == in_memory.counts()
    assert (
        in_spark.authorities()
        == in_memory.authorities()
        == {"eu": {"urn:a": 6}, "us": {"urn:a": 3}}
    )
    for sources in ((), ("us",)):
        repairs = [*in_memory.repairs("eu", {"urn:a"}, sources)]
        assert [*in_spark.repairs("eu", {"urn:a"}, sources)] == repairs
        assert len(repairs) + in_memory.withheld("eu", {"urn:a"}, sources) == 6
    assert [each.origin[-1] for each in ranked] == ["0", "0", "5", "7", "1", "6"]
