"""The directory of an embedded server: only users of the server may enter and use lock files.

A user who could open a lock file could lock it, and no node could start or stop.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from catalog.settings.keyfile import KEY_FILE
from catalog.store.postgresaccount import Account, name_of

_LOCKS = ("start.lock", "users.lock")
_PRIVATE = 0o700
# Root owns the directory, and the server's account passes through it as its group.
_PASSABLE = 0o710


class DirectoryUnusable(Exception):
    """The directory is not the node's own; the text gives the remedy."""


def make_private(directory: Path, account: Account | None) -> None:
    """Create the directory, or close an open directory to other users.

    A directory with contents other than a server's keeps its mode.

    Raises:
        DirectoryUnusable: the directory belongs to another user, or other users may write there.
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
                raise DirectoryUnusable(
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
        raise DirectoryUnusable(f"cannot use {directory}: {error.strerror}") from error


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
        DirectoryUnusable: the file belongs to another user.
    """
    # O_NOFOLLOW: through a link, the node would change the mode of a file elsewhere.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.fdopen(os.open(path, flags, 0o600), "ab")
    except PermissionError as error:
        raise DirectoryUnusable(f"{path} belongs to another user") from error
    except OSError as error:
        raise DirectoryUnusable(f"cannot open {path}: {error.strerror}") from error
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
    raise DirectoryUnusable(
        f"{path} belongs to the user {name_of(found.st_uid)}: run the node as that user, choose "
        f"another directory with CONCORD_DATA_DIR, or run `chown -R {name_of(own)} {path}` first"
    )
