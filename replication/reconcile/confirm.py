"""The second look: what differed because it was on its way has arrived by now.

Catalogs are read one after the other while they change, so a first difference may only
mean that an entity moved between two reads. Those few origins are read and judged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from catalog.model.digest import bucket
from catalog.model.entity import Origin
from replication.reconcile.ranges import cover, split
from replication.reconcile.readplan import ROWS_PER_READ, SLACK_ROWS, ReadPlan
from replication.reconcile.rows import read_rows
from replication.reconcile.rule import Copy, Difference, classify


def confirm(found: Sequence[Difference], plan: ReadPlan) -> list[Difference]:
    """Those of `found` that are still there, as they are now.

    Raises:
        ReconcileError: a catalog can't be read any more.
    """
    if not found:
        return []
    look = _Look.at(found)

    def read(place: int) -> list[Copy]:
        return list(_reread(look, place, plan))

    catalogs = range(len(plan.catalogs))
    with ThreadPoolExecutor(max_workers=min(16, len(catalogs))) as pool:
        copies = [copy for each in pool.map(read, catalogs) for copy in each]
    first = {one.key: one for one in found}
    again = classify(copies, plan.topology, only=look.origins)
    return [one for one in again if one.key in first and not _has_moved(first[one.key], one)]


def _has_moved(first: Difference, again: Difference) -> bool:
    """Whether the first difference is over, and another one has come up since.

    A replica that has reached the epoch it lacked is only behind again, and an authority
    that has reached the epoch that its replica had lost nothing.
    """
    if again.finding == "stale" and first.reference_epoch is not None:
        return again.epoch is not None and again.epoch >= first.reference_epoch
    if again.finding == "ahead" and first.epoch is not None:
        return again.reference_epoch is not None and again.reference_epoch >= first.epoch
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What to look for: the origins in question, and the places that they or a rival hold."""

    origins: frozenset[Origin]
    buckets: frozenset[int]
    places: pa.Array
    names: pa.Array

    @classmethod
    def at(cls, found: Sequence[Difference]) -> _Look:
        origins = frozenset(Origin(one.authority, one.origin) for one in found)
        rivals = {
            Origin(one.rival_authority, one.rival_origin)
            for one in found
            if one.rival_authority is not None and one.rival_origin is not None
        }
        names = {one.origin for one in found}
        places = names | {one.xid for one in found if one.xid is not None}
        return cls(
            origins=origins,
            buckets=frozenset(bucket(one.authority, one.xid) for one in origins | rivals),
            places=pa.array(sorted(places), pa.string()),
            names=pa.array(sorted(names), pa.string()),
        )


def _reread(look: _Look, place: int, plan: ReadPlan) -> Iterator[Copy]:
    catalog = plan.catalogs[place]
    ranges = cover(look.buckets, catalog.fingerprints, SLACK_ROWS)
    for part in split(ranges, catalog.fingerprints, ROWS_PER_READ):
        for batch in read_rows(catalog.remote, part, verify=plan.verify):
            wanted = pc.or_(
                pc.is_in(batch.column("origin"), look.names),
                pc.is_in(batch.column("xid"), look.places),
            )
            for row in batch.filter(wanted).to_pylist():
                yield Copy(
                    catalog=place,
                    authority=row["authority"],
                    origin=row["origin"],
                    xid=row["xid"],
                    epoch=row["epoch"],
                    deleted=row["deleted"],
                    digest=row["digest"],
                )
