"""Small programs around the clients for JavaScript and Go, installed once into `.venv`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).parent
_KEPT = Path(sys.prefix, "clients")
_INSTALL_SECONDS = 300
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Client:
    """A program that reads a document from its standard input and writes one."""

    command: Sequence[str]

    def ask(self, **wishes: Any) -> Mapping[str, Any]:
        """What the program answers."""
        done = subprocess.run(
            self.command,
            input=json.dumps(wishes),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        answer: Mapping[str, Any] = json.loads(done.stdout)
        return answer


def javascript() -> Client:
    """The client of KafkaJS; the test is skipped where it cannot be had."""
    node, npm = _program("node", "nodejs npm"), _program("npm", "nodejs npm")
    fetch = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    return Client([node, str(_installed("javascript", fetch) / "client.mjs")])


def golang() -> Client:
    """The client of franz-go; the test is skipped where it cannot be had."""
    go = _program("go", "golang")
    kept = _installed("go", [go, "mod", "download"], [go, "build", "-o", "client", "."])
    return Client([str(kept / "client")])


def _program(name: str, packages: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: install it with apt-get install {packages}")
    return found


def _installed(language: str, fetch: Sequence[str], build: Sequence[str] = ()) -> Path:
    """A directory with the files of a language and what two commands make of them.

    The test is skipped if the first one fails, which needs a registry of packages.
    """
    source = _HERE / language
    digest = hashlib.sha256()
    for file in sorted(source.iterdir()):
        digest.update(file.read_bytes())
    kept = _KEPT / f"{language}-{digest.hexdigest()[:16]}"
    if not kept.exists():
        _KEPT.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_KEPT) as directory:
            made = Path(directory, "made")
            shutil.copytree(source, made)
            if (fetched := _run(fetch, made)).returncode:
                said = fetched.stderr.strip()
                pytest.skip(f"the client for {language} cannot be fetched: {said}")
            if build and (built := _run(build, made)).returncode:
                pytest.fail(built.stderr)
            # Another run may have been faster.
            with contextlib.suppress(OSError):
                made.rename(kept)
    return kept


def _run(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=_INSTALL_SECONDS
    )
