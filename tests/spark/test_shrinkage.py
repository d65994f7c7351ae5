"""A catalog that has far fewer entities than the last time is a finding, and repairs no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replication.reconcile.job import ReconcileJob
from replication.reconcile.report import ReconcileSummary
from tests.spark.federation import Federation, Node, three_catalogs

pytestmark = pytest.mark.slow


def reconcile(federation: Federation, lines: list[str], **more: Any) -> ReconcileSummary:
    options: dict[str, Any] = {
        "report": None,
        "repair": False,
        "master": "",
        "verify": True,
        "settle_seconds": 0,
        "progress": lines.append,
        "sleep": lambda seconds: None,
    }
    return ReconcileJob(inputs=federation.inputs(), **options | more).run()


def lose(node: Node, share: float) -> None:
    """Lose the first share of all rows, as a node does whose database was replaced."""
    rows = [key for key, row in node.rows.items() if row.origin != "/"]
    for key in rows[: round(share * len(rows))]:
        del node.rows[key]


def test_an_empty_catalog_is_found_and_repairs_nothing(
    federation: Federation, tmp_path: Path
) -> None:
    eu, us, hub = three_catalogs(federation)
    lines: list[str] = []
    assert reconcile(federation, lines).is_equal
    lose(hub, 1)
    hub.told.clear()
    del eu.rows[us.authority, "/messagegroups/us0/messages/m1"]

    found = reconcile(federation, lines, repair=True, report=tmp_path)

    [shrunk] = found.shrunk
    assert (shrunk.name, shrunk.before, shrunk.now) == ("hub", 45, 0)
    assert not found.is_equal
    assert "hub has 0 entities. It had 45 the last time." in found.verdict()
    assert "eu is not repaired, as it fetches from hub" in lines
    assert "Catalogs with far fewer entities" in (tmp_path / "report.html").read_text()
    assert eu.repairs == []
    assert hub.repairs, "it may be repaired itself"

    lose(hub, 1)
    # It is compared with what there was before until somebody accepts it.
    assert [each.before for each in reconcile(federation, lines).shrunk] == [45]
    assert not reconcile(federation, lines, smaller=frozenset({"hub"})).shrunk
    assert not reconcile(federation, lines).shrunk


@pytest.mark.parametrize(("share", "is_found"), [(0.4, False), (0.6, True)])
def test_a_catalog_that_lost_most_of_its_entities_is_found(
    federation: Federation, share: float, is_found: bool
) -> None:
    eu, _, _ = three_catalogs(federation)
    for number in range(200):
        eu.own(f"/messagegroups/more{number}")
    reconcile(federation, [])
    lose(eu, share)

    assert [each.name for each in reconcile(federation, []).shrunk] == ["eu"] * is_found


def test_a_small_catalog_may_lose_most_of_its_entities(federation: Federation) -> None:
    eu, _, _ = three_catalogs(federation)
    reconcile(federation, [])
    lose(eu, 0.9)

    assert not reconcile(federation, []).shrunk
