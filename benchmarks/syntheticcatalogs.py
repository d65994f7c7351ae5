"""Catalogs that Spark makes: snapshots of any size, which differ a little."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from catalog.model.digest import BUCKETS
from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog
from replication.reconcile.digestrows import SIGNED_COLUMNS
from replication.reconcile.inputs.snapshotinput import SnapshotInput, write_files

CATALOGS = 4
NAMES = tuple(f"c{number}" for number in range(CATALOGS))
AUTHORITIES = tuple(f"https://{name}.example.com" for name in NAMES)
_ROWS_PER_PART = 500_000
# The digests are hashes of what distinguishes the copies, since there is no content.
_COPIES = """
SELECT authority, origin, origin AS xid, CAST(IF(is_stale, 1, 2) AS BIGINT) AS epoch,
    false AS deleted, sha2(concat(authority, origin, CAST(is_stale AS STRING)), 256) AS digest,
    CAST(conv(left(sha2(concat(authority, '\\n', origin), 256), 4), 16, 10) AS INT) AS bucket,
    CAST(0 AS BIGINT) AS changedat, true AS intact, '' AS signature, '' AS signedby
FROM (
    SELECT concat('https://c', owner, '.example.com') AS authority,
        concat('/messagegroups/g', id % 1000, '/messages/m', id) AS origin,
        owner <> {catalog} AND (id + {catalog}) % {differing} = 1 AS is_stale
    FROM (SELECT id, IF(id % 100 < {skewed}, 0, id % {catalogs}) AS owner FROM range({rows}))
)"""


def write_catalogs(
    session: SparkSession, directory: Path, rows: int, *, differing: int, skewed: int = 0
) -> list[SnapshotInput]:
    """Write the snapshots of `CATALOGS` catalogs, each of which follows all others.

    Args:
        directory: a new directory for the snapshots.
        rows: the number of rows in all.
        differing: a copy in so many is stale, if it is not its authority's own.
        skewed: the percentage of the entities that belong to the first authority; the others
            belong to all authorities in equal parts.
    """
    return [_write(session, directory, n, rows, differing, skewed) for n in range(CATALOGS)]


def _write(
    session: SparkSession, directory: Path, number: int, rows: int, differing: int, skewed: int
) -> SnapshotInput:
    each, made = rows // CATALOGS, directory / f"made-{number}"
    parts = max(1, each // _ROWS_PER_PART)
    statement = _COPIES.format(
        catalog=number, catalogs=CATALOGS, differing=differing, skewed=skewed, rows=each
    )
    # By ranges of buckets; Spark's own partitioning by range would compute the hashes twice.
    ranged = session.sql(statement).repartition(parts, F.expr(f"bucket * {parts} DIV {BUCKETS}"))
    ranged.write.parquet(str(made))
    counts, xors = np.zeros(BUCKETS, dtype=np.int64), np.zeros(BUCKETS, dtype=np.int64)
    fingerprints: dict[int, tuple[int, int]] = {}

    def read() -> Iterator[pa.Table]:
        for file in sorted(made.glob("*.parquet")):
            table = pq.read_table(file).cast(pa.schema(SIGNED_COLUMNS))
            buckets = table["bucket"].to_numpy()
            np.add.at(counts, buckets, 1)
            np.bitwise_xor.at(xors, buckets, _first_bytes(table["digest"]))
            file.unlink()
            yield table
        held = np.flatnonzero(counts)
        fingerprints.update(
            zip(
                held.tolist(),
                zip(counts[held].tolist(), xors[held].tolist(), strict=True),
                strict=True,
            )
        )

    target = str(directory / NAMES[number])
    written = SnapshotInput(name=NAMES[number], directory=target, url=target)
    surveyed = SurveyedCatalog(
        input=written,
        authority=AUTHORITIES[number],
        instance=NAMES[number],
        links=tuple(
            ReportedLink(source=other, target=AUTHORITIES[number], authorities=(), scope=())
            for other in AUTHORITIES
            if other != AUTHORITIES[number]
        ),
        fingerprints=fingerprints,
    )
    write_files(target, surveyed, read(), datetime.now(UTC))
    return written


def _first_bytes(digests: pa.ChunkedArray) -> np.ndarray:
    """The first 8 bytes of hexadecimal digests, as signed integers."""
    text = "".join(digest[:16] for digest in digests.to_pylist())
    return np.frombuffer(bytes.fromhex(text), dtype=">i8").astype(np.int64)
