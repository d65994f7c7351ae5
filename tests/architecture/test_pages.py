"""Pages lead to what is there, and every block in them is of a kind that some test knows."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from catalog.cli import app
from tests.pages import FOLLOWED, PROGRAM, ROOT, Block, blocks, name_of, pages

COMMANDS = ("sh", "console")
DRAWINGS = ("", "text", "mermaid")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)
_TYPED = re.compile(r"(\$ |make |concord |curl |git |pip |pytest |\.venv/)")

each_page = pytest.mark.parametrize("page", pages(), ids=name_of)
each_block = pytest.mark.parametrize(
    "block", [block for page in pages() for block in blocks(page)], ids=str
)


@each_block
def test_a_block_is_of_a_kind_that_a_test_runs_or_reads(block: Block) -> None:
    if block.language in COMMANDS:
        assert block.not_run or name_of(block.page) in FOLLOWED
    elif block.language == "python":
        assert block.not_run or name_of(block.page) == PROGRAM
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        yaml.safe_load(block.text)
    else:
        assert block.language in DRAWINGS
        assert not any(_TYPED.match(line) for line in block.text.splitlines())


@each_page
def test_a_page_has_no_indented_blocks(page: Path) -> None:
    """They are no fenced ones, so no test would see the commands in them."""
    assert not re.search(r"\n\n    \S", page.read_text())


@each_page
def test_the_links_of_a_page_lead_to_files_and_headings(page: Path) -> None:
    for link in _LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


@each_page
def test_the_targets_of_make_that_a_page_names_are_there(page: Path) -> None:
    targets = {*_TARGET.findall((ROOT / "Makefile").read_text())}
    for command in _named(page, "make"):
        named = [word for word in command if re.fullmatch(r"[a-z]+", word)]
        assert {*named} <= targets, command


@each_page
def test_the_commands_of_concord_that_a_page_names_are_there(page: Path) -> None:
    for command in _named(page, "concord"):
        if command and re.fullmatch(r"[a-z]+", command[0]):
            assert command[0] in get_command(app).commands, command


def _named(page: Path, program: str) -> list[list[str]]:
    """The words after the name of a program in each code span, and in blocks that do not run."""
    text = page.read_text()
    spans = [code for line in text.splitlines() for code in _CODE.findall(line)]
    unread = [block.text for block in blocks(page) if block.not_run]
    lines = [line.partition("#")[0] for part in (*spans, *unread) for line in part.splitlines()]
    return [line.split()[1:] for line in lines if line.split()[:1] == [program]]


@cache
def _anchors(page: Path) -> frozenset[str]:
    headings = _HEADING.findall(page.read_text())
    return frozenset(re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings)
