"""The account of an embedded server whose node is root, since PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

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


def name_of(user: int) -> str:
    """The name of a user, or the number of a user without a name."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def hand_over(path: Path, account: Account) -> None:
    """Give a directory with its contents to an account, the directory itself last.

    A symbolic link is given, and not the target of the link.
    """
    for directory, links, files in os.walk(path, topdown=False):
        for name in (*links, *files):
            os.lchown(os.path.join(directory, name), account.user, account.group)
        os.lchown(directory, account.user, account.group)
