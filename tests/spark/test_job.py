"""The whole job over HTTP: its summary, files, repairs and requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from catalog.cli import app
from replication.reconcile import compare as compare_module
from replication.reconcile.errors import ReconcileError
from replication.reconcile.findings import FINDINGS, SIGNATURE_FINDINGS
from replication.reconcile.job import ReconcileJob
from replication.reconcile.report import ReconcileSummary
from tests.spark.federation import Federation, Node, damaged, three_catalogs

pytestmark = pytest.mark.slow

Reconcile = Callable[..., ReconcileSummary]


@pytest.fixture
def reconcile(federation: Federation) -> Reconcile:
    """The job over all nodes of the federation, in memory."""
    return job_over(federation, None)


@pytest.fixture(params=["spark", "duckdb"])
def reconcile_by_each(federation: Federation, request: pytest.FixtureRequest) -> Reconcile:
    """The job by each engine: Spark in the session that all tests share, and in memory."""
    is_spark = request.param == "spark"
    return job_over(federation, request.getfixturevalue("spark") if is_spark else None)


def job_over(federation: Federation, spark: SparkSession | None) -> Reconcile:
    def run(**more: Any) -> ReconcileSummary:
        options: dict[str, Any] = {
            "report": None,
            "repair": False,
            "master": "" if spark is None else "local[2]",
            "verify": True,
            "settle_seconds": 1.0,
            "progress": lambda line: None,
            "sleep": lambda seconds: None,
            "spark": spark,
        }
        return ReconcileJob(inputs=federation.inputs(), **options | more).run()

    return run


def spoil(eu: Node, us: Node, hub: Node) -> None:
    """Cause each finding once."""
    del eu.rows[us.authority, "/messagegroups/us0/messages/m1"]
    hub.hold(us.authority, "/messagegroups/us0/messages/m2", epoch=2)
    us.hold(eu.authority, "/messagegroups/eu0/messages/m2", epoch=8)
    hub.hold(us.authority, "/messagegroups/nobody", epoch=1)
    forged = eu.rows[hub.authority, "/messagegroups/hub1"]
    eu.rows[hub.authority, "/messagegroups/hub1"] = damaged(forged)
    hub.hold(eu.authority, "/messagegroups/eu1/messages/m0", epoch=3, content="other")
    del us.rows[eu.authority, "/messagegroups/eu2"]
    us.own("/messagegroups/eu2")


EXPECTED = {
    ("missing", "eu", "/messagegroups/us0/messages/m1"),
    ("stale", "hub", "/messagegroups/us0/messages/m2"),
    ("ahead", "us", "/messagegroups/eu0/messages/m2"),
    ("orphaned", "hub", "/messagegroups/nobody"),
    ("damaged", "eu", "/messagegroups/hub1"),
    ("diverged", "hub", "/messagegroups/eu1/messages/m0"),
    ("collided", "us", "/messagegroups/eu2"),
    # The hub relays the entity of us with eu's xid; neither the hub nor eu applies it.
    ("collided", "hub", "/messagegroups/eu2"),
    ("collided", "eu", "/messagegroups/eu2"),
}


def seen(summary: ReconcileSummary) -> set[tuple[str, str, str]]:
    return {
        (finding, one.catalog, one.origin)
        for finding, found in summary.samples.items()
        for one in found
    }


def test_catalogs_that_agree_are_equal(federation: Federation, reconcile: Reconcile) -> None:
    three_catalogs(federation)

    summary = reconcile()

    assert summary.is_equal
    assert summary.verdict() == "eu, us and hub agree."
    assert [one.rows for one in summary.catalogs] == [45, 45, 45]
    assert (summary.origins, summary.unverifiable, summary.buckets_read) == (45, 0, 65_536)
    assert {one.as_of for one in summary.catalogs} == {"42"}


def test_empty_catalogs_are_equal(federation: Federation, reconcile: Reconcile) -> None:
    federation.add("eu")
    federation.add("us")

    summary = reconcile()

    assert summary.is_equal
    assert (summary.origins, summary.unverifiable) == (0, 0)


def test_the_rows_of_each_catalog_are_read_once(
    federation: Federation, reconcile_by_each: Reconcile
) -> None:
    catalogs = three_catalogs(federation)
    reconcile_by_each()
    for each in catalogs:
        assert len([path for path in each.requests if "format=csv" in path]) == 1


def test_every_difference_is_reported_with_all_files(
    federation: Federation, reconcile: Reconcile, tmp_path: Path
) -> None:
    spoil(*three_catalogs(federation))
    federation.nodes["hub"].hold("https://<script>.example.com", "/messagegroups/x")

    summary = reconcile(report=tmp_path)

    assert seen(summary) == EXPECTED
    assert set(summary.counts) == set(FINDINGS) - SIGNATURE_FINDINGS
    assert summary.unverifiable == 1
    assert {path.name for path in tmp_path.iterdir()} == {
        "findings.parquet",
        "plan.parquet",
        "summary.json",
        "report.html",
        "_SUCCESS",
    }
    rows = pq.read_table(tmp_path / "findings.parquet").to_pylist()
    assert {(row["finding"], row["catalog"], row["origin"]) for row in rows} == EXPECTED
    document = json.loads((tmp_path / "summary.json").read_text())
    assert document["equal"] is False
    assert document["differences"] == len(EXPECTED)
    assert document["counts"]["collided"] == {"eu": 1, "us": 1, "hub": 1}
    assert [one["entities"] for one in document["uncompared"]] == [1]
    page = (tmp_path / "report.html").read_text()
    assert all(origin in page for _, _, origin in EXPECTED)
    assert "<script>" not in page
    assert "9 differences" in page
    assert "no link brings it any more" in page


def test_a_repair_settles_what_fetching_again_can_settle(
    federation: Federation, reconcile: Reconcile
) -> None:
    eu, us, hub = three_catalogs(federation)
    spoil(eu, us, hub)

    first = reconcile(repair=True)

    assert not first.is_equal
    assert first.repair is not None
    assert {(one.catalog, one.requested) for one in first.repair} == {("eu", 2), ("hub", 2)}
    assert all(one.verdicts["applied"] == one.requested for one in first.repair)
    asked = {origin for node in (eu, us, hub) for batch in node.repairs for _, origin in batch}
    settled = {"missing", "stale", "diverged", "damaged"}
    assert asked == {origin for finding, _, origin in EXPECTED if finding in settled}
    assert us.repairs == []


def test_after_a_repair_of_repairable_differences_a_second_run_is_equal(
    federation: Federation, reconcile: Reconcile
) -> None:
    eu, us, hub = three_catalogs(federation)
    lost = [key for key in hub.rows if key[0] == eu.authority and key[1].startswith("/m")]
    for key in lost:
        del hub.rows[key]
        del us.rows[key]

    first = reconcile(repair=True)

    assert first.counts == {"missing": {"us": len(lost), "hub": len(lost)}}
    for node in (us, hub):
        depths = [origin.count("/") for _, origin in node.repairs[0]]
        assert depths == sorted(depths)
    # The hub goes first: us can find at the hub only what the hub has got back.
    assert reconcile(verify=False).is_equal


def test_differences_that_vanish_are_not_reported(
    federation: Federation, reconcile: Reconcile
) -> None:
    eu, us, hub = three_catalogs(federation)
    late = us.own("/messagegroups/us1", epoch=2)
    lost = hub.rows.pop((eu.authority, "/messagegroups/eu1"))
    behind = eu.own("/messagegroups/eu2", epoch=5)
    slept = []

    def arrive(seconds: float) -> None:
        slept.append(seconds)
        eu.rows[us.authority, late.origin] = hub.rows[us.authority, late.origin] = late
        hub.hold(eu.authority, behind.origin, epoch=5)
        us.hold(eu.authority, behind.origin, epoch=5)
        eu.own(behind.origin, epoch=6)

    summary = reconcile(sleep=arrive, settle_seconds=2.5)

    assert slept == [2.5]
    assert seen(summary) == {("missing", "hub", lost.origin)}
    assert summary.vanished == 4


def test_damage_behind_a_stored_digest_is_seen_and_only_that_is_read_again(
    federation: Federation, reconcile_by_each: Reconcile
) -> None:
    eu, us, _ = three_catalogs(federation)
    key = (us.authority, "/messagegroups/us1")
    eu.rows[key] = damaged(eu.rows[key])

    assert seen(reconcile_by_each()) == {("damaged", "eu", key[1])}
    first, again = (path for path in us.requests if "format=csv" in path)
    assert "from=0&to=65536" in first
    assert "from=0&" not in again
    assert reconcile_by_each(verify=False).is_equal


def test_fast_finds_differences_of_stored_digests(
    federation: Federation, reconcile: Reconcile
) -> None:
    eu, us, _ = three_catalogs(federation)
    del eu.rows[us.authority, "/messagegroups/us1"]

    summary = reconcile(verify=False)

    assert seen(summary) == {("missing", "eu", "/messagegroups/us1")}
    assert summary.buckets_read == 1
    assert all("verify=true" not in path for path in us.requests)


def test_very_many_differences_are_reported_and_repaired_without_a_second_reading(
    federation: Federation,
    reconcile_by_each: Reconcile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compare_module, "MOST_CONFIRMED", 3)
    eu, us, hub = three_catalogs(federation)
    spoil(eu, us, hub)

    summary = reconcile_by_each(report=tmp_path, repair=True)

    assert not summary.is_confirmed
    assert seen(summary) == EXPECTED
    assert pq.read_table(tmp_path / "findings.parquet").num_rows == len(EXPECTED)
    assert {(one.catalog, one.requested) for one in summary.repair or ()} == {
        ("eu", 2),
        ("hub", 2),
    }


def test_a_catalog_that_fails_while_it_is_read_does_not_stop_the_others(
    federation: Federation, reconcile_by_each: Reconcile, tmp_path: Path
) -> None:
    eu, us, hub = three_catalogs(federation)
    us.extra = ["not,a,row,at,all,is,this\n"]
    del eu.rows[hub.authority, "/messagegroups/hub1"]

    summary = reconcile_by_each(report=tmp_path)

    [unread] = summary.unread
    assert (unread.name, unread.url) == ("us", us.url)
    assert unread.reason.startswith("Catalog us sent malformed rows")
    assert "version of Concord" in unread.advice
    assert [one.name for one in summary.catalogs] == ["eu", "hub"]
    assert seen(summary) == {("missing", "eu", "/messagegroups/hub1")}
    written = json.loads((tmp_path / "summary.json").read_text())
    assert [each["name"] for each in written["unread"]] == ["us"]
    assert "Catalog us sent malformed rows" in (tmp_path / "report.html").read_text()
    assert eu.told[-1]["outcome"] != "failed"
    assert us.told[-1]["outcome"] == "failed"
    assert us.told[-1]["error"].startswith("Catalog us sent malformed rows")


def test_without_two_catalogs_nothing_is_compared(
    federation: Federation, reconcile: Reconcile, tmp_path: Path
) -> None:
    _, us, hub = three_catalogs(federation)
    us.extra = hub.extra = ["not,a,row,at,all,is,this\n"]

    with pytest.raises(ReconcileError, match="sent malformed rows"):
        reconcile(report=tmp_path)

    assert not list(tmp_path.iterdir())


def test_the_exit_code_is_the_contract(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run starts Spark: with --fast there is nothing to read, and errors come first."""
    three_catalogs(federation)
    named = [f"--catalog={one.name}={one.url}" for one in federation.inputs()]

    def run(*options: str) -> Result:
        return CliRunner().invoke(app, ["reconcile", *named, "--fast", *options])

    equal = run()
    assert (equal.exit_code, equal.stdout.splitlines()[-1]) == (0, "eu, us and hub agree.")
    federation.nodes["us"].token = "secret"
    refused = run()
    assert refused.exit_code == 2
    assert refused.stdout.splitlines()[-1] == "eu and hub agree. us was not compared."
    assert refused.stdout.count("Catalog us at") == 1
    assert "role replicator" in refused.stdout
    [unread] = json.loads(run("--json").stdout)["unread"]
    assert unread["name"] == "us"
    federation.nodes["hub"].token = "secret"
    failed = run()
    assert failed.exit_code == 3
    assert "Catalog us at" in failed.stderr
    assert "Catalog hub at" in failed.stderr
    federation.nodes["hub"].token = None
    monkeypatch.setenv("US_TOKEN", "secret")
    admitted = run("--json", "--token-from=us=US_TOKEN")
    assert admitted.exit_code == 0
    assert json.loads(admitted.stdout)["equal"] is True
    monkeypatch.delenv("US_TOKEN")
    assert "US_TOKEN" in run("--token-from=us=US_TOKEN").stderr
    assert "'eu2'" in run("--token-from=eu2=US_TOKEN").stderr


