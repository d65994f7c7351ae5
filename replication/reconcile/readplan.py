"""What a comparison will read: which buckets of which catalogs, in which requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replication.reconcile.catalogs import Catalog
from replication.reconcile.ranges import (
    WHOLE,
    BucketRange,
    Fingerprints,
    cover,
    differing,
    split,
)
from replication.reconcile.topology import Topology, topology_of

ROWS_PER_READ = 200_000
"""What a worker holds of one answer until it is complete: some 50 MB."""
SLACK_ROWS = 10_000
"""Agreeing rows between two differing buckets that cost less than another request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """The catalogs, what should flow between them, and the ranges to read of each.

    All catalogs are read in the same buckets, cut as their sizes demand.
    """

    catalogs: Sequence[Catalog]
    topology: Topology
    ranges: Sequence[BucketRange]
    reads: Sequence[Sequence[BucketRange]]
    verify: bool

    @property
    def buckets(self) -> int:
        """How many buckets are read."""
        return sum(part.stop - part.start for part in self.ranges)

    @property
    def entities(self) -> int:
        """How many live entities all catalogs say they hold, read or not."""
        return sum(catalog.entities for catalog in self.catalogs)


def plan_of(catalogs: Sequence[Catalog], *, verify: bool) -> ReadPlan:
    """Plan to read everything, or, without `verify`, where stored fingerprints differ.

    To verify is to read all: a stored fingerprint does not show what was damaged since.
    """
    held = [catalog.fingerprints for catalog in catalogs]
    ranges = [WHOLE] if verify else cover(differing(held), _largest(held), SLACK_ROWS)
    return ReadPlan(
        catalogs=catalogs,
        topology=topology_of(catalogs),
        ranges=ranges,
        reads=[split(ranges, each, ROWS_PER_READ) for each in held],
        verify=verify,
    )


def _largest(held: Iterable[Fingerprints]) -> dict[int, tuple[int, int]]:
    """Fingerprints with each bucket's greatest count, which is what decides on its cost."""
    largest: dict[int, tuple[int, int]] = {}
    for fingerprints in held:
        for bucket, (count, xor) in fingerprints.items():
            if count > largest.get(bucket, (0, 0))[0]:
                largest[bucket] = (count, xor)
    return largest
