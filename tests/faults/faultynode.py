"""A node as a process that is killed, frozen and started again, with the lines that lead to it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from catalog.client import Client, Retry
from tests.e2e.forkednodes import kill_forked, start_forked
from tests.faults.proxy import Line
from tests.faults.writers import careful_client

_LIBRARIES = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
FAKETIME = next(iter(_LIBRARIES), None)
"""The library that skews the clock of a process; Debian's package is `faketime`."""
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.05

Process = BaseProcess | subprocess.Popen[bytes]


@dataclass(slots=True, kw_only=True)
class FaultyNode:
    """One `concord serve`. Peers know it by the URL of `hints`, writers by that of `clients`.

    Args:
        lock: held while it is not as it should be.
        skew: seconds by which its clock is wrong.
    """

    number: int
    url: str
    database: str
    environment: dict[str, str]
    log: Path
    hints: Line
    clients: Line
    skew: float = 0.0
    process: Process | None = None
    spawning: asyncio.Task[Process] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def authority(self) -> str:
        return self.hints.url

    async def start(self) -> None:
        """Start the process; once more if it ends because its database is away."""
        async with asyncio.timeout(_START_SECONDS), careful_client(self.url) as client:
            while True:
                if self.process is None or not _is_alive(self.process):
                    self.spawning = asyncio.create_task(asyncio.to_thread(self._spawn))
                    self.process = await asyncio.shield(self.spawning)
                if await client.is_ready():
                    return
                await asyncio.sleep(_LOOK_SECONDS)  # between two looks

    async def kill(self) -> None:
        """kill -9."""
        # If the start was cancelled, the thread went on.
        if self.spawning is not None:
            self.process = await self.spawning
        if self.process is not None:
            await asyncio.to_thread(_kill, self.process)

    async def freeze(self, seconds: float) -> None:
        """Stop the process for a while; it does not notice."""
        assert self.process is not None
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def client(self) -> AbstractAsyncContextManager[Client]:
        """A client whose way to the node has no faults."""
        return Client.open(self.url, retry=Retry(attempts=10))

    def _spawn(self) -> Process:
        if not self.skew:
            return start_forked(self.environment, self.log)
        # The library has to be there when a process begins, so this one is no copy.
        assert FAKETIME is not None
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "catalog.cli", "serve"],
                env={
                    **self.environment,
                    "LD_PRELOAD": str(FAKETIME),
                    "FAKETIME": f"{self.skew:+.0f}",
                    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                    "DONT_FAKE_MONOTONIC": "1",
                },
                stdout=log,
                stderr=log,
            )


def _is_alive(process: Process) -> bool:
    if isinstance(process, BaseProcess):
        return process.is_alive()
    return process.poll() is None


def _kill(process: Process) -> None:
    if isinstance(process, BaseProcess):
        kill_forked(process)
    else:
        process.kill()
        process.wait(20)