def test_the_command_compares_again_and_again_until_it_is_interrupted(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    eu, us, _ = three_catalogs(federation)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt
        del eu.rows[us.authority, f"/messagegroups/us0/messages/m{len(waits)}"]

    monkeypatch.setattr("replication.commands.reconcile.time", SimpleNamespace(sleep=sleep))
    named = [f"--catalog={one.name}={one.url}" for one in federation.inputs()]
    result = CliRunner().invoke(app, ["reconcile", *named, "--settle=0", "--every=90m"])
    assert waits == [5400.0] * 3
    verdicts = [line for line in result.stdout.splitlines() if line.startswith("eu, us and hub")]
    assert [verdict.split()[5:7] for verdict in verdicts[1:]] == [["not", "agree:"]] * 2
    assert verdicts[0] == "eu, us and hub agree."
    assert "2 missing" in verdicts[2]
    assert result.exit_code == 1
    wrong = CliRunner().invoke(app, ["reconcile", *named, "--every=hourly"])
    assert wrong.exit_code == 2
    assert "15m" in wrong.stderr


def test_spark_submit_runs_the_same_command() -> None:
    def help_of(module: str, *arguments: str) -> str:
        command = [sys.executable, "-m", module, *arguments, "--help"]
        environment = {**os.environ, "COLUMNS": "120"}
        told = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)
        return told.stdout.partition("Compare catalogs")[2]

    assert help_of("replication.reconcile") == help_of("catalog.cli", "reconcile")
