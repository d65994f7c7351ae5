"""Runs a node in processes that answer on a shared socket, and a process for background work."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

import structlog
from prometheus_client.multiprocess import mark_process_dead

from catalog.http.listener import Listening
from catalog.model.backoff import Backoff
from catalog.node.noderuntime import ProcessMember, start_listening
from catalog.settings import Settings

_log = structlog.get_logger()
_BACKOFF = Backoff(initial=0.1, factor=2.0, cap=5.0, jitter=0.5)
# A process that lives this long resets the back-off.
_STEADY_SECONDS = 30.0
# Longer than the time for open requests.
_STOP_SECONDS = 15.0
_READY = b"r"
# The fork server imports everything and is forked for each process of the node, so that processes
# start at once and share unchanged memory.
_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["catalog.node.noderuntime", "catalog.dialects", "replication.routes", "replication.scheduler"]
)

Run = Callable[[Settings, ProcessMember], None]
"""Runs a member until told to stop; a function of a module, since a different process calls it.

A member without sockets does the work of the node; a member with sockets answers requests. The
function calls `say_ready`.
"""


class MemberFailed(Exception):
    """A process ended before the node was ready, after printing the reason."""


async def run_processes(settings: Settings, run: Run, ready: Callable[[str], None]) -> None:
    """Run the processes until SIGINT or SIGTERM; restart processes that end by themselves.

    Args:
        ready: called with the node's URL once every process is ready.

    Raises:
        AddressInUse
        MemberFailed
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    listening = await start_listening(settings)
    with _directory() as directory:
        answering = Listening(sockets=listening.sockets, url=listening.url, is_shared=True)
        working = Listening(sockets=(), url=listening.url)
        members = [
            _Supervised(settings, run, each, directory, stop)
            for each in (working, *[answering] * settings.processes)
        ]
        async with asyncio.TaskGroup() as tasks:
            # The first process creates the database, and the later processes find the database.
            for group in (members[:1], members[1:]):
                for member in group:
                    tasks.create_task(member.run())
                for member in group:
                    await member.started()
            if not stop.is_set():
                ready(listening.url)
    if any(member.has_failed for member in members):
        raise MemberFailed


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """The directory of shared files; the metrics are found there by the environment variable."""
    with tempfile.TemporaryDirectory(prefix="concord-") as directory:
        # Set before the fork server starts: prometheus_client reads the variable on import.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
        yield Path(directory)


def say_ready(member: ProcessMember) -> None:
    """Tell the supervisor that a member is at work."""
    member.supervisor.send(_READY)


class _Supervised:
    """A process of the node, which is restarted when the process ends."""

    def __init__(
        self,
        settings: Settings,
        run: Run,
        listening: Listening,
        directory: Path,
        stop: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._run = run
        self._listening = listening
        self._directory = directory
        self._stop = stop
        self._random = Random()
        self._is_ready = asyncio.Event()
        self.has_failed = False

    async def started(self) -> None:
        """Wait until the process is ready, or the node stops."""
        waits = [asyncio.create_task(each.wait()) for each in (self._is_ready, self._stop)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    async def run(self) -> None:
        """Keep the process running until the node stops; a failed start stops the node."""
        loop, failures = asyncio.get_running_loop(), 0
        while not self._stop.is_set():
            began = loop.time()
            status = await self._run_once()
            if self._stop.is_set():
                return
            # A killed process has not failed by itself.
            if not self._is_ready.is_set() and (status is None or status > 0):
                self.has_failed = True
                self._stop.set()
                return
            failures = 0 if loop.time() - began > _STEADY_SECONDS else failures + 1
            _log.error("a process of the node ended", status=status)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_BACKOFF.delay(failures, self._random)):
                    await self._stop.wait()

    async def _run_once(self) -> int | None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        member = ProcessMember(
            listening=self._listening,
            supervisor=theirs,
            shared_writes=self._directory / "writes",
        )
        process = _CONTEXT.Process(target=self._run, args=(self._settings, member))
        process.start()
        theirs.close()
        with ours:
            hearing = asyncio.create_task(self._hear(ours))
            ended = asyncio.create_task(_ended(process))
            stopping = asyncio.create_task(self._stop.wait())
            await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                process.terminate()
                await asyncio.wait((ended,), timeout=_STOP_SECONDS)
            if not ended.done():
                process.kill()
                await ended
            for task in (hearing, stopping):
                task.cancel()
            await asyncio.wait((hearing, stopping))
        _forget_gauges(process)
        return process.exitcode

    async def _hear(self, ours: socket.socket) -> None:
        if await asyncio.get_running_loop().sock_recv(ours, 1) == _READY:
            self._is_ready.set()


def _forget_gauges(process: BaseProcess) -> None:
    """Remove the gauges of an ended process from the node's metrics.

    The counters of the process stay, so that no counter falls.
    """
    if process.pid is not None:
        mark_process_dead(  # type: ignore[no-untyped-call]
            process.pid, os.environ["PROMETHEUS_MULTIPROC_DIR"]
        )


async def _ended(process: BaseProcess) -> None:
    """Wait for the end of a process."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()
    loop.add_reader(process.sentinel, ended.set_result, None)
    try:
        await ended
    finally:
        loop.remove_reader(process.sentinel)
    process.join()
