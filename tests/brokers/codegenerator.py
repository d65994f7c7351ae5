"""xrcg of the xRegistry project, and what the Python code that it generates needs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from catalog.commands.generate.command import TRIED

_PACKAGES = (
    f"xrcg=={TRIED}",
    "cloudevents<2",
    "confluent-kafka",
    "dataclasses-json",
    "poetry-core",
)
_FETCH_SECONDS = 600


def generator_modules() -> Path:
    """A directory of packages, kept in the user's cache; the test is skipped without an index."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concord"
    kept = cache / f"xrcg-{TRIED}"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as directory:
            made = Path(directory, "made")
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input"),
                    *("--disable-pip-version-check", "--target", str(made), *_PACKAGES),
                ],
                capture_output=True,
                timeout=_FETCH_SECONDS,
            )
            if done.returncode:
                pytest.skip(f"xrcg {TRIED} cannot be fetched from the package index")
            # Another run may have been faster.
            with contextlib.suppress(OSError):
                made.rename(kept)
    return kept


def generator_program(directory: Path) -> Path:
    """The program xrcg, as a script in a directory."""
    program = directory / "xrcg"
    modules = generator_modules()
    call = "from xrcg.cli import main; raise SystemExit(main())"
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{modules}" exec "{sys.executable}" -c "{call}" "$@"\n'
    )
    program.chmod(0o755)
    return program
