"""The file of a backup: a ZIP archive with the rows of each table, and a manifest."""

from __future__ import annotations

import contextlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any
from uuid import UUID

import orjson

from catalog.model.timestamps import format_time, parse_time
from catalog.store.backups import BackedUpCatalog, CatalogContents
from catalog.store.schemamigration import AppliedMigration

_MANIFEST = "manifest.json"
_FORM = "concord backup 2"
_CHUNK = 256 * 1024
_LARGEST_MANIFEST = 1024 * 1024
# A fixed time, since the manifest has the true time.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


class ArchiveUnusable(Exception):
    """A file is not a whole backup; the text gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """The description of a backup: the catalog, and the software that made the backup."""

    catalog: BackedUpCatalog
    software: str


class ArchiveWriter:
    """Writes a backup under a temporary name, and renames the complete file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        self._entry: IO[bytes] | None = None
        self._table = ""

    @contextlib.contextmanager
    def open(self) -> Iterator[Callable[[str, bytes], None]]:
        """Open the file for rows, which the caller gives with their table, table by table.

        Without `finish`, the end of the context deletes the file.
        """
        # For the owner only: the rows have digests of tokens, and entities hidden from clients.
        descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with (
                os.fdopen(descriptor, "wb") as file,
                zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
            ):
                self._archive, self._file = archive, file
                try:
                    yield self._take
                finally:
                    self._end_entry()
        finally:
            self._partial.unlink(missing_ok=True)

    def _take(self, table: str, rows: bytes) -> None:
        if self._entry is None or table != self._table:
            self._end_entry()
            # Entries that are opened by name have the compression of the archive.
            self._entry = self._archive.open(_entry_of(table), "w", force_zip64=True)
            self._table = table
        self._entry.write(rows)

    def _end_entry(self) -> None:
        if self._entry is not None:
            self._entry.close()
            self._entry = None

    def finish(self, manifest: BackupManifest) -> None:
        """Complete the file, sync it to the disk, and give it the final name."""
        self._end_entry()
        self._archive.writestr(zipfile.ZipInfo(_MANIFEST, _NO_TIME), manifest_json(manifest))
        self._archive.close()
        # The rename comes after the sync: a crash leaves no damaged file under the final name.
        self._file.flush()
        os.fsync(self._file.fileno())
        os.replace(self._partial, self._path)


class BackupArchive:
    """A backup that is open for reading; `size` is the number of bytes of all rows."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        self.manifest = self._read_manifest()
        self.size = sum(self._sizes.values()) - self._sizes[_MANIFEST]

    def rows_of(self, table: str) -> Iterator[bytes]:
        """The rows of a table in chunks; the checksum is compared after the last chunk."""
        if _entry_of(table) not in self._sizes:
            return
        with self._archive.open(_entry_of(table)) as entry:
            while chunk := entry.read(_CHUNK):
                yield chunk

    def _read_manifest(self) -> BackupManifest:
        path = self._archive.filename
        if self._sizes.get(_MANIFEST, _LARGEST_MANIFEST + 1) > _LARGEST_MANIFEST:
            raise ArchiveUnusable(f"{path} is not a backup of Concord")
        try:
            data = orjson.loads(self._archive.read(_MANIFEST))
            if data["form"] != _FORM:
                form = str(data["form"])[:100]
                raise ArchiveUnusable(f"{path} has the form {form!r}, not {_FORM!r}")
            return _from_json(data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArchiveUnusable(f"{path} has a manifest that cannot be read") from error


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[BackupArchive]:
    """Open a backup.

    Raises:
        ArchiveUnusable: the file is not a backup, or its end is missing; in the context, rows that
            are read are damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            yield BackupArchive(archive)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise ArchiveUnusable(f"{path} is damaged, or is not a backup: {error}") from error
    except OSError as error:
        raise ArchiveUnusable(f"{path} cannot be read: {error.strerror}") from error


def _entry_of(table: str) -> str:
    return f"{table}.rows"


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
            "migrations": [
                {"number": one.number, "name": one.name, "checksum": one.checksum.hex()}
                for one in catalog.migrations
            ],
            "contents": asdict(catalog.contents),
            "keys": catalog.keys,
            "tables": catalog.tables,
            "sequences": catalog.sequences,
        },
        option=orjson.OPT_INDENT_2,
    )


def _from_json(data: Any) -> BackupManifest:
    contents = {name: int(data["contents"][name]) for name in CatalogContents.__slots__}
    catalog = BackedUpCatalog(
        instance=UUID(data["instance"]),
        authority=str(data["authority"]),
        at=parse_time(data["at"]),
        migrations=[
            AppliedMigration(
                number=int(one["number"]),
                name=str(one["name"]),
                checksum=bytes.fromhex(one["checksum"]),
            )
            for one in data["migrations"]
        ],
        keys={str(id): int(number) for id, number in data["keys"].items()},
        contents=CatalogContents(**contents),
        tables={str(name): [*map(str, columns)] for name, columns in data["tables"].items()},
        sequences={str(name): int(value) for name, value in data["sequences"].items()},
    )
    return BackupManifest(catalog=catalog, software=str(data["software"]))
