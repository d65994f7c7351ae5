"""The node's own PostgreSQL server, for a node without a configured database.

All processes with the same data directory share a server.
"""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

import asyncpg
import structlog

from catalog.store.connections import EmbeddedPostgresError
from catalog.store.datadirectory import DirectoryUnusable, make_private, open_lock
from catalog.store.postgresprocess import PORT, WAIT_SECONDS, Server, until

_log = structlog.get_logger(__name__)

# A process that holds the start lock for longer is starting the server, so the process is a user of
# the server, and stops the server later.
_LEAVE_SECONDS = 5
_LIVENESS_SECONDS = 1

# The errors of clients when a server is being killed and no longer listens.
_GONE = (
    ConnectionRefusedError,
    ConnectionResetError,
    FileNotFoundError,
    asyncpg.ConnectionDoesNotExistError,
)

# Runs before a database with a schema exists. `format` quotes the name.
_CREATE_DATABASE = """
    SELECT format('CREATE DATABASE %I', $1::text)
     WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = $1::text)
"""


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A running server that the holder uses until `stop`; `dsn` is for asyncpg."""

    dsn: str
    _shared: SharedServer
    _share: IO[bytes]

    async def stop(self) -> None:
        """Stop using the server, which stops with its last user in any process.

        A second call does nothing.
        """
        await self._shared.leave(self._share)

    async def revive(self) -> None:
        """Start the server again if it has ended, unless another user just did.

        Raises:
            EmbeddedPostgresError: the server does not start.
        """
        await self._shared.revive()


async def start_embedded(directory: Path, *, database: str = "concord") -> EmbeddedPostgres:
    """Start the server in `directory`, or join the running server.

    Creates the directory, the server's data and the database if missing. Processes may share a
    directory; after a process is killed, its server stays for the next processes. Only the node's
    user may enter the directory. Root cannot run PostgreSQL: the server then has a separate account
    (`account_of`), which must be able to enter the directories above.

    Raises:
        EmbeddedPostgresError: the server does not start, or not within two minutes.
    """
    shared = SharedServer.at(directory)
    while True:
        share, sockets = await shared.join()
        server = EmbeddedPostgres(_dsn(sockets, database), shared, share)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await _ensure_database(_dsn(sockets, "postgres"), database)
        except _GONE:
            # The server was being killed while this process joined it.
            await server.stop()
        except BaseException:
            await server.stop()
            raise
        else:
            return server


def _dsn(sockets: Path, database: str) -> str:
    host = quote(str(sockets), safe="/")
    return f"postgresql://postgres@/{quote(database, safe='')}?host={host}&port={PORT}"


async def _ensure_database(dsn: str, database: str) -> None:
    connection = await _connect(dsn)
    try:
        statement = await connection.fetchval(_CREATE_DATABASE, database)
        if statement is not None:
            # Another process may create the database meanwhile; the error depends on the progress
            # there.
            with suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def _connect(dsn: str) -> asyncpg.Connection:
    """Connect, waiting while the server recovers from a crash."""
    while True:
        with suppress(asyncpg.CannotConnectNowError):
            connection: asyncpg.Connection = await asyncpg.connect(dsn)
            return connection
        await asyncio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class SharedServer:
    """A server and the lock files by which processes share the server.

    A process that holds `start.lock` may start and stop the server. Every user holds a share of
    `users.lock`; the kernel drops the share of a process that dies.
    """

    directory: Path
    server: Server

    @classmethod
    def at(cls, directory: Path) -> SharedServer:
        directory = directory.expanduser().resolve()
        server = Server.at(directory / "data")
        try:
            make_private(directory, server.account)
        except DirectoryUnusable as error:
            raise EmbeddedPostgresError(str(error)) from error
        return cls(directory, server)

    async def join(self) -> tuple[IO[bytes], Path]:
        """Become a user of the server, and start the server if it does not run.

        Returns the share for `leave`, and the directory of the server's socket. If the caller is
        cancelled while the server starts, no server is left behind.
        """
        async with self._start_lock(WAIT_SECONDS):
            share = self._users()
            fcntl.flock(share, fcntl.LOCK_SH)
            try:
                return share, self.server.listening_at() or await self.server.start()
            except BaseException:
                # A server that has just been started needs some time to write its process id.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LIVENESS_SECONDS):
                        await until(self.server.is_alive)
                await self._leave(share)
                raise

    async def revive(self) -> None:
        async with self._start_lock(WAIT_SECONDS):
            if not self.server.is_alive():
                await self.server.start()
                _log.warning("embedded_postgresql_restarted", directory=str(self.directory))

    async def leave(self, share: IO[bytes]) -> None:
        """Stop being a user; the last user stops the server, in bounded time."""
        if share.closed:
            return
        try:
            async with self._start_lock(_LEAVE_SECONDS):
                await self._leave(share)
        except EmbeddedPostgresError:
            share.close()

    async def _leave(self, share: IO[bytes]) -> None:
        share.close()
        # Only the last user gets the exclusive lock.
        with self._users() as users, suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.server.is_alive():
                await self.server.stop()

    def _users(self) -> IO[bytes]:
        return self._open("users.lock")

    def _open(self, name: str) -> IO[bytes]:
        try:
            return open_lock(self.directory / name, self.server.account)
        except DirectoryUnusable as error:
            raise EmbeddedPostgresError(str(error)) from error

    @asynccontextmanager
    async def _start_lock(self, timeout_seconds: float) -> AsyncIterator[None]:
        with self._open("start.lock") as lock:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await _lock(lock)
            except TimeoutError as error:
                raise EmbeddedPostgresError(f"another process holds {lock.name}") from error
            yield


async def _lock(lock: IO[bytes]) -> None:
    """Wait for a file lock; cancellation ends the wait."""

    # Polls, since a blocking `flock` could not be cancelled.
    def is_ours() -> bool:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    await until(is_ours)
