"""A PostgreSQL server of the node's own, for when no database is configured."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

import asyncpg
import structlog

from catalog.store.cluster import Cluster
from catalog.store.server import PORT, WAIT_SECONDS

_log = structlog.get_logger(__name__)

# What clients see of a server that is being killed, from when it stops to listen on.
_GONE = (
    ConnectionRefusedError,
    ConnectionResetError,
    FileNotFoundError,
    asyncpg.ConnectionDoesNotExistError,
)

# This runs before there is a database with a schema. `format` quotes the name.
_CREATE_DATABASE = """
    SELECT format('CREATE DATABASE %I', $1::text)
     WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = $1::text)
"""


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A running server that the holder uses until `stop`; `dsn` is for asyncpg."""

    dsn: str
    _cluster: Cluster
    _use: IO[bytes]

    async def stop(self) -> None:
        """Give the server up. It stops when its last user of all processes gives it up.

        A second call does nothing.
        """
        await self._cluster.give_up(self._use)

    async def revive(self) -> None:
        """Start the server again if it has ended, unless another user of it just did.

        Raises:
            EmbeddedPostgresError: it does not start.
        """
        if await self._cluster.revive():
            _log.warning("embedded_postgresql_restarted", directory=str(self._cluster.directory))


async def start_embedded(directory: Path, *, database: str = "concord") -> EmbeddedPostgres:
    """Start the server in `directory`, or join the one that runs there already.

    Whatever is missing is made: the directory, the server's data, the database. Processes
    may share a directory. One that is killed leaves the server to those that come after it.
    Root cannot run PostgreSQL: the server then belongs to `postgres` or else to `nobody`,
    and the directories above its own let that account pass through.

    Raises:
        EmbeddedPostgresError: the server does not start, or not within two minutes.
    """
    cluster = Cluster.at(directory)
    while True:
        use, sockets = await cluster.join()
        server = EmbeddedPostgres(_dsn(sockets, database), cluster, use)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await _ensure_database(_dsn(sockets, "postgres"), database)
        except _GONE:
            # It was being killed while we joined it; its socket answered one last time.
            await server.stop()
        except BaseException:
            await server.stop()
            raise
        else:
            return server


def _dsn(sockets: Path, database: str) -> str:
    where = quote(str(sockets), safe="/")
    return f"postgresql://postgres@/{quote(database, safe='')}?host={where}&port={PORT}"


async def _ensure_database(dsn: str, database: str) -> None:
    connection = await _connect(dsn)
    try:
        statement = await connection.fetchval(_CREATE_DATABASE, database)
        if statement is not None:
            # Another process may have been quicker: two errors, depending on how much.
            with suppress(asyncpg.DuplicateDatabaseError, asyncpg.UniqueViolationError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def _connect(dsn: str) -> asyncpg.Connection:
    """Connect, waiting while the server still recovers from a crash."""
    while True:
        try:
            connection: asyncpg.Connection = await asyncpg.connect(dsn)
        except asyncpg.CannotConnectNowError:
            await asyncio.sleep(0.1)  # it is still starting
        else:
            return connection
