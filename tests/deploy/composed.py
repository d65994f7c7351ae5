"""The services of compose.yaml, started as processes of this machine.

There is no engine here: a service is its command with its variables, where the name of each other
service is replaced by the address of the process that stands for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.deploy.files import ROOT, read_yaml
from tests.e2e.nodes import NodeProcess, free_port

COMPOSE = ROOT / "compose.yaml"
NODES = ("hub", "east", "west")
# What the image of a node runs: `concord` with the command of the service.
_PROGRAMS = Path(sys.executable).parent
_VARIABLE = re.compile(r"\$\{\w+:-([^}]*)\}")


def services() -> dict[str, dict[str, Any]]:
    """The services, with the defaults of variables in place of them."""
    found: dict[str, dict[str, Any]] = _filled(read_yaml(COMPOSE)["services"])
    return found


def _filled(value: Any) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(r"\1", value)
    if isinstance(value, list):
        return [_filled(each) for each in value]
    if isinstance(value, dict):
        return {name: _filled(each) for name, each in value.items()}
    return value


@dataclass(slots=True)
class Composed:
    """The addresses of the services on this machine."""

    directory: Path
    database_url: str
    ports: Mapping[str, int] = field(default_factory=lambda: {name: free_port() for name in NODES})

    def here(self, text: str) -> str:
        """A text of compose.yaml with the addresses of here."""
        for name, port in self.ports.items():
            text = text.replace(f"http://{name}:8080", f"http://127.0.0.1:{port}")
        if text.startswith("postgresql://"):
            return urlsplit(self.database_url)._replace(path=urlsplit(text).path).geturl()
        return text

    def environment(self, service: Mapping[str, Any]) -> dict[str, str]:
        """The variables of a service, and those of this machine that find programs."""
        given = {name: self.here(value) for name, value in service.get("environment", {}).items()}
        own = {
            "HOME": str(self.directory),
            "PATH": f"{_PROGRAMS}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.directory),
        }
        return own | given

    def node(self, name: str) -> NodeProcess:
        """A node that is not started yet."""
        service = services()[name]
        assert service["command"] == ["serve"], "that is what NodeProcess runs"
        data = self.directory / name
        data.mkdir()
        return NodeProcess(
            port=self.ports[name],
            environment={
                **self.environment(service),
                # The image listens on all addresses, at a port of its own.
                "CONCORD_HOST": "127.0.0.1",
                "CONCORD_PORT": str(self.ports[name]),
                "CONCORD_DATA_DIR": str(data),
            },
            log=data / "node.log",
        )

    @contextlib.asynccontextmanager
    async def script(self, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """A service whose entry point is a script, which ends with the context."""
        service = services()[name]
        shell, mounted = service["entrypoint"]
        [source] = [
            source
            for source, target in (each.split(":")[:2] for each in service["volumes"])
            if target == mounted
        ]
        with (self.directory / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                shell,
                str(ROOT / source),
                *map(self.here, service["command"]),
                cwd=self.directory,
                env=self.environment(service),
                stdout=log,
                stderr=log,
                # What it has started ends with it, as in a container.
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
