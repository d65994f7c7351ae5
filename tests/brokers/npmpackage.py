"""Packages of npm, kept in the user's cache, for scripts of tests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

_FETCH_SECONDS = 120


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
        if shutil.which("node") is None or shutil.which("npm") is None:
            pytest.skip("npm is missing: install it with apt-get install npm")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "concord"
        kept = cache / f"{self.name.strip('@').replace('/', '-')}-{self.version}"
        if not kept.exists():
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as directory:
                made = Path(directory, "made")
                done = subprocess.run(
                    [
                        *("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"),
                        *("--prefix", str(made), f"{self.name}@{self.version}"),
                    ],
                    capture_output=True,
                    timeout=_FETCH_SECONDS,
                )
                if done.returncode:
                    pytest.skip(f"{self.name} cannot be fetched from npm's registry")
                # Another run may have been faster.
                with contextlib.suppress(OSError):
                    made.rename(kept)
        # Packages find each other by this name only.
        return kept / "node_modules"
