"""The job on a standalone cluster of Spark: a master and two workers, of which one is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.cluster import SECONDS, Cluster, eventually, running_cluster
from tests.spark.federation import Federation, three_catalogs

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(300)]

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, workers=2, memory="1g") as running:
        yield running


def test_a_cluster_compares_and_survives_the_loss_of_a_worker(
    federation: Federation, cluster: Cluster
) -> None:
    eu, us, hub = three_catalogs(federation)
    del us.rows[eu.authority, "/messagegroups/eu0/messages/m1"]
    hub.hold(us.authority, "/messagegroups/nobody")
    for node in (eu, us, hub):
        node.answers.clear()
    named = [f"--catalog={one.name}={one.url}" for one in federation.inputs()]
    command = [sys.executable, "-m", "catalog.cli", "reconcile", *named, "--settle=0", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        [*command, f"--master={cluster.master}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as job:
        # Both workers are reading when one is lost.
        asked = [node.requests for node in (eu, us, hub)]
        eventually(lambda: sum("format=csv" in path for paths in asked for path in paths) >= 2)
        os.killpg(cluster.workers[0].pid, signal.SIGKILL)
        for node in (eu, us, hub):
            node.answers.set()
        shown, told = job.communicate(timeout=SECONDS)
    assert job.returncode == 1, told.decode()
    summary = json.loads(shown)
    found = {
        (finding, one["catalog"], one["origin"])
        for finding, all in summary["samples"].items()
        for one in all
    }
    assert found == {
        ("missing", "us", "/messagegroups/eu0/messages/m1"),
        ("orphaned", "hub", "/messagegroups/nobody"),
    }
    assert summary["unread"] == []


def test_a_driver_that_does_not_start_is_a_failure_and_no_difference(
    federation: Federation, tmp_path: Path
) -> None:
    three_catalogs(federation)
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.memory 300m\n")
    named = [f"--catalog={one.name}={one.url}" for one in federation.inputs()]
    command = [sys.executable, "-m", "catalog.cli", "reconcile", *named]
    failed = subprocess.run(
        [*command, "--master=spark://127.0.0.1:1"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT), "SPARK_CONF_DIR": str(tmp_path)},
        check=False,
        timeout=SECONDS,
    )
    assert failed.returncode == 3
    assert "Spark does not start" in failed.stderr
    assert "Insufficient driver memory" in failed.stderr
