"""The Containerfile copies what is there, and what it runs is not root."""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, ROOT

TEXT = (DEPLOY / "Containerfile").read_text()
SCRIPTS = [*(DEPLOY / "compose").glob("*.sh"), *(DEPLOY / "spark").iterdir()]
_INSTRUCTION = re.compile(r"^([A-Z]+) ((?:.*\\\n)*.*)$", re.MULTILINE)
_COPIED = [
    source
    for name, text in _INSTRUCTION.findall(TEXT)
    if name == "COPY" and "--from=" not in text
    for source in re.sub(r"--\S+ ", "", text).split()[:-1]
]


def stages() -> dict[str, list[tuple[str, str]]]:
    """The instructions of each stage, those of the stages that it begins with included."""
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for name, text in _INSTRUCTION.findall(TEXT):
        if name == "FROM":
            base, _, stage = text.partition(" AS ")
            current = found[stage] = [*found.get(base, [])]
        current.append((name, text))
    return found


@pytest.mark.parametrize("source", _COPIED)
def test_what_is_copied_is_there_and_is_sent_to_the_builder(source: str) -> None:
    assert (ROOT / source).exists()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sent = [line[1:] for line in ignored if line.startswith("!")]
    assert any(fnmatch(source, each) or source.startswith(f"{each}/") for each in sent)


def test_the_images_run_as_a_user_that_is_not_root() -> None:
    assert [*stages()][-1] == "node", "the one that is built unless a target is named"
    for stage in ("node", "spark"):
        users = [text for name, text in stages()[stage] if name == "USER"]
        assert users == ["10001:10001"]
        assert [name for name, _ in stages()[stage]].count("ENTRYPOINT") == 1


def test_the_extras_that_are_installed_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = {*re.findall(r"--extra (\w+)", TEXT)}
    [protocols] = re.findall(r'^ARG EXTRAS="([\w ]+)"$', TEXT, re.MULTILINE)
    assert named == {"spark"}
    assert {*protocols.split(), *named} <= extras.keys()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_one_that_a_shell_reads(script: Path) -> None:
    assert script.read_text().startswith("#!/bin/sh\n")
    assert script.stat().st_mode & 0o111
    subprocess.run(["sh", "-n", str(script)], check=True)
