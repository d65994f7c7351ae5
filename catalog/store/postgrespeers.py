"""The users that may connect to an embedded server, by what the kernel names them.

The directory of its socket is closed to everybody else already. This holds also where somebody has
opened it: no password exists that could be guessed or read.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path

_HEAD = "# Written by Concord whenever it starts this server.\n"
_MAP = "node"
# Everything that no line names is refused (PostgreSQL, "The pg_hba.conf File").
_CONNECTIONS = f"""{_HEAD}
# TYPE  DATABASE              USER      METHOD
local   all,replication       postgres  peer  map={_MAP}
"""


def admit_peers(data: Path) -> None:
    """Let root and the owner of a server's data connect to it by its socket, and nobody else.

    A server that runs reads it when it starts again.
    """
    owner = data.stat()
    _write(data / "pg_hba.conf", _CONNECTIONS, owner)
    _write(data / "pg_ident.conf", _names(owner.st_uid), owner)


def _names(owner: int) -> str:
    """The map of the users of the machine to that of the server, by their names."""
    lines = [_HEAD, "# MAP  SYSTEM-USERNAME  POSTGRES-USERNAME"]
    for user in dict.fromkeys((0, owner)):
        # An account of the node's own may have no name; root connects in its place.
        with suppress(KeyError):
            lines.append(f'{_MAP}  "{pwd.getpwuid(user).pw_name}"  postgres')
    return "\n".join([*lines, ""])


def _write(path: Path, text: str, owner: os.stat_result) -> None:
    """Replace a file of the server as a whole, unless it has this text."""
    with suppress(OSError):
        if not path.is_symlink() and path.read_text() == text:
            return
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
