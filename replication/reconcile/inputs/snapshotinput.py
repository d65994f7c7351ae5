"""A snapshot of a catalog in Parquet files: written once, and read as an input of comparisons.

A snapshot is a directory, local or in an object store, with `manifest.json`, `part-00000.parquet`
and so on, and `_SUCCESS`, which is written last. Each part has the rows of a range of buckets, in
their order, so that a reader of a few buckets reads few row groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from catalog.model.confluentattribute import SchemaIdConflict
from catalog.model.digest import DIGEST_VERSION
from catalog.model.timestamps import format_time
from replication.reconcile import digestrows
from replication.reconcile.bucketplan import ROWS_PER_READ, split
from replication.reconcile.catalogs import (
    Moment,
    ReportedLink,
    SurveyedCatalog,
    check_digest_version,
)
from replication.reconcile.errors import CatalogUnread, ReconcileError
from replication.reconcile.inputs.input import Input

FORMAT = 1
MANIFEST, SUCCESS = "manifest.json", "_SUCCESS"
_MOST_MANIFEST_BYTES = 1 << 26
_ROWS_PER_GROUP = 50_000
_ORDER = [("bucket", "ascending"), ("origin", "ascending")]
SIGNED_ROWS = pa.schema(digestrows.SIGNED_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInput:
    """A snapshot at a path or URL, such as `s3://bucket/path`; its manifest has the moment.

    Args:
        directory: the path or URL of the snapshot.
        url: the address of what the snapshot shows.
    """

    name: str
    directory: str
    url: str

    @property
    def path(self) -> str | None:
        """The path on this machine; `None` for a snapshot in an object store."""
        files, path = _located(self.directory)
        return path if isinstance(files, pafs.LocalFileSystem) else None

    @contextmanager
    def opened(self, work: Path, progress: Callable[[str], None]) -> Iterator[SnapshotInput]:
        yield self

    def survey(self) -> SurveyedCatalog:
        with self._reading() as (files, path):
            if files.get_file_info(f"{path}/{SUCCESS}").type is not pafs.FileType.File:
                raise ValueError(f"it has no file {SUCCESS}, so it is incomplete or no snapshot")
            with files.open_input_stream(f"{path}/{MANIFEST}") as stream:
                manifest = orjson.loads(stream.read(_MOST_MANIFEST_BYTES))
            if manifest["format"] != FORMAT:
                raise ValueError(f"its format is {manifest['format']!r}, not {FORMAT}")
            check_digest_version(self.name, manifest["digestversion"])
            dataset = self._dataset(files, path)
            if _lacks_values(dataset):
                raise ValueError("a value is missing")
            rows = dataset.count_rows()
            if rows != manifest["rows"]:
                raise ValueError(
                    f"it has {rows:,} rows, and its manifest says {manifest['rows']:,}"
                )
            return SurveyedCatalog(
                input=self,
                authority=manifest["authority"],
                instance=manifest["instance"],
                links=tuple(_link(each) for each in manifest["links"]),
                fingerprints={bucket: (count, xor) for bucket, count, xor in manifest["buckets"]},
                as_of=manifest["asof"],
                schemaids=[SchemaIdConflict(**each) for each in manifest["schemaids"]],
                moment=Moment(
                    datetime.fromisoformat(manifest["startedat"]),
                    datetime.fromisoformat(manifest["endedat"]),
                ),
            )

    def read(
        self, buckets: digestrows.BucketRange, *, verify: bool, is_signed: bool
    ) -> list[pa.RecordBatch]:
        """The rows of a range of buckets; the digests are as they were when the rows were read."""
        columns = digestrows.SIGNED_COLUMNS if is_signed else digestrows.CSV_COLUMNS
        within = (pc.field("bucket") >= buckets.start) & (pc.field("bucket") < buckets.stop)
        with self._reading() as (files, path):
            dataset = self._dataset(files, path)
            found = dataset.to_table(columns=list(columns), filter=within, use_threads=False)
            try:
                return [digestrows.checked(batch, buckets) for batch in found.to_batches()]
            except ValueError as error:
                raise digestrows.malformed(error, buckets, self.name) from error

    def again(self) -> SnapshotInput:
        return self

    def _dataset(self, files: pafs.FileSystem, path: str) -> ds.Dataset:
        parts = [
            each.path
            for each in files.get_file_info(pafs.FileSelector(path))
            if each.path.endswith(".parquet")
        ]
        return ds.dataset(sorted(parts), SIGNED_ROWS, "parquet", files)

    @contextmanager
    def _reading(self) -> Iterator[tuple[pafs.FileSystem, str]]:
        """The file system and the path of the snapshot; turns failures into `CatalogUnread`."""
        try:
            yield _located(self.directory)
        except (OSError, KeyError, TypeError, ValueError) as error:
            # Arrow's errors of files are OSError, and of contents ValueError.
            raise self.unread(" ".join(str(error).split())[:300].rstrip(".")) from error

    def unread(self, reason: str) -> CatalogUnread:
        return CatalogUnread(
            f"Catalog {self.name} could not be read in {self.directory}: {reason}.",
            "Write the snapshot anew: `concord snapshot --to …`.",
            self.name,
        )


def _lacks_values(dataset: ds.Dataset) -> bool:
    """Whether a row lacks a value, by the statistics in the files."""
    files = [fragment.metadata for fragment in dataset.get_fragments()]
    groups = [file.row_group(number) for file in files for number in range(file.num_row_groups)]
    return any(
        (found := group.column(number).statistics) is None or found.null_count
        for group in groups
        if group.num_rows
        for number in range(group.num_columns)
    )


def write_snapshot(
    given: Input, directory: str, *, verify: bool, work: Path, progress: Callable[[str], None]
) -> int:
    """Write a snapshot of a catalog into a new or empty directory; return the number of rows.

    Args:
        directory: a path, or the URL of a directory in an object store.
        verify: compute the digests anew.
        work: a directory for files that live as long as the call.

    Raises:
        ReconcileError: the catalog can't be read, or the directory can't be written.
    """
    startedat = datetime.now(UTC)
    with given.opened(work, progress) as opened:
        surveyed = opened.survey()
        parts = split([digestrows.ALL_BUCKETS], surveyed.fingerprints, ROWS_PER_READ)

        def read() -> Iterator[pa.Table]:
            for buckets in parts:
                batches = opened.read(buckets, verify=verify, is_signed=True)
                yield pa.Table.from_batches(batches, None if batches else SIGNED_ROWS)
                progress(
                    f"{buckets.stop / digestrows.ALL_BUCKETS.stop:4.0%} of the buckets are written"
                )

        return write_files(directory, surveyed, read(), startedat)


def write_files(
    directory: str, surveyed: SurveyedCatalog, parts: Iterable[pa.Table], startedat: datetime
) -> int:
    """Write the files of a snapshot into a new or empty directory; return the number of rows.

    Args:
        parts: rows with the columns `SIGNED_COLUMNS`, in ranges of buckets.
        startedat: the time before the first row was read.

    Raises:
        ReconcileError: the directory is not empty, or can't be written.
    """
    rows = 0
    try:
        files, path = _located(directory)
        files.create_dir(path)
        if files.get_file_info(pafs.FileSelector(path)):
            raise ReconcileError(f"{directory} is not empty.", "Give a new directory.")
        for number, part in enumerate(parts):
            ordered = part.select(list(digestrows.SIGNED_COLUMNS)).sort_by(_ORDER)
            rows += len(ordered)
            with files.open_output_stream(f"{path}/part-{number:05}.parquet") as stream:
                pq.write_table(ordered, stream, compression="zstd", row_group_size=_ROWS_PER_GROUP)
        moment = surveyed.moment or Moment(startedat, datetime.now(UTC))
        with files.open_output_stream(f"{path}/{MANIFEST}") as stream:
            stream.write(orjson.dumps(_manifest(surveyed, moment, rows)) + b"\n")
        with files.open_output_stream(f"{path}/{SUCCESS}"):
            pass
    except (OSError, pa.ArrowInvalid) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise ReconcileError(
            f"The snapshot could not be written to {directory}: {reason}.",
            "Check the path, the free space, and the credentials of an object store.",
        ) from error
    return rows


def _manifest(surveyed: SurveyedCatalog, moment: Moment, rows: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "digestversion": DIGEST_VERSION,
        "authority": surveyed.authority,
        "instance": surveyed.instance,
        "asof": surveyed.as_of,
        "startedat": format_time(moment.since),
        "endedat": format_time(moment.until),
        "rows": rows,
        "links": [asdict(link) for link in surveyed.links],
        "schemaids": [asdict(each) for each in surveyed.schemaids],
        "buckets": [[bucket, *pair] for bucket, pair in sorted(surveyed.fingerprints.items())],
    }


def _link(written: Mapping[str, Any]) -> ReportedLink:
    sequences = {name: tuple(written[name]) for name in ("authorities", "scope")}
    params = tuple((name, value) for name, value in written["params"])
    return ReportedLink(**{**written, **sequences, "params": params})


def _located(url: str) -> tuple[pafs.FileSystem, str]:
    """The file system and the path of a URL, or of a path on this machine."""
    if "://" in url:
        files, path = pafs.FileSystem.from_uri(url)
        return files, path.rstrip("/")
    return pafs.LocalFileSystem(), str(Path(url).absolute())
