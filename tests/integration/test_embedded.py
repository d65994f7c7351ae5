"""The embedded PostgreSQL survives its users, and is shared by them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import structlog

from catalog.store.connections import EmbeddedPostgresError
from catalog.store.embeddedpostgres import start_embedded
from tests.postmaster import is_there, kill_server, postmaster_of, send_to_server

ROOT = Path(__file__).parents[2]
USER = """
import asyncio, sys
from pathlib import Path
from catalog.store.embeddedpostgres import start_embedded

async def use():
    await start_embedded(Path(sys.argv[1]))
    print("started", flush=True)
    await asyncio.Event().wait()

asyncio.run(use())
"""


def _is_running(directory: Path) -> bool:
    return (directory / "data" / "postmaster.pid").exists()


async def _value(dsn: str, statement: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def _until_started(output: asyncio.StreamReader) -> AsyncIterator[bytes]:
    async for line in output:
        yield line
        if line == b"started\n":
            return


async def _killed_user(directory: Path) -> None:
    """Start the server from another process, and kill that process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", USER, str(directory), stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert b"started\n" in [line async for line in _until_started(process.stdout)]
    process.kill()
    await process.wait()


async def test_what_was_written_is_there_after_a_stop_and_a_start(tmp_path: Path) -> None:
    server = await start_embedded(tmp_path)
    await _value(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    await server.stop()
    assert not _is_running(tmp_path)
    server = await start_embedded(tmp_path)
    try:
        assert await _value(server.dsn, "SELECT answer FROM kept") == 42
    finally:
        await server.stop()


async def test_a_commit_is_durable(tmp_path: Path) -> None:
    server = await start_embedded(tmp_path)
    try:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert await _value(server.dsn, f"SHOW {setting}") == "on"
    finally:
        await server.stop()


async def test_users_share_the_server_and_the_last_one_stops_it(tmp_path: Path) -> None:
    first, second = await asyncio.gather(
        start_embedded(tmp_path, database="one"), start_embedded(tmp_path, database="two")
    )
    await first.stop()
    await first.stop()
    assert await _value(second.dsn, "SELECT current_database()") == "two"
    await second.stop()
    assert not _is_running(tmp_path)


async def test_a_killed_user_neither_stops_the_server_nor_keeps_it(tmp_path: Path) -> None:
    await _killed_user(tmp_path)
    assert _is_running(tmp_path)
    server = await start_embedded(tmp_path)
    assert await _value(server.dsn, "SELECT 1") == 1
    await server.stop()
    assert not _is_running(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_the_server_starts_where_its_old_process_id_is_anothers(tmp_path: Path) -> None:
    await _killed_user(tmp_path)
    pid_file = tmp_path / "data" / "postmaster.pid"
    pid, _, rest = pid_file.read_text().partition("\n")
    os.kill(int(pid), signal.SIGKILL)
    pid_file.write_text(f"{os.getpid()}\n{rest}")
    server = await start_embedded(tmp_path)
    try:
        assert await _value(server.dsn, "SELECT 1") == 1
    finally:
        await server.stop()


async def test_a_server_that_dies_while_it_is_joined_is_started_again(tmp_path: Path) -> None:
    server = await start_embedded(tmp_path)
    await server.stop()
    data = tmp_path / "data"
    dying = await _dying_server(data / ".s.PGSQL.5432")
    (data / "postmaster.pid").write_text(f"1\n{data}\n0\n5432\n{data}\n")
    server = await start_embedded(tmp_path)
    try:
        assert not dying.is_serving()
        assert await _value(server.dsn, "SELECT 1") == 1
    finally:
        await server.stop()


async def _dying_server(path: Path) -> asyncio.Server:
    """One that is gone as soon as somebody says a word to it."""

    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(1):
            server.close()
            os.unlink(path)
        writer.close()

    server = await asyncio.start_unix_server(die, path)
    return server


async def test_a_path_may_be_too_long_for_a_socket_and_hold_any_character(tmp_path: Path) -> None:
    directory = tmp_path / "it's, a" / ("long" * 25)
    server = await start_embedded(directory)
    try:
        assert await _value(server.dsn, "SELECT 1") == 1
    finally:
        await server.stop()


async def test_of_several_users_one_starts_a_killed_server_again(tmp_path: Path) -> None:
    users = [await start_embedded(tmp_path) for _ in range(3)]
    try:
        kill_server(tmp_path)
        with structlog.testing.capture_logs() as logs:
            await asyncio.gather(*(user.revive() for user in users))
        assert [entry["event"] for entry in logs] == ["embedded_postgresql_restarted"]
        assert await _value(users[0].dsn, "SELECT 1") == 1
    finally:
        await asyncio.gather(*(user.stop() for user in users))
    assert not _is_running(tmp_path)


async def test_a_server_that_hangs_is_stopped_in_bounded_time(tmp_path: Path) -> None:
    server = await start_embedded(tmp_path)
    process = postmaster_of(tmp_path)
    send_to_server(tmp_path, signal.SIGSTOP)
    async with asyncio.timeout(10):
        await server.stop()
    assert not is_there(process)
    server = await start_embedded(tmp_path)
    assert await _value(server.dsn, "SELECT 1") == 1
    await server.stop()


async def test_a_start_that_is_given_up_leaves_no_server(tmp_path: Path) -> None:
    server = await start_embedded(tmp_path)
    await server.stop()
    starting = asyncio.create_task(start_embedded(tmp_path))
    log = tmp_path / "data" / "server.log"
    before = log.read_text()
    while log.read_text() == before:
        await asyncio.sleep(0.001)  # between two looks
    starting.cancel()
    await asyncio.wait([starting])
    assert not _is_running(tmp_path)


async def test_an_error_says_what_to_do(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    with pytest.raises(EmbeddedPostgresError, match="Set CONCORD_DATABASE_URL"):
        await start_embedded(in_the_way)
