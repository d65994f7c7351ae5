"""The packages of `deploy/portals`, built in a directory of their own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.brokers.npmpackage import installed_modules
from tests.e2e.nodes import until

SOURCE = Path(__file__).parents[2] / "deploy/portals"
_MANIFESTS = ("package.json", "package-lock.json", "*/package.json")
_PORT = re.compile(r"listens on (\d+)")
_SECONDS = 240
_OLDEST_NODE = (20, 3)


@dataclass(frozen=True, slots=True)
class Portals:
    """The built packages."""

    directory: Path

    @classmethod
    async def build(cls, directory: Path) -> Portals:
        """Compile the packages; the test is skipped where npm or its registry is missing."""
        paths = [path for pattern in _MANIFESTS for path in sorted(SOURCE.glob(pattern))]
        files = {str(path.relative_to(SOURCE)): path.read_bytes() for path in paths}
        kept = f"portals-{hashlib.sha256(files['package-lock.json']).hexdigest()[:16]}"
        modules = await asyncio.to_thread(installed_modules, kept, "ci", files=files)
        if (version := await _node_version()) < _OLDEST_NODE:
            pytest.skip(f"the portals need Node.js 20.3, and this is {version}")
        ignored = shutil.ignore_patterns("node_modules", "dist")
        await asyncio.to_thread(shutil.copytree, SOURCE, directory, ignore=ignored)
        (directory / "node_modules").symlink_to(modules)
        portals = cls(directory)
        for package in ("backstage", "eventcatalog"):
            await portals.run("node_modules/typescript/bin/tsc", "-p", package)
        return portals

    async def run(self, *arguments: str, cwd: Path | None = None) -> str:
        """Run Node.js in the directory of the packages, or in `cwd`; it has to be a success."""
        process = await asyncio.create_subprocess_exec(
            *("node", *arguments),
            cwd=cwd or self.directory,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(), _SECONDS)
        assert process.returncode == 0, output.decode()
        return output.decode()

    @contextlib.asynccontextmanager
    async def backstage(self, node: str, database: str, log: Path) -> AsyncIterator[str]:
        """Backstage's catalog with the provider; yields the URL of its API.

        Args:
            node: the URL of the node that is followed.
            database: the URL of a PostgreSQL database.
            log: the file for the output.
        """
        script = Path(__file__).with_name("backstagehost.mjs")
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *("node", "--no-deprecation", str(script), node, database),
                cwd=self.directory,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
            )
        try:
            port = await until(
                lambda: _PORT.search(log.read_text()), seconds=_SECONDS, what=f"Backstage ({log})"
            )
            yield f"http://127.0.0.1:{port[1]}/api/catalog"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _node_version() -> tuple[int, ...]:
    process = await asyncio.create_subprocess_exec(
        "node", "--version", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return tuple(int(part) for part in re.findall(rb"\d+", output))
