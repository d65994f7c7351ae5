"""Imports run one way."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL_MAY_IMPORT = {"catalog", "orjson", "rfc8785", "semver", *sys.stdlib_module_names}


def test_the_import_contracts_hold() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    "module", sorted((ROOT / "catalog" / "model").rglob("*.py")), ids=lambda path: path.stem
)
def test_the_model_imports_the_standard_library_and_pure_libraries_only(module: Path) -> None:
    assert set(_imported(module)) <= MODEL_MAY_IMPORT


def _imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
