"""Modules are small, named after what they define, and begin the same way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path.relative_to(ROOT)
    for package in ("catalog", "replication")
    for path in (ROOT / package).rglob("*.py")
)
MOST_LINES = 500
SAY_NOTHING = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}

each_module = pytest.mark.parametrize("module", MODULES, ids=str)


@each_module
def test_a_module_has_at_most_500_lines(module: Path) -> None:
    assert len((ROOT / module).read_text().splitlines()) <= MOST_LINES


@each_module
def test_a_module_is_named_after_what_it_defines(module: Path) -> None:
    words = {word for part in module.with_suffix("").parts for word in part.split("_")}
    assert not words & SAY_NOTHING


@each_module
def test_a_module_says_what_it_owns(module: Path) -> None:
    assert ast.get_docstring(ast.parse((ROOT / module).read_text()))


@each_module
def test_a_module_with_code_has_postponed_annotations(module: Path) -> None:
    tree = ast.parse((ROOT / module).read_text())
    if len(tree.body) > 1:
        assert ast.unparse(tree.body[1]) == "from __future__ import annotations"
