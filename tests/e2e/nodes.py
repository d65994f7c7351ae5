"""Nodes as processes, started and killed as an operator or an accident would."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.client import Client

# On a machine that runs much else.
_START_SECONDS = 120
# The sockets that hold the last ports. A soak takes more than a process may have open.
_held: deque[int] = deque()
_MOST_HELD = 200


def free_port() -> int:
    """A port of the loopback address that nobody listens on, kept for the servers of this process.

    As long as a socket is bound to it, Linux gives it to no other one and connects none from it;
    a server can still listen there, if both allow the reuse, as all servers of tests do. So a
    server may be down for a while. Elsewhere, the port is merely free now.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        if sys.platform == "linux":
            _held.append(probe.detach())
    if len(_held) > _MOST_HELD:
        os.close(_held.popleft())
    return port


async def until(
    condition: Callable[[], Any], *, seconds: float = 30, what: str = "the condition"
) -> Any:
    """Wait until `condition` (which may be async) answers with something true."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert asyncio.get_running_loop().time() < deadline, f"{what} did not come true"
        await asyncio.sleep(0.02)  # between two looks at the condition


@dataclass(slots=True)
class NodeProcess:
    """One `concord serve`, with a database of its own, that may die and come back."""

    port: int
    environment: dict[str, str]
    log: Path
    process: asyncio.subprocess.Process | None = None
    descriptors: int | None = None  # how many files it may open, if not as many as this process
    token: str | None = None  # which its clients show

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "catalog.cli",
                "serve",
                env=self.environment,
                stdout=log,
                stderr=log,
                preexec_fn=self._limit if self.descriptors else None,
            )
        what = f"the node at {self.url} ({self.log})"
        await until(self._answers, seconds=_START_SECONDS, what=what)

    def _limit(self) -> None:
        assert self.descriptors is not None
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))

    async def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.returncode is None, self.log.read_text()
        async with self.client() as client:
            return await client.is_ready()

    async def end(self, how: signal.Signals) -> int:
        """Send a signal and wait for the end; the value is the exit status."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(how)
        async with asyncio.timeout(20):
            return await self.process.wait()

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        async with Client.open(self.url, token=self.token) as client:
            yield client


def node_at(directory: Path, **settings: str) -> NodeProcess:
    """A node that is not started yet, with an embedded database below `directory`."""
    port = free_port()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("CONCORD_")}
    return NodeProcess(
        port=port,
        environment={
            **inherited,
            "CONCORD_PORT": str(port),
            "CONCORD_DATA_DIR": str(directory / "data"),
            "CONCORD_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "CONCORD_BACKOFF_INITIAL_SECONDS": "0.1",
            "CONCORD_BACKOFF_CAP_SECONDS": "1",
            "CONCORD_PULL_INTERVAL_SECONDS": "1",
            **settings,
        },
        log=directory / "node.log",
    )


@contextlib.asynccontextmanager
async def running(*nodes: NodeProcess) -> AsyncIterator[None]:
    """Nodes that are started on the way in and killed on the way out."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for node in nodes:
                tasks.create_task(node.start())
        yield
    finally:
        for node in nodes:
            if node.process is not None:
                await node.end(signal.SIGTERM)
