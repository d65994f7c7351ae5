"""Reads the digest rows of catalogs as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from catalog.model.authoritykey import SIGNATURE_BYTES
from replication.reconcile.bucketplan import BucketPlan, BucketRange
from replication.reconcile.copysignatures import UNCHECKED, SignatureCheck
from replication.reconcile.errors import CatalogUnread
from replication.reconcile.remotecatalog import RemoteCatalog

CSV_COLUMNS = {
    "authority": pa.string(),
    "origin": pa.string(),
    "xid": pa.string(),
    "epoch": pa.int64(),
    "deleted": pa.bool_(),
    "digest": pa.string(),
    "bucket": pa.int32(),
}
_SENT = {**{name: CSV_COLUMNS[name] for name in list(CSV_COLUMNS)[:-1]}, "fp": pa.int64()}
ROWS = pa.schema({"catalog": pa.int32(), **_SENT, "signature": pa.int8()})
"""The columns that the rule compares; `catalog` is a position, `fp` the digest's fingerprint."""
SIGNED_COLUMNS = {**CSV_COLUMNS, "signature": pa.string(), "signedby": pa.string()}
DIGEST_CHARACTERS = 64

_NIBBLES = np.full(256, 16, dtype=np.uint8)
_NIBBLES[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16)
_NIBBLES[np.frombuffer(b"ABCDEF", dtype=np.uint8)] = np.arange(10, 16)


def reads_of(plan: BucketPlan) -> list[tuple[int, int, int]]:
    """The requests of a plan: the position of a catalog, and the start and stop of a range.

    Requests to the catalogs alternate, so that the catalogs serve requests at the same time.
    """
    turns = zip_longest(*([(c, *part) for part in parts] for c, parts in enumerate(plan.reads)))
    return [part for turn in turns for part in turn if part is not None]


def rows_within(
    remote: RemoteCatalog,
    catalog: int,
    buckets: BucketRange,
    *,
    verify: bool,
    check: SignatureCheck | None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one catalog in a range of buckets, with the columns of `ROWS`.

    Args:
        catalog: the position of the catalog.
        verify: have the catalog compute the digests anew.
        check: checks the signatures; `None` leaves the signatures unchecked.

    Raises:
        ReconcileError: the catalog could not be read, or sent malformed rows.
    """
    for batch in read_rows(remote, buckets, verify=verify, is_signed=check is not None):
        positions = pa.array([catalog] * len(batch), pa.int32())
        codes = (
            pa.array([UNCHECKED] * len(batch), pa.int8()) if check is None else check.codes(batch)
        )
        columns = [positions, *(batch.column(name) for name in _SENT), codes]
        yield pa.RecordBatch.from_arrays(columns, schema=ROWS)


def read_rows(
    remote: RemoteCatalog, buckets: BucketRange, *, verify: bool, is_signed: bool = False
) -> list[pa.RecordBatch]:
    """The rows of a range of buckets, tombstones included, with the digest's fingerprint as `fp`.

    The row of the registry entity is left out, because registry entities are not replicated.

    Args:
        verify: have the catalog compute the digests anew.
        is_signed: ask for signatures, too.

    Raises:
        ReconcileError: the catalog could not be read, or sent malformed rows.
    """
    params = {
        "format": "csv",
        "from": str(buckets.start),
        "to": str(buckets.stop),
        "verify": "true" if verify else "false",
        **({"signatures": "true"} if is_signed else {}),
    }
    answer = remote.call(
        lambda client: client.request("GET", "/replication/digests", params=params, largest=None)
    )
    columns = SIGNED_COLUMNS if is_signed else CSV_COLUMNS
    try:
        return [_checked(batch, buckets) for batch in _batches(answer.body, columns)]
    except (pa.ArrowInvalid, ValueError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise CatalogUnread(
            f"Catalog {remote.name} sent malformed rows for the buckets "
            f"{buckets.start} to {buckets.stop}: {reason}.",
            "Check that its version of Concord and this job's belong together.",
            remote.name,
        ) from error


def _batches(body: bytes, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    reader = pc_csv.open_csv(
        pa.BufferReader(body),
        read_options=pc_csv.ReadOptions(use_threads=False, block_size=1 << 20),
        convert_options=pc_csv.ConvertOptions(column_types=columns, strings_can_be_null=False),
    )
    if reader.schema.names != list(columns):
        raise ValueError(f"the header is {','.join(reader.schema.names)}")
    yield from reader


def _checked(batch: pa.RecordBatch, buckets: BucketRange) -> pa.RecordBatch:
    if any(column.null_count for column in batch.columns):
        raise ValueError("a value is missing")
    sent = batch.column("bucket").to_numpy()
    if sent.size and not (buckets.start <= sent.min() and sent.max() < buckets.stop):
        raise ValueError(f"bucket {sent.min()} or {sent.max()} was not asked for")
    if "signature" in batch.schema.names:
        _check_hexadecimal(batch.column("signature"))
    batch = batch.append_column("fp", fingerprints(batch.column("digest")))
    return batch.filter(pc.not_equal(batch.column("origin"), "/"))


def _check_hexadecimal(signatures: pa.StringArray) -> None:
    is_hexadecimal = pc.match_substring_regex(
        signatures, f"^([0-9a-fA-F]{{{2 * SIGNATURE_BYTES}}})?$"
    )
    if not pc.all(is_hexadecimal).as_py() and len(signatures):
        raise ValueError(f"a signature has not {2 * SIGNATURE_BYTES} hexadecimal digits")


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
