"""Reads digests: the fingerprints of buckets, and the digests in a bucket, stored or computed."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from catalog.load.workthread import aside
from catalog.model.digest import BUCKETS
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.timestamps import microseconds_of
from catalog.store.database import Connection
from catalog.store.entities import entity_from, tombstone_from
from catalog.store.queries import Queries

_queries = Queries("digests", package=__package__)
_PREFETCH = 500
_NO_DIGEST = bytes(32)
SHARED_BITS = 8
"""The bits by which the fingerprints are merged that serve many comparisons."""

COLUMNS = (
    *("authority", "origin", "xid", "epoch", "deleted", "digest", "bucket", "changedat"),
    "intact",
)
"""The columns of the rows of buckets. `changedat` is the time of the last change at the authority,
in microseconds since 1970; `intact` is false if a computed digest is not the stored digest."""
SIGNED_COLUMNS = (*COLUMNS, "signature", "signedby")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The number of entities in a bucket, and the xor of their fingerprints."""

    number: int
    count: int
    fingerprint: int

    def plus(self, other: Bucket) -> Bucket:
        """The bucket with the entities of both."""
        count, fingerprint = self.count + other.count, self.fingerprint ^ other.fingerprint
        return replace(self, count=count, fingerprint=fingerprint)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDigest:
    """The digest of the entity or tombstone of one origin."""

    authority: str
    origin: str
    xid: str
    epoch: int
    deleted: bool
    digest: bytes
    bucket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestSelection:
    """The part of a catalog whose digests are compared.

    Args:
        ranges: ranges of buckets, each with its first bucket and the bucket after its last.
        authorities: the authorities; `None` stands for every authority.
        scope: xids at the authorities, each with its descendants and ancestors; no xids select
            everything.
        types: types of groups or of resources; no types select everything.
        labels: the labels of an entity or of its group, every one required; no labels select
            everything.
        max_age: how many seconds old the coarsest fingerprints of whole authorities may be, which
            then serve many comparisons.
    """

    ranges: Sequence[tuple[int, int]] = ((0, BUCKETS),)
    authorities: Sequence[str] | None = None
    scope: Sequence[str] = ()
    types: Sequence[str] = ()
    labels: Sequence[str] = ()
    max_age: float = 0.0

    def may_be_shared(self, bits: int) -> bool:
        """Whether fingerprints of so many bits may be those that are read for all comparisons."""
        is_whole = [*self.ranges] == [(0, BUCKETS)]
        is_part = bool(self.scope or self.types or self.labels)
        return self.max_age > 0 and bits == SHARED_BITS and is_whole and not is_part

    @property
    def arguments(self) -> tuple[list[int] | list[str] | None, ...]:
        """The arguments of the statements that read the selection."""
        starts, stops = [start for start, _ in self.ranges], [stop for _, stop in self.ranges]
        authorities = None if self.authorities is None else list(self.authorities)
        return starts, stops, authorities, list(self.scope), list(self.types), list(self.labels)


async def read_buckets(connection: Connection) -> list[Bucket]:
    """Read every bucket that is not empty. The registry does not count."""
    rows = await connection.fetch(_queries.buckets)
    own = await connection.fetchrow(_queries.registry)
    buckets = {row["number"]: Bucket(**row) for row in rows}
    if own is not None:
        # Without a condition on the registry, the query reads the index alone; xor takes the
        # registry out.
        registry = Bucket(number=own["number"], count=-1, fingerprint=own["fingerprint"])
        buckets[registry.number] = buckets[registry.number].plus(registry)
    return [bucket for bucket in buckets.values() if bucket.count]


async def read_merged(
    connection: Connection, selection: DigestSelection, bits: int
) -> list[Bucket]:
    """Read the selected buckets, tombstones included, merged by the first `bits` bits.

    The number of a merged bucket has the common first bits of its buckets.
    """
    rows = await connection.fetch(_queries.merged, bits, *selection.arguments)
    return [Bucket(**row) for row in rows]


async def read_merged_by_authority(connection: Connection) -> dict[str, dict[int, Bucket]]:
    """Read the buckets of every authority, tombstones included, merged by `SHARED_BITS` bits."""
    found: dict[str, dict[int, Bucket]] = {}
    for row in map(dict, await connection.fetch(_queries.merged_by_authority, SHARED_BITS)):
        authority, bucket = row.pop("authority"), Bucket(**row)
        found.setdefault(authority, {})[bucket.number] = bucket
    return found


