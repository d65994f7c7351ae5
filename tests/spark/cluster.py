"""A standalone cluster of Spark: a master and its workers, each a process."""

from __future__ import annotations

import contextlib
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

from replication.reconcile.sparksession import java_home

SECONDS = 240.0
_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The URL of a master, and its workers, each the leader of a group of processes."""

    master: str
    workers: list[subprocess.Popen[bytes]]


def eventually(is_so: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.1)  # between two looks


@contextlib.contextmanager
def running_cluster(directory: Path, *, workers: int, memory: str) -> Iterator[Cluster]:
    """A cluster whose workers have one core each, and their scratch files below `directory`."""
    (directory / "java").mkdir()
    home = java_home(directory / "java")
    if home != directory / "java":
        (directory / "java").rmdir()
        (directory / "java").symlink_to(home)
    log = directory / "Master.log"

    def master() -> str:
        found = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())
        return found[1] if found else ""

    with contextlib.ExitStack() as stack:
        here = ("--host", "127.0.0.1", "--webui-port", "0")
        stack.enter_context(_started("Master", directory, *here, "--port", "0"))
        eventually(lambda: bool(master()))
        options = (*here, "--cores", "1", "--memory", memory)
        started = [
            stack.enter_context(
                _started(name, directory, *options, "--work-dir", f"{directory}/{name}", master())
            )
            for name in (f"Worker{number}" for number in range(1, workers + 1))
        ]
        eventually(lambda: log.read_text().count("Registering worker") == len(started))
        yield Cluster(master(), started)


@contextlib.contextmanager
def _started(name: str, directory: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon of Spark, with the packages of the job as they are installed on each machine."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(directory / "java"),
        "SPARK_HOME": str(_CLASS.parents[1]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory / f"{name}-scratch"),
        "PYTHONPATH": str(_ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }
    kind = name.rstrip("0123456789")
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
