"""The users that may connect to an embedded server, by their names at the kernel.

The directory of the server's socket is closed to other users already. The map also protects a
server with an opened directory: no password exists to guess or read.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path

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
