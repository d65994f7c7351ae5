"""The real Airflow, in an environment of its own that is kept in the user's cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.files import DEPLOY

DAG = DEPLOY / "airflow" / "concord_reconcile.py"
PYTHON_VARIABLE = "CONCORD_TEST_AIRFLOW"
_VERSION = "3.3.2"
# Airflow pins nothing below it; this pins all of it, as of a day.
_AS_OF = "2026-11-01"
_UV = "uv==0.13.9"
_RUNNER = Path(__file__).with_name("airflowrun.py")
# On a machine that runs much else.
_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Airflow:
    """An Airflow with a database of its own."""

    python: Path
    home: Path

    def run(
        self,
        times: int,
        variables: Mapping[str, str],
        connections: Mapping[str, Mapping[str, Any]],
    ) -> tuple[list[dict[str, Any]], str]:
        """Run the DAG some times; what became of each run, and all that was logged."""
        given = {f"AIRFLOW_VAR_{name.upper()}": text for name, text in variables.items()}
        for name, values in connections.items():
            given[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps({"conn_type": "http", **values})
        result = self.home / "result.json"
        done = self._python(["-P", str(_RUNNER), str(DAG), str(result), str(times)], given)
        assert result.exists(), done.stdout
        found: list[dict[str, Any]] = json.loads(result.read_bytes())
        return found, done.stdout

    def migrate(self) -> None:
        done = self._python(["-m", "airflow", "db", "migrate"], {})
        assert done.returncode == 0, done.stdout

    def _python(
        self, arguments: list[str], given: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, *arguments],
            env={
                "HOME": str(self.home),
                "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
                "AIRFLOW_HOME": str(self.home),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
                "AIRFLOW__CORE__DAGS_FOLDER": str(DAG.parent),
                **given,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
        )


def airflow_in(home: Path) -> Airflow:
    """An Airflow whose files are in a directory; the test is skipped where there is none."""
    if named := os.environ.get(PYTHON_VARIABLE):
        found = Airflow(Path(named), home)
        found.migrate()
        return found
    kept = _kept()
    # A migrated database, which takes long to make.
    shutil.copy(kept / "airflow.db", home)
    return Airflow(kept / "venv" / "bin" / "python", home)


def _kept() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concord"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    kept = cache / f"airflow-{_VERSION}-{version}"
    if not (kept / "airflow.db").exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as uv:
            _install(Path(uv), kept)
    return kept


def _install(directory: Path, kept: Path) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    uv = str(directory / "bin" / "uv")
    python = kept / "venv" / "bin" / "python"
    package = f"apache-airflow-core=={_VERSION}"
    for command in (
        (*pip, "--no-deps", "--target", str(directory), _UV),
        (uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(kept / "venv")),
        (
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            str(python),
            "--exclude-newer",
            _AS_OF,
            package,
        ),
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode:
            pytest.skip(
                f"Airflow cannot be fetched from the package index: {done.stderr[-300:]} Install "
                f"{package}, and name its python by {PYTHON_VARIABLE}"
            )
    with tempfile.TemporaryDirectory(dir=kept) as home:
        Airflow(python, Path(home)).migrate()
        Path(home, "airflow.db").rename(kept / "airflow.db")
