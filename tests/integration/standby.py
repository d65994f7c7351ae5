"""Two PostgreSQL servers of a test: a primary, and a standby that takes over when it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from catalog.store.embeddedpostgres import EmbeddedPostgres, start_embedded
from catalog.store.postgresaccount import hand_over
from catalog.store.postgresprocess import PORT, Server
from tests.postmaster import kill_server, send_to_server

# The embedded server admits users by their names, and its own account may have none.
_TRUST = "local all,replication postgres trust\n"


@dataclass(slots=True)
class ServerPair:
    """A primary in the directory `one`, and its standby in `two`, both on sockets."""

    directory: Path
    primary: EmbeddedPostgres
    standby: Server
    standby_socket: Path

    @property
    def dsn(self) -> str:
        """The URL that names both servers."""
        primary = Server.at(self.directory / "one" / "data").listening_at()
        hosts = f"{primary},{self.standby_socket}"
        return f"postgresql://postgres@/concord?host={hosts}&port={PORT},{PORT}"

    async def wait_for_standby(self) -> None:
        """Let each commit wait from now on until the standby has stored it."""
        await self.execute("ALTER SYSTEM SET synchronous_standby_names = 'two'")
        await self.execute("SELECT pg_reload_conf()")
        await self._wait_for("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")

    async def wait_until_equal(self) -> None:
        """Wait until the standby has stored all that the primary has written."""
        await self._wait_for(
            "SELECT FROM pg_stat_replication WHERE flush_lsn >= pg_current_wal_flush_lsn()"
        )

    async def _wait_for(self, row: str) -> None:
        async with asyncio.timeout(20):
            while not await self.execute(row):
                await asyncio.sleep(0.02)  # between two looks

    async def execute(self, statement: str) -> list[asyncpg.Record]:
        """Execute a statement at the primary."""
        connection = await asyncpg.connect(self.primary.dsn)
        try:
            return list(await connection.fetch(statement))
        finally:
            await connection.close()

    def kill_primary(self) -> None:
        kill_server(self.directory / "one")

    def freeze_primary(self) -> None:
        """Let it hang with all its connections."""
        send_to_server(self.directory / "one", signal.SIGSTOP)

    async def promote(self) -> None:
        """Let the standby take writes."""
        await _run(self.standby, "pg_ctl", "promote", "-D", str(self.standby.data), "-w")


@contextlib.asynccontextmanager
async def server_pair(directory: Path) -> AsyncIterator[ServerPair]:
    """Start a primary with an empty database `concord`, and its standby, which ends with it."""
    primary = await start_embedded(directory / "one")
    data = directory / "two" / "data"
    try:
        (directory / "one" / "data" / "pg_hba.conf").write_text(_TRUST)
        connection = await asyncpg.connect(primary.dsn)
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()
        source = Server.at(directory / "one" / "data")
        data.parent.mkdir()
        if source.account is not None:
            hand_over(data.parent, source.account)
        origin = f"host={source.listening_at()} port={PORT} user=postgres application_name=two"
        options = ("-D", str(data), "-R", "-X", "stream", "-c", "fast")
        await _run(source, "pg_basebackup", "-d", origin, *options)
        standby = Server.at(data)
        try:
            yield ServerPair(directory, primary, standby, await standby.start())
        finally:
            await standby.stop()
    finally:
        await primary.stop()


async def _run(server: Server, program: str, *arguments: str) -> None:
    account = server.account
    process = await asyncio.create_subprocess_exec(
        server.executables / program,
        *arguments,
        cwd=server.data,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        user=None if account is None else account.user,
        group=None if account is None else account.group,
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
