"""One catalog's digest rows: from the CSV it sends to checked Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPResponse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from replication.reconcile.errors import ReconcileError
from replication.reconcile.ranges import BucketRange
from replication.reconcile.remote import Remote

COLUMNS = {
    "authority": pa.string(),
    "origin": pa.string(),
    "xid": pa.string(),
    "epoch": pa.int64(),
    "deleted": pa.bool_(),
    "digest": pa.string(),
    "bucket": pa.int32(),
}
FINGERPRINT = "fp"
DIGEST_CHARACTERS = 64

_NIBBLES = np.full(256, 16, dtype=np.uint8)
_NIBBLES[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16)
_NIBBLES[np.frombuffer(b"ABCDEF", dtype=np.uint8)] = np.arange(10, 16)


def read_rows(remote: Remote, buckets: BucketRange, *, verify: bool) -> list[pa.RecordBatch]:
    """All rows of these buckets, tombstones included, each with its fingerprint as `fp`.

    The registry's own row is left out: every catalog has its own, and none is replicated.
    The answer is parsed while it arrives and handed on when it is complete, so that an
    attempt that broke off leaves nothing behind.

    Raises:
        ReconcileError: the catalog could not be read, or sent rows that are malformed.
    """
    query = {
        "format": "csv",
        "from": str(buckets.start),
        "to": str(buckets.stop),
        "verify": "true" if verify else "false",
    }

    def parse(response: HTTPResponse) -> list[pa.RecordBatch]:
        try:
            return [_checked(batch, buckets) for batch in _batches(response)]
        except (pa.ArrowInvalid, ValueError) as error:
            raise ReconcileError(
                f"Catalog {remote.name} sent malformed rows for the buckets "
                f"{buckets.start} to {buckets.stop}: {_one_line(error)}.",
                "Check that it runs a version of Concord that belongs to this job's.",
            ) from error

    return remote.get("/replication/digests", query, parse)


def _batches(response: HTTPResponse) -> Iterator[pa.RecordBatch]:
    reader = pc_csv.open_csv(
        response,
        read_options=pc_csv.ReadOptions(use_threads=False, block_size=1 << 20),
        convert_options=pc_csv.ConvertOptions(column_types=COLUMNS, strings_can_be_null=False),
    )
    if reader.schema.names != list(COLUMNS):
        raise ValueError(f"the header is {','.join(reader.schema.names)}")
    yield from reader


def _checked(batch: pa.RecordBatch, buckets: BucketRange) -> pa.RecordBatch:
    if any(column.null_count for column in batch.columns):
        raise ValueError("a value is missing")
    held = batch.column("bucket").to_numpy()
    if held.size and not (buckets.start <= held.min() and held.max() < buckets.stop):
        raise ValueError(f"bucket {held.min()} or {held.max()} was not asked for")
    batch = batch.append_column(FINGERPRINT, fingerprints(batch.column("digest")))
    return batch.filter(pc.not_equal(batch.column("origin"), "/"))


def fingerprints(digests: pa.StringArray) -> pa.Int64Array:
    """The first 8 bytes of each hexadecimal digest as a signed, big-endian integer.

    Raises:
        ValueError: a digest has not 64 hexadecimal digits.
    """
    if not len(digests):
        return pa.array([], pa.int64())
    if set(pc.binary_length(digests).unique().to_pylist()) != {DIGEST_CHARACTERS}:
        raise ValueError(f"a digest has not {DIGEST_CHARACTERS} characters")
    text = np.frombuffer(b"".join(digests.cast(pa.binary()).to_pylist()), dtype=np.uint8)
    nibbles = _NIBBLES[text.reshape(-1, DIGEST_CHARACTERS)]
    if nibbles.max() > 15:
        raise ValueError("a digest is not hexadecimal")
    first = nibbles[:, 0:16:2] << 4 | nibbles[:, 1:16:2]
    return pa.array(np.ascontiguousarray(first).view(">i8").ravel().astype(np.int64))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")
