"""PostgreSQL's programs that dump a database and load a dump, as processes with bounded memory."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from asyncio import StreamReader
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from catalog.store.connections import PRIMARY, EmbeddedPostgresError
from catalog.store.postgresprograms import executables

CHUNK = 256 * 1024
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_NAMES = ("pg_dump", "pg_restore")
_VERSION_SECONDS = 30
_LONGEST_MESSAGE = 2000


class ToolFailed(Exception):
    """A program of PostgreSQL is missing or has failed; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class PostgresTools:
    """The directory of the programs, for a server of a major version."""

    directory: Path
    server: int

    @classmethod
    def for_server(cls, server: int) -> PostgresTools:
        """The oldest programs able to dump a server, from the wheel or the PATH.

        Raises:
            ToolFailed: no programs are installed, or all are older than the server.
        """
        found: dict[int, Path] = {}
        for directory in _directories():
            if version := _version_in(directory):
                found.setdefault(version, directory)
        usable = sorted(version for version in found if version >= server)
        if not usable:
            has = ", ".join(map(str, sorted(found))) or "none"
            raise ToolFailed(
                f"pg_dump and pg_restore of PostgreSQL {server} or later are needed (there "
                f"are: {has}). Install the client programs of PostgreSQL {server}, for example "
                f"the package postgresql-client-{server}"
            )
        return cls(found[usable[0]], server)

    async def dump(self, dsn: str, snapshot: str, take: Callable[[bytes], None]) -> None:
        """Dump the contents of a snapshot, in parts.

        Raises:
            ToolFailed
        """
        options = ("--format=custom", "--compress=6", "--schema=public", f"--snapshot={snapshot}")
        owned = ("--no-owner", "--no-privileges", "--no-password")
        async with self._running("pg_dump", *options, *owned, dsn=dsn, stdout=PIPE) as process:
            assert process.stdout is not None
            while chunk := await process.stdout.read(CHUNK):
                take(chunk)

    @asynccontextmanager
    async def rows_of(self, dump: Iterable[bytes]) -> AsyncIterator[StreamReader]:
        """The script that pg_restore makes of the rows of a dump, which is given in parts.

        Raises:
            ToolFailed: pg_restore cannot read the dump.
        """
        options = ("--format=custom", "--schema=public", "--data-only", "--file=-")
        owned = ("--no-owner", "--no-privileges")
        async with self._running(
            "pg_restore", *options, *owned, stdin=PIPE, stdout=PIPE
        ) as process:
            assert process.stdout is not None
            # Fed while the caller reads: a full output pipe stops pg_restore, and pg_restore the
            # feeding.
            feeding = asyncio.create_task(_feed(process, dump))
            try:
                yield process.stdout
                await feeding
            finally:
                feeding.cancel()

    @asynccontextmanager
    async def _running(
        self,
        program: str,
        *arguments: str,
        dsn: str | None = None,
        **streams: int,
    ) -> AsyncIterator[Process]:
        """Run a program as long as a context, which closes the program's input.

        If the context ends with an error, the program is killed: a server then rolls back its
        changes.

        Raises:
            ToolFailed: the program has failed.
        """
        environment = {**os.environ, "LC_ALL": "C"}
        if dsn is not None:
            url, password, options = _apart(dsn)
            arguments = (*arguments, f"--dbname={url}")
            # Arguments are visible to every user of the machine.
            environment |= {"PGPASSWORD": password} if password else {}
            environment["PGOPTIONS"] = options
        with tempfile.TemporaryFile("w+", errors="replace") as messages:
            process = await asyncio.create_subprocess_exec(
                str(self.directory / program),
                *arguments,
                env=environment,
                stderr=messages,
                **{"stdin": subprocess.DEVNULL, **streams},  # type: ignore[arg-type]
            )
            try:
                yield process
                status = await process.wait()
            except BaseException:
                await _kill(process)
                raise
            if status != 0:
                raise ToolFailed(_explain(program, messages))


def _directories() -> list[Path]:
    found = []
    with suppress(EmbeddedPostgresError):
        found.append(executables())
    if path := shutil.which("pg_dump"):
        found.append(Path(path).parent)
    return found


def _version_in(directory: Path) -> int | None:
    """The major version of the programs in a directory; `None` if a program is missing or fails."""
    if not all(os.access(directory / name, os.X_OK) for name in _NAMES):
        return None
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(
            [str(directory / "pg_dump"), "--version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=_VERSION_SECONDS,
        )
        if match := _VERSION.search(told.stdout):
            return int(match[1])
    return None


def _apart(dsn: str) -> tuple[str, str, str]:
    """A PostgreSQL URL without password and session options, the password, and the options."""
    parts = urlsplit(dsn)
    query = parse_qsl(parts.query, keep_blank_values=True)
    given = dict(query)
    rest = [(name, value) for name, value in query if name not in ("password", "options")]
    if "target_session_attrs" not in given:
        rest.append(("target_session_attrs", PRIMARY))
    user, at, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    bare = parts._replace(netloc=f"{name}{at}{hosts}", query=urlencode(rest, quote_via=quote))
    secret = unquote(password) or given.get("password", "")
    return bare.geturl(), secret, given.get("options", "")


async def _write(process: Process, data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    await process.stdin.drain()


async def _feed(process: Process, chunks: Iterable[bytes]) -> None:
    """Write the chunks to a process; the status of a process that ends early tells the reason."""
    with suppress(BrokenPipeError, ConnectionResetError):
        for chunk in chunks:
            await _write(process, chunk)
    _close(process)


def _close(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()


async def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    # A process counts as ended only after its pipes: a full pipe has to be read to its end.
    await process.communicate()


def _explain(program: str, messages: IO[str]) -> str:
    messages.seek(0)
    lines = [line.strip() for line in messages.read(_LONGEST_MESSAGE).splitlines()]
    return f"the program {program} failed: " + (
        " / ".join(filter(None, lines)) or "it said nothing"
    )