async def copy_rows_within(
    connection: Connection,
    selection: DigestSelection,
    write: Callable[[bytes], Awaitable[None]],
) -> None:
    """Write the stored digests of a selection as CSV, as `copy_rows`."""
    await connection.copy_from_query(
        _queries.rows_within, *selection.arguments, output=write, format="csv", timeout=3600
    )


async def load_rows_within(
    connection: Connection, selection: DigestSelection
) -> list[StoredDigest]:
    """Read the stored digests of a selection."""
    return [
        StoredDigest(
            **row | {"deleted": row["deleted"] == "true", "digest": bytes.fromhex(row["digest"])}
        )
        for row in map(dict, await connection.fetch(_queries.rows_within, *selection.arguments))
    ]


async def read_authorities(connection: Connection, limit: int) -> list[str]:
    """Read up to `limit` authorities of entities and tombstones, in order."""
    return [row["authority"] for row in await connection.fetch(_queries.authorities, limit)]


async def copy_rows(
    connection: Connection,
    start: int,
    stop: int,
    write: Callable[[bytes], Awaitable[None]],
    *,
    is_signed: bool = False,
) -> None:
    """Write the rows of buckets from `start` up to and excluding `stop`, as CSV without a header.

    Args:
        is_signed: write `SIGNED_COLUMNS` instead of `COLUMNS`.
    """
    query = _queries.signed_rows if is_signed else _queries.rows
    await connection.copy_from_query(query, start, stop, output=write, format="csv", timeout=3600)


async def page_computed(
    connection: Connection, after: str, limit: int
) -> list[tuple[Entity, bytes]]:
    """Read up to `limit` entities after an xid, each with the digest of its content."""
    rows = await connection.fetch(_queries.page_entities, after, limit)
    return await aside(len(rows), lambda: [(entity_from(row), _computed(row)) for row in rows])


async def page_ends(connection: Connection, after: Origin, limit: int) -> list[Tombstone]:
    """Read up to `limit` tombstones after an origin."""
    rows = await connection.fetch(_queries.page_tombstones, after.authority, after.xid, limit)
    return [tombstone_from(row) for row in rows]


async def compute_rows(
    connection: Connection, start: int, stop: int, *, is_signed: bool = False
) -> AsyncGenerator[bytes]:
    """The rows of `copy_rows` with computed digests, as lines of CSV. Needs a transaction.

    Stored digests and hashes of documents are not trusted.
    """
    async for row in connection.cursor(_queries.entities, start, stop, prefetch=_PREFETCH):
        yield _line(row, _computed(row), row["modifiedat"], deleted=False, is_signed=is_signed)
    async for row in connection.cursor(_queries.tombstones, start, stop, prefetch=_PREFETCH):
        digest = tombstone_from(row).digest
        yield _line(row, digest, row["deletedat"], deleted=True, is_signed=is_signed)


def _line(
    row: Mapping[str, Any], digest: bytes, changedat: datetime, *, deleted: bool, is_signed: bool
) -> bytes:
    values = [row["authority"], row["origin"], row["xid"], row["epoch"]]
    values += ["true" if deleted else "false", digest.hex(), row["bucket"]]
    values.append(microseconds_of(changedat))
    values.append("true" if digest == row["digest"] else "false")
    if is_signed:
        values += [(row["signature"] or b"").hex(), row["signedby"] or ""]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode()


def _computed(row: Mapping[str, Any]) -> bytes:
    """The digest of the content.

    The digest differs from the stored digest if the stored hash of the document is wrong. Content
    without a digest gets zeros.
    """
    entity = entity_from(row)
    if entity.damage:
        return _NO_DIGEST
    try:
        computed = replace(entity, document_sha256=row["body_sha256"]).content_digest()
    except (TypeError, ValueError, RecursionError):
        return _NO_DIGEST
    if row["body_sha256"] != row["document_sha256"] and computed == entity.digest:
        return entity.content_digest()
    return computed


async def count_entities(connection: Connection) -> int:
    """Count the entities without the registry; the query scans an index."""
    return await connection.fetchval(_queries.count)
