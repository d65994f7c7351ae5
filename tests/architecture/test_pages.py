"""Pages lead to what is there, and every block in them is of a kind that some test knows."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from catalog.cli import app
from tests.pages import FOLLOWED, FOLLOWER, PROGRAM, ROOT, Block, blocks, name_of, pages

COMMANDS = ("sh", "console")
DRAWINGS = ("", "text", "mermaid")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_TARGET = re.compile(r"^([a-z]+):", re.MULTILINE)
_TYPED = re.compile(r"(\$ |make |concord |curl |git |pip |pytest |\.venv/)")

PAGES = list(pages())


@pytest.mark.parametrize("language", [*COMMANDS, *DRAWINGS, "python", "json", "yaml"])
def test_blocks_are_of_a_kind_that_a_test_runs_or_reads(language: str) -> None:
    found = [block for page in PAGES for block in blocks(page) if block.language == language]
    assert [str(block) for block in found if not _is_known(block)] == []


def test_there_are_no_blocks_of_other_languages() -> None:
    known = {*COMMANDS, *DRAWINGS, "python", "json", "yaml"}
    found = [str(each) for page in PAGES for each in blocks(page) if each.language not in known]
    assert found == []


def _is_known(block: Block) -> bool:
    if block.language in COMMANDS:
        return block.not_run or name_of(block.page) in FOLLOWED
    if block.language == "python":
        return block.not_run or name_of(block.page) in (FOLLOWER, PROGRAM)
    if block.language in DRAWINGS:
        return not any(_TYPED.match(line) for line in block.text.splitlines())
    read = json.loads if block.language == "json" else yaml.safe_load
    return read(block.text) is not None


def test_pages_have_no_indented_blocks() -> None:
    """They are no fenced ones, so no test would see the commands in them."""
    assert [name_of(page) for page in PAGES if re.search(r"\n\n    \S", page.read_text())] == []


def test_the_links_of_pages_lead_to_files_and_headings() -> None:
    links = [(page, link) for page in PAGES for link in _LINK.findall(page.read_text())]
    broken = [f"{name_of(page)}: {link}" for page, link in links if not _leads(page, link)]
    assert broken == []


def _leads(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    if "://" in link:
        return True
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def test_the_targets_of_make_that_pages_name_are_there() -> None:
    targets = {*_TARGET.findall((ROOT / "Makefile").read_text())}
    named = [(page, command) for page in PAGES for command in _named(page, "make")]
    missing = [
        f"{name_of(page)}: {word}"
        for page, command in named
        for word in command
        if re.fullmatch(r"[a-z]+", word) and word not in targets
    ]
    assert missing == []


def test_the_commands_of_concord_that_pages_name_are_there() -> None:
    named = [(page, command) for page in PAGES for command in _named(page, "concord")]
    root = get_command(app)
    missing = [f"{name_of(page)}: {words}" for page, words in named if not _is_there(root, words)]
    assert missing == []


def _is_there(command: Any, words: list[str]) -> bool:
    """Whether the first words name a command, or the whole of a group."""
    for word in words:
        if not hasattr(command, "commands") or not re.fullmatch(r"[a-z]+", word):
            return True
        if word not in command.commands:
            return False
        command = command.commands[word]
    return True


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
