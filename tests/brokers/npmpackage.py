"""Packages of npm, kept in the user's cache, for scripts of tests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

_FETCH_SECONDS = 500


@dataclass(frozen=True, slots=True)
class Package:
    """A package of npm in one version."""

    name: str
    version: str

    async def script_in(
        self, directory: Path, script: Path, *arguments: str
    ) -> tuple[str, list[str], Path]:
        """The program, arguments and directory of a script that finds the package.

        The script is copied into the directory; the test is skipped where there is no npm.
        """
        (directory / "node_modules").symlink_to(await asyncio.to_thread(self.modules))
        shutil.copy(script, directory)
        return "node", [script.name, *arguments], directory

    def modules(self) -> Path:
        """A directory with the package and all that it needs; the test is skipped without npm."""
        kept = f"{self.name.strip('@').replace('/', '-')}-{self.version}"
        return installed_modules(kept, "install", f"{self.name}@{self.version}")


def installed_modules(kept: str, *arguments: str, files: Mapping[str, bytes] | None = None) -> Path:
    """A directory of modules that npm installs once; the test is skipped without npm.

    Args:
        kept: the name of the directory in the cache.
        arguments: the command of npm.
        files: what the command reads, by paths below its directory.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("npm is missing: install it with apt-get install npm")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concord"
    if not (cache / kept).exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as directory:
            made = Path(directory, "made")
            for path, content in (files or {}).items():
                (made / path).parent.mkdir(parents=True, exist_ok=True)
                (made / path).write_bytes(content)
            command, *named = arguments
            done = subprocess.run(
                [
                    *("npm", command, "--ignore-scripts", "--no-audit", "--no-fund"),
                    *("--prefix", str(made), *named),
                ],
                capture_output=True,
                timeout=_FETCH_SECONDS,
            )
            if done.returncode:
                pytest.skip(f"{kept} cannot be fetched from npm's registry")
            # Another run may have been faster.
            with contextlib.suppress(OSError):
                made.rename(cache / kept)
    # Packages find each other by this name only.
    return cache / kept / "node_modules"
