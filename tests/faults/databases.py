"""The PostgreSQL server of a run, with a database for each node: killed, backed up and restored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from catalog.store.changes import Retention, drop_oldest
from catalog.store.embeddedpostgres import EmbeddedPostgres, start_embedded
from catalog.store.postgresaccount import executables
from catalog.store.schemamigration import migrate
from tests.conftest import forget_durability
from tests.faults.evidence import LogRow
from tests.postmaster import kill_server

_TEMPLATE = "template_of_nodes"
_LOG = """
    SELECT txid, seq, xid, kind, action, authority, origin, epoch, encode(digest, 'hex') AS digest
    FROM changes ORDER BY txid, seq
"""
_HELD = timedelta(days=1)
_IS_READABLE = """
    SELECT coalesce(max(txid), 0) < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
    FROM changes
"""
# The newest change always stays, and what subscribers have yet to receive.
_LEAST = Retention(age=timedelta(0), count=1, held_age=_HELD, held_count=1_000_000)


@dataclass(slots=True)
class RunDatabases:
    """A server that its tests alone use. `lock` is held while it is away or a database is."""

    directory: Path
    server: EmbeddedPostgres
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    @contextlib.asynccontextmanager
    async def start(cls, directory: Path) -> AsyncIterator[RunDatabases]:
        server = await start_embedded(directory)
        try:
            # What is killed is PostgreSQL, not the machine.
            await forget_durability(server.dsn)
            databases = cls(directory, server)
            await databases._execute(f"CREATE DATABASE {_TEMPLATE}")
            async with databases.connect(_TEMPLATE) as connection:
                await migrate(connection)
            yield databases
        finally:
            await server.stop()

    def url(self, name: str) -> str:
        return urlsplit(self.server.dsn)._replace(path=f"/{name}").geturl()

    @contextlib.asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(self.url(name))
        try:
            yield connection
        finally:
            await connection.close()

    async def create(self, name: str) -> str:
        """Create a database with the newest schema and nothing in it; return its URL."""
        await self._execute(f'CREATE DATABASE "{name}" TEMPLATE {_TEMPLATE}')
        return self.url(name)

    async def drop(self, name: str) -> None:
        await self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    async def kill(self, seconds: float) -> None:
        """kill -9 the server, and start it again after some time."""
        async with self.lock:
            kill_server(self.directory)
            await asyncio.sleep(seconds)
            await self.server.revive()

    async def read_log(self, name: str) -> list[LogRow]:
        async with self.connect(name) as connection:
            return [LogRow(**row) for row in await connection.fetch(_LOG)]

    async def is_readable(self, name: str) -> bool:
        """Whether followers see the whole log: an older transaction of any database hides it."""
        async with self.connect(name) as connection:
            return bool(await connection.fetchval(_IS_READABLE))

    async def has_cursor(self, name: str, link: str) -> bool:
        """Whether a link of a node has copied, and knows how far."""
        query = "SELECT cursor IS NOT NULL FROM links WHERE id = $1"
        async with self.connect(name) as connection:
            return bool(await connection.fetchval(query, link))

    async def cut_log(self, name: str) -> list[LogRow]:
        """Drop all of a node's log that retention may ever drop; return what was there."""
        async with self.connect(name) as connection, connection.transaction():
            await connection.execute("LOCK TABLE changes IN SHARE ROW EXCLUSIVE MODE")
            rows = [LogRow(**row) for row in await connection.fetch(_LOG)]
            await drop_oldest(connection, _LEAST, limit=len(rows) + 1)
        return rows

    async def back_up(self, name: str, file: Path) -> None:
        """Dump a database while its node works, as operators do."""
        await _run("pg_dump", "--format=custom", f"--file={file}", self.url(name))

    async def restore(self, name: str, file: Path) -> None:
        """Replace a database by a dump of it; its node must not run."""
        await self.drop(name)
        await self._execute(f'CREATE DATABASE "{name}"')
        # A kill of the server takes the last commits of clients that do not ask for durable ones.
        durable = f"{self.url(name)}&options=-csynchronous_commit%3Don"
        await _run("pg_restore", "--exit-on-error", f"--dbname={durable}", str(file))

    async def _execute(self, statement: str) -> None:
        async with self.connect("postgres") as connection:
            await connection.execute(statement)


async def _run(program: str, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        executables() / program, *arguments, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode == 0, f"{program}: {said.decode()}"
