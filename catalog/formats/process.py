"""Starts a process that checks documents, and exchanges requests and replies with the process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Self

import orjson

ENVIRONMENT = ("LD_LIBRARY_PATH", "PATH")
# A check in a process that gets less than the given share of the processor is ended as well.
LEAST_SHARE = 0.25
# Enough for a canonical text that JSON escapes twice.
MAX_REPLY_BYTES = 64 * 1024 * 1024


class Unfinished(Exception):
    """A check ended without a result; the text gives the reason."""


class Lost(Unfinished):
    """The process of a check ended before the check."""


class UnusableSchema(Exception):
    """A schema breaks the rules of the format, and cannot be used to check payloads."""


class Process:
    """Runs `catalog.formats.worker`, one check at a time.

    The process gets no settings and no secrets of the server. Replies are JSON, not pickles,
    because the process may have read a hostile document.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        folder: TemporaryDirectory[str],
        seconds: float,
    ) -> None:
        self._process = process
        self._folder = folder
        self._seconds = seconds
        self._is_waiting = True
        self.has_answered = False

    @classmethod
    async def start(cls, *, memory: int, seconds: float) -> Self:
        """Start a process.

        Args:
            memory: the most memory of the process, in bytes.
            seconds: the most time of the processor for a single check.
        """
        folder = TemporaryDirectory(prefix="concord-check-", ignore_cleanup_errors=True)
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-W", "ignore", "-m", "catalog.formats.worker"),
                *(str(memory), str(seconds)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=folder.name,
                env=bare_environment(),
                # A terminal sends Ctrl-C to its whole group of processes; the server ends its
                # checks itself.
                start_new_session=True,
                limit=MAX_REPLY_BYTES,
            )
        except BaseException:
            folder.cleanup()
            raise
        return cls(process, folder, seconds)

    @property
    def is_usable(self) -> bool:
        """Whether the process lives and waits for a request."""
        return self._is_waiting and self._process.returncode is None

    async def ask(self, format: str, direction: str, documents: tuple[bytes, ...]) -> str:
        """Run a check, and return the problem that the check found, or "".

        Args:
            format: the format in lower case.
            direction: the direction of a comparison, "conform" for the check of a payload, or ""
                for the validation of a document.
            documents: the contents, in the order of the parameters of the check.

        Raises:
            UnusableSchema: the schema of a payload breaks the rules of the format.
            Unfinished: the check took too long, or the process ended.
        """
        # A cancelled caller leaves a reply in the pipe, which the next check would take for its
        # own.
        self._is_waiting = False
        sizes = [len(document) for document in documents]
        question = orjson.dumps({"format": format, "direction": direction, "sizes": sizes})
        try:
            async with asyncio.timeout(self._seconds / LEAST_SHARE):
                line = await self._exchange(b"\n".join((question, b"".join(documents))))
                is_complete = line.endswith(b"\n")
                ended_by = None if is_complete else -await self._process.wait()
        except TimeoutError as error:
            raise self._took_too_long() from error
        # The worker's timer of processor time ends the process by SIGPROF.
        if ended_by == signal.SIGPROF:
            raise self._took_too_long()
        if not is_complete:
            raise Lost("the check came to an unexpected end")
        reply = orjson.loads(line)
        self.has_answered = True
        self._is_waiting = not reply["last"]
        if reply["unusable"]:
            raise UnusableSchema(reply["answer"])
        return str(reply["answer"])

    def _took_too_long(self) -> Unfinished:
        limit = f"{self._seconds:g} seconds (CONCORD_CHECK_SECONDS)"
        return Unfinished(f"the check took longer than {limit}")

    async def end(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        self._folder.cleanup()

    async def _exchange(self, question: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(question)
            await self._process.stdin.drain()
            return await self._process.stdout.readline()
        except ConnectionError:
            return b""


def bare_environment() -> dict[str, str]:
    """The environment of a Python process without the settings of the server."""
    given = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    # Replies may list sets, and must be the same in every process.
    return given | {"PYTHONPATH": path, "PYTHONHASHSEED": "0"}
