"""A node refuses a pooler that keeps no sessions of its own, and says what to do."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path

import asyncpg
import pytest

from catalog.model.caller import node_caller
from catalog.model.modelsource import default_model
from catalog.store.connections import DatabaseUnusable
from catalog.store.database import SETTINGS, Database
from catalog.store.embeddedpostgres import start_embedded
from catalog.store.postgresaccount import hand_over, temporary_directory
from catalog.store.postgresprocess import PORT, Server
from tests.postmaster import is_there

POOLER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
EVERY_SETTING = (*SETTINGS, "search_path")


async def start_pooler(source: Server, sockets: Path, mode: str, ignored: tuple[str, ...]) -> str:
    """Start a pooler as the user of its server; return the URL of a database behind it."""
    (sockets / "pooler.ini").write_text(
        f"[databases]\nconcord = host={source.listening_at()} port={PORT} user=postgres\n"
        f"[pgbouncer]\nlisten_port = {PORT}\nunix_socket_dir = {sockets}\nauth_type = any\n"
        f"pidfile = {sockets / 'pid'}\nlogfile = {sockets / 'log'}\n"
        f"pool_mode = {mode}\nignore_startup_parameters = {','.join(ignored)}\n"
    )
    account = source.account
    if account is not None:
        hand_over(sockets, account)
    process = await asyncio.create_subprocess_exec(
        POOLER or "",
        "--daemon",
        str(sockets / "pooler.ini"),
        user=None if account is None else account.user,
        group=None if account is None else account.group,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    async with asyncio.timeout(20):
        while not ((sockets / "pid").exists() and await listens(sockets / f".s.PGSQL.{PORT}")):
            await asyncio.sleep(0.01)  # between two looks
    return f"postgresql://postgres@/concord?host={sockets}&port={PORT}"


async def listens(socket: Path) -> bool:
    """Whether a server takes connections at a socket, which is there a little earlier."""
    try:
        _, writer = await asyncio.open_unix_connection(socket)
    except OSError:
        return False
    writer.close()
    return True


@pytest.mark.skipif(POOLER is None, reason="needs Debian's package pgbouncer")
async def test_a_pooler_that_keeps_no_sessions_is_refused() -> None:
    with temporary_directory("concord-pooler-") as made:
        server = await start_embedded(made / "node")
        source = Server.at(made / "node" / "data")
        try:
            (source.data / "pg_hba.conf").write_text("local all postgres trust\n")
            connection = await asyncpg.connect(server.dsn)
            await connection.execute("SELECT pg_reload_conf()")
            await connection.close()
            for mode, ignored in (
                ("transaction", ()),
                ("transaction", EVERY_SETTING),
                ("session", EVERY_SETTING),
            ):
                sockets = made / f"{mode}{len(ignored)}"
                sockets.mkdir()
                url = await start_pooler(source, sockets, mode, ignored)
                try:
                    with pytest.raises(DatabaseUnusable, match="name PostgreSQL itself"):
                        async with Database.open(
                            url, node_caller(), modelsource=default_model().source
                        ):
                            pass
                finally:
                    await stop_pooler(sockets)
        finally:
            await server.stop()


async def stop_pooler(sockets: Path) -> None:
    process = int((sockets / "pid").read_text())
    os.kill(process, signal.SIGKILL)
    while is_there(process):
        await asyncio.sleep(0.01)  # between two looks
