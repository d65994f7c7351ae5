"""The node's own PostgreSQL server, for a node without a configured database.

All processes with the same data directory share a server. A process that holds the lock on
`start.lock` may start and stop the server. Every user of the server holds a share of the lock on
`users.lock`; the kernel drops the share of a process that dies.
"""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO
from urllib.parse import quote

import asyncpg
import structlog

from catalog.store.connections import EmbeddedPostgresError
from catalog.store.postgresaccount import make_private, open_lock
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


async def start_embedded(directory: Path, *, database: str = "concord") -> EmbeddedPostgres:
    """Start the server in `directory`, or join the running server.

    Creates the directory, the server's data and the database if missing. After a process is killed,
    its server stays for the next processes. Only the node's user may enter the directory. Root
    cannot run PostgreSQL: the server then has a separate account (`account_of`), which must be able
    to enter the directories above.

    Raises:
        EmbeddedPostgresError: the server does not start, or not within two minutes.
    """
    server = EmbeddedPostgres(directory)
    while True:
        await server.join(database)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await _ensure_database(server.dsn_of("postgres"), database)
        except _GONE:
            # The server was being killed while this process joined it.
            await server.stop()
        except BaseException:
            await server.stop()
            raise
        else:
            return server


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


class EmbeddedPostgres:
    """A server that this process uses from `join` to `stop`; meanwhile `dsn` is for asyncpg."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.expanduser().resolve()
        self._server = Server.at(self._directory / "data")
        make_private(self._directory, self._server.account)
        self._sockets = Path()
        self._share: IO[bytes] | None = None
        self.dsn = ""

    def dsn_of(self, database: str) -> str:
        host = quote(str(self._sockets), safe="/")
        return f"postgresql://postgres@/{quote(database, safe='')}?host={host}&port={PORT}"

    async def join(self, database: str) -> None:
        """Become a user of the server, and start the server if it does not run.

        If the caller is cancelled while the server starts, no server is left behind.
        """
        async with self._start_lock(WAIT_SECONDS):
            self._share = self._open("users.lock")
            fcntl.flock(self._share, fcntl.LOCK_SH)
            try:
                self._sockets = self._server.listening_at() or await self._server.start()
            except BaseException:
                # A server that has just been started needs some time to write its process id.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LIVENESS_SECONDS):
                        await until(self._server.is_alive)
                await self._leave(self._share)
                raise
        self.dsn = self.dsn_of(database)

    async def revive(self) -> None:
        """Start the server again if it has ended, unless another user just did.

        Raises:
            EmbeddedPostgresError: the server does not start.
        """
        async with self._start_lock(WAIT_SECONDS):
            if not self._server.is_alive():
                await self._server.start()
                _log.warning("embedded_postgresql_restarted", directory=str(self._directory))

    async def stop(self) -> None:
        """Stop using the server; its last user in any process stops it, in bounded time.

        A second call does nothing.
        """
        share = self._share
        if share is None or share.closed:
            return
        try:
            async with self._start_lock(_LEAVE_SECONDS):
                await self._leave(share)
        except EmbeddedPostgresError:
            share.close()

    async def _leave(self, share: IO[bytes]) -> None:
        # The own share would exclude the process itself: locks belong to descriptors (flock(2)).
        share.close()
        # Only the last user gets the exclusive lock.
        with self._open("users.lock") as users, suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._server.is_alive():
                await self._server.stop()

    def _open(self, name: str) -> IO[bytes]:
        return open_lock(self._directory / name, self._server.account)

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
