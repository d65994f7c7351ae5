"""Environments of Python of their own, which are kept in the user's cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

# The packages pin nothing below them; this pins all of it, as of a day.
_AS_OF = "2026-11-01"
_UV = "uv==0.13.9"
# On a machine that runs much else.
_SECONDS = 300


def kept_python(package: str, *, otherwise: str) -> Path:
    """The Python of an environment with a package, which is installed once.

    The test is skipped where the package cannot be fetched.

    Args:
        package: the requirement, as `name==version`.
        otherwise: what else makes the test run, for whoever installs the package.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concord"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    kept = cache / f"{package.replace('==', '-')}-{version}"
    python = kept / "venv" / "bin" / "python"
    if not (kept / "installed").exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as uv:
            _install(Path(uv), python, package, otherwise)
        (kept / "installed").touch()
    return python


def _install(directory: Path, python: Path, package: str, otherwise: str) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    uv = str(directory / "bin" / "uv")
    venv = str(python.parents[1])
    into = ("--quiet", "--python", str(python), "--exclude-newer", _AS_OF)
    for command in (
        (*pip, "--no-deps", "--target", str(directory), _UV),
        (uv, "venv", "--quiet", "--clear", "--python", sys.executable, venv),
        (uv, "pip", "install", *into, package),
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode:
            pytest.skip(
                f"{package} cannot be fetched from the package index: {done.stderr[-300:]} "
                f"Install it, and {otherwise}"
            )
