"""The plan of a repair is data: shown, executed in part, interrupted, and executed again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from catalog.cli import app
from replication.reconcile.repairplan import StoredPlan
from tests.spark.federation import Federation, Node, three_catalogs

pytestmark = pytest.mark.slow


def run(*options: str, answer: str = "") -> Result:
    return CliRunner().invoke(app, ["reconcile", *options], input=answer)


@pytest.fixture
def nodes(federation: Federation) -> tuple[Node, Node, Node]:
    """The nodes of `three_catalogs`, of which two lack entities, and one has an old one."""
    eu, us, hub = three_catalogs(federation)
    for key in [key for key in hub.rows if key[0] == eu.authority and "eu0" in key[1]]:
        del hub.rows[key]
        del us.rows[key]
    hub.hold(us.authority, "/messagegroups/us0/messages/m2", epoch=2)
    return eu, us, hub


def compare(federation: Federation, report: Path) -> Result:
    named = [f"--catalog={one.name}={one.url}" for one in federation.inputs()]
    return run(*named, "--settle=0", f"--report={report}")


def asked(node: Node) -> list[str]:
    return [origin for batch in node.repairs for _, origin in batch]


def test_a_plan_has_the_same_ids_in_each_run_and_parents_come_first(
    federation: Federation, nodes: tuple[Node, Node, Node], tmp_path: Path
) -> None:
    assert compare(federation, tmp_path / "one").exit_code == 1
    assert compare(federation, tmp_path / "two").exit_code == 1
    one, two = (
        pq.read_table(tmp_path / each / "plan.parquet").to_pylist() for each in ("one", "two")
    )
    assert one == two
    assert len({each["id"] for each in one}) == len(one) == 11
    # The hub goes first: us can find at the hub only what the hub has got back.
    assert [each["catalog"] for each in one] == ["hub"] * 6 + ["us"] * 5
    depths = [each["origin"].count("/") for each in one if each["catalog"] == "us"]
    assert depths == sorted(depths)
    assert nodes[2].repairs == []


def test_a_plan_is_shown_and_executed_after_consent_in_part_and_once(
    federation: Federation, nodes: tuple[Node, Node, Node], tmp_path: Path
) -> None:
    _, us, hub = nodes
    compare(federation, tmp_path)
    refused = run("repair", str(tmp_path), answer="n\n")
    assert (refused.exit_code, hub.repairs) == (1, [])
    assert "Have them fetched again?" in refused.stderr
    part = run("repair", str(tmp_path), "--only", "stale", "--yes")
    assert part.exit_code == 0, part.stderr
    assert asked(hub) == ["/messagegroups/us0/messages/m2"]
    assert us.repairs == []
    rest = run("repair", str(tmp_path), answer="y\n")
    assert rest.exit_code == 0, rest.stderr
    assert (len(asked(hub)), len(asked(us))) == (6, 5)
    again = run("repair", str(tmp_path), "--yes", "--json")
    assert (again.exit_code, json.loads(again.stdout)) == (0, [])
    assert (len(asked(hub)), len(asked(us))) == (6, 5)
    assert compare(federation, tmp_path).exit_code == 0
    assert "Nothing is left" in run("repair", str(tmp_path)).stderr


def test_an_interrupted_execution_goes_on_and_holds_its_rate(
    federation: Federation, nodes: tuple[Node, Node, Node], tmp_path: Path
) -> None:
    _, us, hub = nodes
    compare(federation, tmp_path)
    us.token = "secret"
    failed = run("repair", str(tmp_path), "--yes")
    assert (failed.exit_code, "answered 401" in failed.stderr) == (2, True)
    assert len(asked(hub)) == 6
    us.token = None
    slept: list[float] = []
    plan = StoredPlan(directory=tmp_path)
    given = {each.name: each for each in federation.inputs()}
    outcomes = plan.execute(given, per_second=2, progress=print, sleep=slept.append)
    assert [(each.catalog, each.requested) for each in outcomes] == [("us", 5)]
    assert [len(batch) for batch in us.repairs] == [2, 2, 1]
    assert [round(each, 1) for each in slept] == pytest.approx([1.0, 1.0, 0.5], abs=0.1)
    assert len(asked(hub)) == 6


def test_wrong_plans_are_refused(tmp_path: Path) -> None:
    missing = run("repair", str(tmp_path))
    assert (missing.exit_code, "cannot be read" in missing.stderr) == (2, True)
    (tmp_path / "plan.parquet").write_bytes(b"PAR1")
    assert run("repair", str(tmp_path)).exit_code == 2
    unknown = run("repair", str(tmp_path), "--only", "orphaned")
    assert (unknown.exit_code, "No repair settles orphaned" in unknown.stderr) == (2, True)
