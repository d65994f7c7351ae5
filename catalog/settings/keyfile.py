"""The file with the encryption keys of a node, readable only by the user of the node."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from catalog.keys.keyring import EncryptionKey, KeyRing, parse_keys
from catalog.settings.settings import Settings

KEY_FILE = "encryption.key"
_LARGEST = 64 * 1024
_TITLE = (
    "# The keys that encrypt the secrets in this node's database; the first one is in use.\n"
    "# Keep a copy where the backups of the database are not.\n"
)

_Signature = tuple[int, int, int]


class KeysUnusable(Exception):
    """The keys of a node cannot be read or made; the text names the remedy."""


def key_ring(settings: Settings) -> KeyRing:
    """The keys in the setting, or else the keys of the file in the data directory."""
    keys = settings.encryption_keys
    return KeyRing((lambda: keys) if keys else KeyFile.of(settings).read)


class KeyFile:
    """A file with a key per line; the encrypting key comes first.

    The first reader makes the file. Writes replace only the whole file, so that a crash leaves
    either the old keys or the new keys. Processes that make the file concurrently get the same key.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keys: tuple[EncryptionKey, ...] = ()
        self._signature: _Signature | None = None

    @classmethod
    def of(cls, settings: Settings) -> KeyFile:
        """The file in the data directory of a node."""
        return cls(settings.data_dir.expanduser().resolve() / KEY_FILE)

    def read(self) -> tuple[EncryptionKey, ...]:
        """The keys; a changed file is read again, and a missing file is made at the first read.

        Raises:
            KeysUnusable
        """
        try:
            # Later reads make no file: a file that vanished held the keys of the stored secrets.
            if self._signature is None:
                self._make()
            found = os.stat(self.path, follow_symlinks=False)
            if _signature_of(found) != self._signature:
                self._keys, self._signature = self._load()
        except FileNotFoundError:
            raise KeysUnusable(
                f"{self.path} is gone: put it back from a copy, since the secrets in the database "
                "are encrypted with its keys"
            ) from None
        except OSError as error:
            raise KeysUnusable(
                f"cannot use {self.path}: {error.strerror}. Set CONCORD_DATA_DIR to a directory "
                "that the node may write to, or CONCORD_ENCRYPTION_KEY to a key "
                "(`concord encryption key` prints one)"
            ) from error
        return self._keys

    def replace(self, keys: Sequence[EncryptionKey]) -> None:
        """Replace the keys in one step.

        Raises:
            KeysUnusable
        """
        try:
            new = self._written(keys)
            os.replace(new, self.path)
            # Secrets are encrypted with a new key at once.
            sync_directory(self.path.parent)
        except OSError as error:
            raise KeysUnusable(f"cannot write {self.path}: {error.strerror}") from error

    def _make(self) -> None:
        """Make the file with a new key, unless the file exists."""
        if os.path.lexists(self.path):
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._written([EncryptionKey.new()])
        try:
            # Unlike a rename, a link does not replace the file of a concurrent process.
            with contextlib.suppress(FileExistsError):
                os.link(new, self.path)
        finally:
            new.unlink()
        sync_directory(self.path.parent)

    def _written(self, keys: Sequence[EncryptionKey]) -> Path:
        """Write a new file with keys, beside the file in use."""
        path = self.path.with_name(f"{KEY_FILE}.{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "w") as file:
            file.write(_TITLE + "".join(f"{key.text}\n" for key in keys))
            file.flush()
            os.fsync(file.fileno())
        return path

    def _load(self) -> tuple[tuple[EncryptionKey, ...], _Signature]:
        with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)) as file:
            # Of the open file, since the path may lead to a different file by now.
            found = os.fstat(file.fileno())
            self._check_closed_to_others(found)
            text = file.read(_LARGEST)
        lines = [line.strip() for line in text.splitlines()]
        try:
            keys = parse_keys([line for line in lines if line and not line.startswith("#")])
        except ValueError as error:
            raise KeysUnusable(f"{self.path} does not hold keys: {error}") from None
        return keys, _signature_of(found)

    def _check_closed_to_others(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise KeysUnusable(f"{self.path} is not a file")
        if found.st_uid != os.geteuid():
            raise KeysUnusable(
                f"{self.path} belongs to the user {name_of(found.st_uid)}: run as that user"
            )
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeysUnusable(
                f"other users may read {self.path}: run `chmod 600 {self.path}`, and then "
                "`concord encryption rotate`, since its keys may be known"
            )


def _signature_of(found: os.stat_result) -> _Signature:
    # A change of the mode moves the time of change, too, and has to be checked anew.
    return found.st_ino, found.st_ctime_ns, found.st_size


def sync_directory(directory: Path) -> None:
    """Make the new and renamed files of a directory durable, so that no crash loses them."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def name_of(user: int) -> str:
    """The name of a user, or the number of a user without a name."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
