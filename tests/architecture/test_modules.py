"""Modules are small, named after what they define, and begin the same way."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {
    str(path.relative_to(ROOT)): path.read_text()
    for package in ("catalog", "replication")
    for path in sorted((ROOT / package).rglob("*.py"))
}
MOST_LINES = 500
SAY_NOTHING = {"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"}


def test_a_module_has_at_most_500_lines() -> None:
    lines = {module: len(text.splitlines()) for module, text in MODULES.items()}
    assert {module: number for module, number in lines.items() if number > MOST_LINES} == {}


def test_a_module_is_named_after_what_it_defines() -> None:
    words = {
        module: {*module.removesuffix(".py").replace("_", "/").split("/")} for module in MODULES
    }
    assert [module for module, found in words.items() if found & SAY_NOTHING] == []


def test_a_module_says_what_it_owns() -> None:
    assert [m for m, text in MODULES.items() if not ast.get_docstring(ast.parse(text))] == []


def test_a_module_with_code_has_postponed_annotations() -> None:
    postponed = "from __future__ import annotations"
    bodies = {module: ast.parse(text).body for module, text in MODULES.items()}
    assert [m for m, body in bodies.items() if body[1:] and ast.unparse(body[1]) != postponed] == []
