"""The job on a standalone cluster of Spark: a master and two workers, of which one is lost."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from replication.reconcile.session import java_home
from tests.spark.federation import Federation, three_catalogs

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(300)]

_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_ROOT = Path(__file__).parents[2]
_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The URL of a master, and its workers, each the leader of a group of processes."""

    master: str
    workers: list[subprocess.Popen[bytes]]


def eventually(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + _SECONDS
    while not is_so():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.1)  # between two looks


@contextlib.contextmanager
def started(name: str, directory: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon of Spark, with the packages of the job as they are installed on each machine."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(directory / "java"),
        "SPARK_HOME": str(_CLASS.parents[1]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(_ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }
    kind = name.rstrip("12")
    log = (directory / f"{name}.log").open("wb")
    command = [str(_CLASS), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
    process = subprocess.Popen(
        command, stdout=log, stderr=log, env=environment, start_new_session=True
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "java").mkdir()
    home = java_home(tmp_path / "java")
    if home != tmp_path / "java":
        (tmp_path / "java").rmdir()
        (tmp_path / "java").symlink_to(home)
    log = tmp_path / "Master.log"

    def master() -> str:
        found = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())
        return found[1] if found else ""

    with contextlib.ExitStack() as stack:
        options = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        stack.enter_context(started("Master", tmp_path, *options))
        eventually(lambda: bool(master()))
        options = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g")
        workers = [
            stack.enter_context(
                started(
                    name, tmp_path, *options, "--work-dir", str(tmp_path / f"{name}-work"), master()
                )
            )
            for name in ("Worker1", "Worker2")
        ]
        eventually(lambda: log.read_text().count("Registering worker") == len(workers))
        yield Cluster(master(), workers)


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
        shown, told = job.communicate(timeout=_SECONDS)
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
