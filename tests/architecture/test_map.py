"""A reader finds each thing by its name, and the documents name files that exist."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests import roomsdrawing

ROOT = Path(__file__).parents[2]
PACKAGES = ("catalog", "replication")
MODULES = [
    path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.name[0] != "_"
]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("README.md")]
)
# Base names that stand in several packages, because the package says which one is meant.
SHARED_NAMES = {
    # The same role in each dialect.
    *("read", "routes", "translate", "write"),
    # The same role in each command that is a package.
    *("command", "report"),
    # The layers of one noun: its SQL, its handlers, its client, its command.
    *("configuration", "deliveries", "entities", "find"),
    *("federation", "followers"),
    *("links", "requests", "signing", "signingkeys", "subscriptions", "validate"),
    # One per package by design: errors, what is applied.
    *("apply", "errors"),
    # The operations of a feature, and what the feature or its command has under the same name.
    *(
        "access",
        "audit",
        "changes",
        "events",
        "handovers",
        "reconciliations",
        "references",
        "search",
    ),
    # Older forms of what the model and the messages have under the same name.
    *("attributes", "protocols"),
}
_PATH = re.compile(
    r"(?<![\w/])(?:catalog|replication|tests|benchmarks|examples)/[\w./-]*\w(?![\w*<{])"
)
# The whole path, since nothing else shows that a module has moved.
_MODULE = re.compile(r"`(\w+/[\w/]+\.py)`")


def test_a_file_name_stands_once_unless_its_package_makes_the_difference() -> None:
    found = defaultdict(list)
    for path in MODULES:
        found[path.stem].append(path)

    assert {name for name, paths in found.items() if len(paths) > 1} == SHARED_NAMES


def test_a_class_name_means_one_thing() -> None:
    found = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))

    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_the_paths_that_documents_name_exist() -> None:
    found = {
        f"{document.relative_to(ROOT)}: {path}"
        for document in DOCUMENTS
        for pattern in (_PATH, _MODULE)
        for path in pattern.findall(document.read_text())
        if not (ROOT / path).exists()
    }
    assert found == set()


def test_the_architecture_names_every_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    rooms = [
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in (ROOT / package).iterdir()
        if path.is_dir() and any(path.glob("*.py"))
    ]

    assert [str(room) for room in rooms if f"`{room}`" not in text] == []


def test_the_pictures_of_the_rooms_are_those_of_the_imports() -> None:
    assert roomsdrawing.FILE.read_text() == roomsdrawing.drawn(), "run: make rooms"


def test_the_page_of_the_data_model_names_every_table() -> None:
    text = (ROOT / "docs" / "datamodel.md").read_text()
    schema = (ROOT / "catalog/store/schema.sql").read_text()
    tables = re.findall(r"^CREATE (?:TABLE|VIEW) (\w+) ", schema, re.MULTILINE)
    assert [table for table in tables if f"`{table}`" not in text] == []


def test_what_runs_links_asks_for_no_mode_by_name() -> None:
    """The mode of a link says which source and sink it joins, in `replication/modes.py` alone."""
    asked = re.compile(r"mode (==|!=|in|not in)\s")
    found = {
        path.name
        for path in (ROOT / "replication/links").glob("*.py")
        if asked.search(path.read_text())
    }
    assert found == set()
