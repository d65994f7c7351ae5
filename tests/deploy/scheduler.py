"""The real Airflow, in an environment of its own that is kept in the user's cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.files import DEPLOY
from tests.deploy.keptpython import kept_python

DAG = DEPLOY / "airflow" / "concord_reconcile.py"
PYTHON_VARIABLE = "CONCORD_TEST_AIRFLOW"
_PACKAGE = "apache-airflow-core==3.3.2"
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
    python = kept_python(_PACKAGE, otherwise=f"name its python by {PYTHON_VARIABLE}")
    kept = python.parents[2]
    if not (kept / "airflow.db").exists():
        with tempfile.TemporaryDirectory(dir=kept) as home:
            Airflow(python, Path(home)).migrate()
            Path(home, "airflow.db").rename(kept / "airflow.db")
    return kept
