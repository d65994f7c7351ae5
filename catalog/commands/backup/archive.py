"""The file of a backup: a ZIP archive of a dump, and of a manifest that says what is in it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from catalog.model.timestamps import format_time, parse_time
from catalog.store.backups import CatalogContents, DumpedCatalog
from catalog.store.schemamigration import AppliedMigration

_DUMP, _MANIFEST = "database.dump", "manifest.json"
_FORM = "concord backup 1"
_CHUNK = 256 * 1024
_LARGEST_MANIFEST = 1024 * 1024
# A fixed time, since the manifest has the true one.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


class ArchiveUnusable(Exception):
    """A file is not a whole backup; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """The description of a backup: its catalog, the software that made it, and its checksum."""

    catalog: DumpedCatalog
    software: str
    size: int
    sha256: str


class ArchiveWriter:
    """A file that is written under another name, and gets its own once it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        self._sha256 = hashlib.sha256()
        self.size = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[Callable[[bytes], None]]:
        """Write the dump within the context, then `finish`; what is left unfinished is deleted."""
        # It has what others must not read: digests of tokens, and what clients may not see.
        descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w") as archive:
                self._archive, self._file = archive, file
                with archive.open(zipfile.ZipInfo(_DUMP, _NO_TIME), "w", force_zip64=True) as dump:
                    self._dump = dump
                    yield self._take
        finally:
            self._partial.unlink(missing_ok=True)

    def _take(self, chunk: bytes) -> None:
        self._dump.write(chunk)
        self._sha256.update(chunk)
        self.size += len(chunk)

    def finish(self, catalog: DumpedCatalog, software: str) -> None:
        """Complete the file, which is durable then, and has its name."""
        manifest = BackupManifest(
            catalog=catalog, software=software, size=self.size, sha256=self._sha256.hexdigest()
        )
        self._dump.close()
        self._archive.writestr(zipfile.ZipInfo(_MANIFEST, _NO_TIME), manifest_json(manifest))
        self._archive.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        os.replace(self._partial, self._path)


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[tuple[BackupManifest, Callable[[], Iterator[bytes]]]]:
    """Open a backup: its manifest, and the function that reads its dump in parts.

    Raises:
        ArchiveUnusable: it is not one, or its end is missing.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [entry.filename for entry in archive.infolist()]
            if sorted(names) != [_DUMP, _MANIFEST]:
                raise ArchiveUnusable(f"{path} is not a backup of Concord")
            manifest = _read_manifest(archive, path)
            yield manifest, lambda: _chunks(archive, manifest)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise ArchiveUnusable(f"{path} is damaged, or is not a backup: {error}") from error
    except OSError as error:
        raise ArchiveUnusable(f"{path} cannot be read: {error.strerror}") from error


def _chunks(archive: zipfile.ZipFile, manifest: BackupManifest) -> Iterator[bytes]:
    """The parts of the dump; after the last one it is known whether they are those of the manifest.

    Raises:
        ArchiveUnusable
    """
    seen = hashlib.sha256()
    with archive.open(_DUMP) as dump:
        while chunk := dump.read(_CHUNK):
            seen.update(chunk)
            yield chunk
    if seen.hexdigest() != manifest.sha256:
        raise ArchiveUnusable(f"{archive.filename} is damaged: its dump has another checksum")


def _read_manifest(archive: zipfile.ZipFile, path: Path) -> BackupManifest:
    entries = (archive.getinfo(_DUMP), archive.getinfo(_MANIFEST))
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ArchiveUnusable(f"{path} is not a backup of Concord")
    if entries[1].file_size > _LARGEST_MANIFEST:
        raise ArchiveUnusable(f"{path} has a manifest of more than {_LARGEST_MANIFEST:,} bytes")
    try:
        data = orjson.loads(archive.read(_MANIFEST))
        if data["form"] != _FORM:
            raise ArchiveUnusable(f"{path} has the form {str(data['form'])[:100]!r}, not {_FORM!r}")
        return _from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArchiveUnusable(f"{path} has a manifest that cannot be read") from error


def manifest_json(manifest: BackupManifest) -> bytes:
    """A manifest as it is in the file."""
    catalog = manifest.catalog
    return orjson.dumps(
        {
            "form": _FORM,
            "software": manifest.software,
            "authority": catalog.authority,
            "instance": str(catalog.instance),
            "at": format_time(catalog.at),
            "postgresql": catalog.server,
            "migrations": [
                {"number": one.number, "name": one.name, "checksum": one.checksum.hex()}
                for one in catalog.migrations
            ],
            "contents": asdict(catalog.contents),
            "keys": catalog.keys,
            "dump": {"size": manifest.size, "sha256": manifest.sha256},
        },
        option=orjson.OPT_INDENT_2,
    )


def _from_json(data: Any) -> BackupManifest:
    contents = {name: int(data["contents"][name]) for name in CatalogContents.__slots__}
    catalog = DumpedCatalog(
        instance=UUID(data["instance"]),
        authority=str(data["authority"]),
        server=int(data["postgresql"]),
        at=parse_time(data["at"]),
        migrations=tuple(
            AppliedMigration(
                number=int(one["number"]),
                name=str(one["name"]),
                checksum=bytes.fromhex(one["checksum"]),
            )
            for one in data["migrations"]
        ),
        keys={str(id): int(number) for id, number in data["keys"].items()},
        contents=CatalogContents(**contents),
    )
    dump = data["dump"]
    return BackupManifest(
        catalog=catalog,
        software=str(data["software"]),
        size=int(dump["size"]),
        sha256=str(dump["sha256"]),
    )
