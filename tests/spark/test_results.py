"""Each catalog of a comparison is told what was found there; one that cannot be told is named."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from catalog.operations.reconciliations import NewReconciliation
from replication.reconcile.errors import ReconcileError
from replication.reconcile.job import run_reconcile
from replication.reconcile.repairrequests import RepairOutcome
from replication.reconcile.report import ReconcileSummary
from replication.reconcile.results import ResultReporter
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


def test_a_comparison_that_fails_is_told_and_raised_all_the_same(federation: Federation) -> None:
    eu, us, hub = three_catalogs(federation)
    us.digestversion = hub.digestversion = 99
    lines: list[str] = []
    with pytest.raises(ReconcileError) as caught:
        run_reconcile(
            federation.inputs(),
            report=None,
            repair=False,
            master="local[2]",
            verify=True,
            settle_seconds=0,
            progress=lines.append,
        )
    for node in (eu, us, hub):
        body = NewReconciliation.model_validate(node.told[-1])
        assert (body.outcome, body.error) == ("failed", caught.value.message)
    assert not [line for line in lines if "was not told" in line]
