"""Starts and stops the processes of an embedded PostgreSQL server on a data directory.

The server knows its users by their names at the kernel. The directory of its socket is closed to
other users, and the map of users protects a server with an opened directory, too: no password
exists to guess or read.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import pwd
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import structlog

from catalog.settings.keyfile import sync_directory
from catalog.settings.settings import SYSTEM_DATA_DIR
from catalog.store.connections import EmbeddedPostgresError
from catalog.store.postgresaccount import Account, account_of, executables_for, hand_over

_HEAD = "# Written by Concord whenever it starts this server.\n"
_MAP = "node"
# PostgreSQL refuses every connection without a matching line ("The pg_hba.conf File").
_CONNECTIONS = f"""{_HEAD}
# TYPE  DATABASE              USER      METHOD
local   all,replication       postgres  peer  map={_MAP}
"""


def admit_peers(data: Path) -> None:
    """Let only root and the owner of a server's data connect to the server by its socket.

    A running server reads the files at its next start.
    """
    owner = data.stat()
    _write(data / "pg_hba.conf", _CONNECTIONS, owner)
    _write(data / "pg_ident.conf", _names(owner.st_uid), owner)


def _names(owner: int) -> str:
    """The map of the machine's users to the server's user, by their names."""
    lines = [_HEAD, "# MAP  SYSTEM-USERNAME  POSTGRES-USERNAME"]
    for user in dict.fromkeys((0, owner)):
        # The node's own account may have no name; root connects in its place.
        with suppress(KeyError):
            lines.append(f'{_MAP}  "{pwd.getpwuid(user).pw_name}"  postgres')
    return "\n".join([*lines, ""])


def _write(path: Path, text: str, owner: os.stat_result) -> None:
    """Replace a file of the server as a whole, unless the file has the text already."""
    with suppress(OSError):
        if not path.is_symlink() and path.read_text() == text:
            return
    # Root writes into a directory of the server's account, which may have placed a link there.
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(new, flags, 0o600), "w") as file:
        if os.geteuid() != owner.st_uid:
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


_log = structlog.get_logger(__name__)

PORT = "5432"
_SOCKET = f".s.PGSQL.{PORT}"
_SOCKET_PATH_BYTES = 103  # macOS has the shortest: 104 with the closing zero; Linux has 108.
WAIT_SECONDS = 120
_ORPHAN_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_NO_PROCESS = 2**31 - 1  # Above every kernel's largest process id.
# A server that answers may take this long to end, since it first writes a checkpoint.
_CHECKPOINT_SECONDS = 15
_SHORT_SECONDS = 1
_LOOK_SECONDS = 0.02
# Every server answers the request with a byte, before authentication and even during recovery.
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)

# Durability settings keep PostgreSQL's defaults. Failed statements are not logged: the caller gets
# the error, and a statement may hold a secret.
_OPTIONS = (
    "max_connections=200",
    "log_checkpoints=off",
    "log_min_messages=log",
    "unix_socket_permissions=0700",
)


@dataclass(frozen=True, slots=True)
class Server:
    """A server by the data directory. A single caller at a time may start or stop the server.

    `account` is the account of the server's processes, `None` for the caller's account.
    """

    data: Path
    executables: Path
    account: Account | None

    @classmethod
    def at(cls, data: Path) -> Server:
        account = account_of(data)
        return cls(data, executables_for(account), account)

    def listening_at(self) -> Path | None:
        """The directory of the socket on which the server listens; `None` if it does not run."""
        lines = self._lock_file()
        if len(lines) < 5 or lines[1] != str(self.data):  # The file may be from a copied directory.
            return None
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            try:
                probe.connect(f"{lines[4]}/{_SOCKET}")
            except OSError:
                return None
        return Path(lines[4])

    def is_alive(self) -> bool:
        """Whether the server runs, even if it does not answer."""
        return any(map(self._is_server, self._lock_file()[:1])) or self.listening_at() is not None

    async def start(self) -> Path:
        """Start the server, creating missing data; return the directory of the socket.

        Raises:
            EmbeddedPostgresError: the server does not start, or not within two minutes.
        """
        self._check_way()
        if not self.data.exists():
            await self._create()
        admit_peers(self.data)
        sockets = self._socket_directory()
        self._disown_process_id(sockets)
        settings = " ".join(f"-c {option}" for option in _OPTIONS)
        options = f"-h '' -p {PORT} -k {shlex.quote(str(sockets))} {settings}"
        log = str(self.data / "server.log")
        await self._wait_for_orphans(lambda: self._control("start", "-l", log, "-o", options))
        return sockets

    async def stop(self) -> None:
        """Stop the server: with a checkpoint if it answers; else it recovers at the next start."""
        lines = self._lock_file()
        sockets = self._socket_directory()
        fast = [("fast", _CHECKPOINT_SECONDS)] if await self._answers() else []
        modes = [*fast, ("immediate", _SHORT_SECONDS)]
        for mode, seconds in modes:
            with suppress(EmbeddedPostgresError):
                await self._control("stop", "-m", mode, seconds=seconds)
                break
        else:
            await self._kill(*lines[:1])
        if sockets != self.data:
            with suppress(OSError):
                sockets.rmdir()

    async def _answers(self) -> bool:
        """Whether the server answers a client; a hanging server does not."""
        sockets = self.listening_at()
        if sockets is None:
            return False
        with suppress(OSError):  # which includes TimeoutError
            async with asyncio.timeout(_SHORT_SECONDS):
                reader, writer = await asyncio.open_unix_connection(f"{sockets}/{_SOCKET}")
                try:
                    writer.write(_SSL_REQUEST)
                    return bool(await reader.read(1))
                finally:
                    writer.close()
        return False

    async def _kill(self, process: str = "") -> None:
        """Kill a server that does not stop, and the children that would outlive the server."""
        if not self._is_server(process):
            return
        _log.warning("embedded_postgresql_killed", directory=str(self.data.parent))
        for one in (process, *_children(process)):
            with suppress(ProcessLookupError):
                os.kill(int(one), signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(_SHORT_SECONDS):
                await until(lambda: not self._is_server(process))

    def _lock_file(self) -> list[str]:
        with suppress(FileNotFoundError):
            return (self.data / "postmaster.pid").read_text().splitlines()
        return []

    async def _create(self) -> None:
        """Create the server's data under a temporary name, and rename the complete data."""
        new = self.data.with_name("data.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        creator = None
        if self.account is not None:
            creator = self.account.creator
            hand_over(new, replace(self.account, user=creator))
        await self._run(
            "initdb",
            *("--pgdata", str(new), "--username", "postgres", "--encoding", "UTF8"),
            *("--no-locale", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
            *("--auth-local", "peer", "--auth-host", "reject", "--no-instructions"),
            cwd=new,
            user=creator,
        )
        if self.account is not None:
            hand_over(new, self.account)
        new.rename(self.data)
        # Without the sync, a crash of the machine could lose the rename, and the data with it.
        sync_directory(self.data.parent)

    async def _wait_for_orphans(self, start: Callable[[], Awaitable[None]]) -> None:
        """Retry `start` while children of a killed server still run."""
        for pause in _ORPHAN_PAUSES:
            try:
                return await start()
            except EmbeddedPostgresError as error:
                if "still in use" not in str(error):
                    raise
                await asyncio.sleep(pause)
        return await start()

    def _disown_process_id(self, sockets: Path) -> None:
        """Let PostgreSQL start if the process id in its lock files is no longer the server's.

        PostgreSQL refuses to start while a process with the id exists. In a container, the process
        may be another program after a restart, or a zombie. The rest of the lock file is kept,
        since it prevents PostgreSQL from starting beside live children of a killed server.
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
        """The data directory, or a short directory in /tmp if the path is not usable for a socket.

        Only the server's account may enter either directory.
        """
        path = str(self.data / _SOCKET)
        if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES and "," not in path:
            return self.data
        name = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        short = Path("/tmp") / f"concord-{name}"
        with suppress(FileExistsError):
            short.mkdir(mode=0o700)
            if self.account is not None:
                hand_over(short, self.account)
        # Every user may create names in /tmp, so the directory may be another user's, or a link.
        found = short.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != self.data.stat().st_uid:
            raise EmbeddedPostgresError(f"{short} exists and belongs to another user")
        return short

    def _check_way(self) -> None:
        """Refuse data below a directory that the server's account cannot enter."""
        if self.account is None or self.account.can_enter(self.data.parent):
            return
        above = reversed(self.data.parents)
        closed = next(each for each in above if not self.account.can_enter(each))
        raise EmbeddedPostgresError(
            f"root runs it under the account {self.account.name}, which cannot enter {closed}: "
            f"choose a directory that every account can reach, such as {SYSTEM_DATA_DIR}, with "
            "CONCORD_DATA_DIR, or run the node as another user than root"
        )

    async def _control(self, action: str, *options: str, seconds: int = WAIT_SECONDS) -> None:
        arguments = ("-D", str(self.data), "-w", "-t", str(seconds), *options)
        await self._run("pg_ctl", action, *arguments, cwd=self.data, seconds=seconds)

    async def _run(
        self,
        program: str,
        *arguments: str,
        cwd: Path,
        seconds: int = WAIT_SECONDS,
        user: int | None = None,
    ) -> None:
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            try:
                process = self._begin(program, arguments, cwd, output, user)
                async with asyncio.timeout(seconds + 10):
                    status = await _ended(process)
            except (OSError, subprocess.SubprocessError) as error:
                raise EmbeddedPostgresError(f"{program}: {error or 'it takes too long'}") from error
            if status != 0:
                output.seek(0)
                raise EmbeddedPostgresError(self._explain(program, output.read()))

    def _begin(
        self,
        program: str,
        arguments: tuple[str, ...],
        cwd: Path,
        output: IO[str],
        user: int | None,
    ) -> subprocess.Popen[bytes]:
        group = None
        if self.account is not None:
            user, group = user if user is not None else self.account.user, self.account.group
        # Variables such as PGPORT or PGOPTIONS of the node's environment are not meant for this
        # server.
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_"))}
        # The empty list of groups drops the supplementary groups of root.
        return subprocess.Popen(
            [str(self.executables / program), *arguments],
            cwd=cwd,
            env={**environment, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )

    def _explain(self, program: str, output: str) -> str:
        """The last lines of the server's log, or else of the program's output."""
        with suppress(OSError):
            output = (self.data / "server.log").read_text(errors="replace") or output
        return f"{program} failed: " + " / ".join(output.strip().splitlines()[-4:])


async def _ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process and return its status; kill the process if the task is cancelled."""
    try:
        await until(lambda: process.poll() is not None)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process.wait()


async def until(condition: Callable[[], bool]) -> None:
    """Poll a condition until it is true."""
    while True:
        if condition():
            return
        await asyncio.sleep(_LOOK_SECONDS)


def _children(process: str) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return []
