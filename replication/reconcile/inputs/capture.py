"""Turns a catalog that is read as a whole into a snapshot, which is read by ranges of buckets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from catalog.model.digest import bucket, fingerprint
from catalog.model.entity import Entity, Tombstone
from catalog.model.timestamps import microseconds_of
from replication.reconcile.catalogs import ReportedLink, SurveyedCatalog
from replication.reconcile.inputs.input import Input
from replication.reconcile.inputs.snapshotinput import SIGNED_ROWS, SnapshotInput, write_files

_ROWS_PER_PART = 100_000


def capture(
    given: Input,
    copies: Iterable[Entity | Tombstone],
    work: Path,
    startedat: datetime,
    *,
    authority: str,
    instance: str,
    links: Sequence[ReportedLink],
) -> SnapshotInput:
    """Write the copies of an input, of distinct origins, as a snapshot below `work`.

    Args:
        startedat: the time before the first copy was read.
        authority, instance, links: the identity and the links of the catalog.
    """
    rows = sorted(map(_row, copies), key=lambda row: (row["bucket"], row["origin"]))
    fingerprints: dict[int, tuple[int, int]] = {}
    for row in rows:
        if not row["deleted"]:
            count, xor = fingerprints.get(row["bucket"], (0, 0))
            sign = fingerprint(bytes.fromhex(row["digest"]))
            fingerprints[row["bucket"]] = (count + 1, xor ^ sign)
    remaining = iter(rows)
    parts = iter(lambda: list(islice(remaining, _ROWS_PER_PART)), [])
    snapshot = SnapshotInput(name=given.name, directory=str(work / given.name), url=given.url)
    surveyed = SurveyedCatalog(
        input=snapshot,
        authority=authority,
        instance=instance,
        links=tuple(links),
        fingerprints=fingerprints,
    )
    tables = (pa.Table.from_pylist(part, SIGNED_ROWS) for part in parts)
    write_files(snapshot.directory, surveyed, tables, startedat)
    return snapshot


def _row(copy: Entity | Tombstone) -> dict[str, Any]:
    is_deleted = isinstance(copy, Tombstone)
    changedat = copy.deletedat if isinstance(copy, Tombstone) else copy.modifiedat
    return {
        "authority": copy.authority,
        "origin": copy.origin,
        "xid": copy.xid,
        "epoch": copy.epoch,
        "deleted": is_deleted,
        "digest": copy.digest.hex(),
        "bucket": bucket(copy.authority, copy.origin),
        "changedat": microseconds_of(changedat),
        "intact": not isinstance(copy, Entity) or copy.is_intact(),
        "signature": (copy.signature or b"").hex(),
        "signedby": copy.signedby or "",
    }
