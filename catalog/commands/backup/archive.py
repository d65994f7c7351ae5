"""The file of a backup: a ZIP archive with a dump, and a manifest of the content."""

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
# A fixed time, since the manifest has the true time.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


class ArchiveUnusable(Exception):
    """A file is not a whole backup; the text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """The description of a backup: catalog, software, and size and checksum of the dump."""

    catalog: DumpedCatalog
    software: str
    size: int
    sha256: str


class ArchiveWriter:
    """Writes a backup under a temporary name, and renames the complete file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        self._sha256 = hashlib.sha256()
        self.size = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[Callable[[bytes], None]]:
        """Open the file for the dump; without `finish`, the end of the context deletes the file."""
        # For the owner only: the dump has digests of tokens, and entities hidden from clients.
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
        """Complete the file, sync it to the disk, and give it the final name."""
        manifest = BackupManifest(
            catalog=catalog, software=software, size=self.size, sha256=self._sha256.hexdigest()
        )
        self._dump.close()
        self._archive.writestr(zipfile.ZipInfo(_MANIFEST, _NO_TIME), manifest_json(manifest))
        self._archive.close()
        # The rename comes after the sync: a crash leaves no damaged file under the final name.
        self._file.flush()
        os.fsync(self._file.fileno())
        os.replace(self._partial, self._path)


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[tuple[BackupManifest, Callable[[], Iterator[bytes]]]]:
    """Open a backup: the manifest, and a function that reads the dump in chunks.

    Raises:
        ArchiveUnusable: the file is not a backup, or its end is missing.
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
    """The chunks of the dump; the checksum of the manifest is compared after the last chunk.

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
    # Backups are not compressed; a compressed entry could expand without a bound.
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
    """A manifest in the format of the file."""
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
