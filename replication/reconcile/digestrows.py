"""Reads the digest rows of catalogs as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from catalog.model.authoritykey import SIGNATURE_BYTES
from catalog.model.digest import BUCKETS
from replication.reconcile.errors import CatalogUnread
from replication.reconcile.signatures import DAMAGED, UNCHECKED, SignatureCheck

if TYPE_CHECKING:
    from replication.reconcile.inputs.input import OpenedInput


class BucketRange(NamedTuple):
    """Buckets from `start` up to and excluding `stop`."""

    start: int
    stop: int


ALL_BUCKETS = BucketRange(0, BUCKETS)

CSV_COLUMNS = {
    "authority": pa.string(),
    "origin": pa.string(),
    "xid": pa.string(),
    "epoch": pa.int64(),
    "deleted": pa.bool_(),
    "digest": pa.string(),
    "bucket": pa.int32(),
    "changedat": pa.int64(),
    "intact": pa.bool_(),
}
_LEFT_OUT = ("bucket", "intact")
_SENT = {name: type for name, type in CSV_COLUMNS.items() if name not in _LEFT_OUT}
ROWS = pa.schema({"catalog": pa.int32(), **_SENT, "signature": pa.int8()})
"""The columns of the rows: `catalog` is a position, and `changedat` the time of the last change at
the authority, in microseconds since 1970."""
SIGNED_COLUMNS = {**CSV_COLUMNS, "signature": pa.string(), "signedby": pa.string()}
DIGEST_CHARACTERS = 64

_HEXADECIMAL = "0123456789abcdef"


def rows_within(
    given: OpenedInput,
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
    for batch in given.read(buckets, verify=verify, is_signed=check is not None):
        positions = pa.array([catalog] * len(batch), pa.int32())
        codes = (
            pa.array([UNCHECKED] * len(batch), pa.int8()) if check is None else check.codes(batch)
        )
        codes = pc.if_else(batch.column("intact"), codes, pa.scalar(DAMAGED, pa.int8()))
        columns = [positions, *(batch.column(name) for name in _SENT), codes]
        yield pa.RecordBatch.from_arrays(columns, schema=ROWS)


def parse_rows(
    body: bytes, buckets: BucketRange, *, catalog: str, is_signed: bool
) -> list[pa.RecordBatch]:
    """Parse the CSV rows of a range of buckets.

    The row of the registry entity is left out, because registry entities are not replicated.

    Args:
        catalog: the name of the catalog.
        is_signed: whether the rows have the columns of signatures.

    Raises:
        CatalogUnread: the rows are malformed.
    """
    columns = SIGNED_COLUMNS if is_signed else CSV_COLUMNS
    try:
        return [checked(batch, buckets) for batch in _batches(body, columns)]
    except (pa.ArrowInvalid, ValueError) as error:
        raise malformed(error, buckets, catalog) from error


def malformed(error: Exception, buckets: BucketRange, catalog: str) -> CatalogUnread:
    """The error of a catalog that sent malformed rows."""
    reason = " ".join(str(error).split())[:300].rstrip(".")
    return CatalogUnread(
        f"Catalog {catalog} sent malformed rows for the buckets "
        f"{buckets.start} to {buckets.stop}: {reason}.",
        "Check that its version of Concord and this job's belong together.",
        catalog,
    )


def _batches(body: bytes, columns: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    reader = pc_csv.open_csv(
        pa.BufferReader(body),
        read_options=pc_csv.ReadOptions(use_threads=False, block_size=1 << 20),
        convert_options=pc_csv.ConvertOptions(column_types=columns, strings_can_be_null=False),
    )
    if reader.schema.names != list(columns):
        raise ValueError(f"the header is {','.join(reader.schema.names)}")
    yield from reader


def checked(batch: pa.RecordBatch, buckets: BucketRange) -> pa.RecordBatch:
    """Check the rows of a range of buckets; returns the rows without the registry entity.

    Raises:
        ValueError: a row is malformed.
    """
    if any(column.null_count for column in batch.columns):
        raise ValueError("a value is missing")
    sent = pc.min_max(batch.column("bucket")).as_py()
    if len(batch) and not (buckets.start <= sent["min"] and sent["max"] < buckets.stop):
        raise ValueError(f"bucket {sent['min']} or {sent['max']} was not asked for")
    _check_hexadecimal(batch, "digest", {DIGEST_CHARACTERS})
    if "signature" in batch.schema.names:
        _check_hexadecimal(batch, "signature", {0, 2 * SIGNATURE_BYTES})
    return batch.filter(pc.not_equal(batch.column("origin"), "/"))


def _check_hexadecimal(batch: pa.RecordBatch, name: str, lengths: set[int]) -> None:
    texts = batch.column(name)
    if not {*pc.binary_length(texts).unique().to_pylist()} <= lengths:
        raise ValueError(f"a {name} has not {max(lengths)} characters")
    # Trimming takes the digits from both ends, so nothing is left of a text of digits.
    if pc.max(pc.binary_length(pc.ascii_trim(texts, _HEXADECIMAL))).as_py():
        raise ValueError(f"a {name} is not hexadecimal")
