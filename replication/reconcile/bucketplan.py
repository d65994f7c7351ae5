"""The plan of a comparison: the buckets to read, in ranges of one request each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest

from replication.reconcile.catalogs import Fingerprints, SurveyedCatalog
from replication.reconcile.digestrows import ALL_BUCKETS, BucketRange
from replication.reconcile.signatures import AuthorityKeys, SignatureCheck
from replication.reconcile.topology import Topology, topology_of

ROWS_PER_READ = 200_000
"""The most rows of one answer; a worker holds the rows in memory, about 50 MB."""
SLACK_ROWS = 10_000
"""The most rows in a gap between two buckets: reading the gap costs less than another request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlan:
    """The catalogs, the topology of their links, and the ranges to read.

    Each catalog is read in the same buckets: `ranges`. `keys` check signatures; `None` checks no
    signatures.
    """

    catalogs: Sequence[SurveyedCatalog]
    topology: Topology
    ranges: Sequence[BucketRange]
    verify: bool
    keys: Sequence[AuthorityKeys] | None = None

    @property
    def check(self) -> SignatureCheck | None:
        """The check of signatures; `None` if signatures are not checked."""
        return None if self.keys is None else SignatureCheck.of(self.keys)

    @property
    def requests(self) -> list[tuple[int, BucketRange]]:
        """The position of a catalog and a range to read, in turns.

        Requests to the catalogs alternate, so that the catalogs serve requests at the same time.
        """
        reads = (split(self.ranges, each.fingerprints, ROWS_PER_READ) for each in self.catalogs)
        turns = zip_longest(*([(c, part) for part in parts] for c, parts in enumerate(reads)))
        return [request for turn in turns for request in turn if request is not None]

    @property
    def buckets(self) -> int:
        """The number of buckets to read."""
        return sum(part.stop - part.start for part in self.ranges)

    @property
    def rows(self) -> int:
        """The number of live entities in the buckets to read."""
        read = {bucket for part in self.ranges for bucket in range(part.start, part.stop)}
        return sum(
            count
            for catalog in self.catalogs
            for bucket, (count, _) in catalog.fingerprints.items()
            if bucket in read
        )

    @property
    def entities(self) -> int:
        """The number of live entities in the catalogs, in every bucket, read or not."""
        return sum(catalog.entities for catalog in self.catalogs)

    def again(self, buckets: Iterable[int]) -> BucketPlan:
        """The plan to read only `buckets`, as they are now."""
        now = [replace(each, input=each.input.again()) for each in self.catalogs]
        return replace(self.narrowed(buckets), catalogs=now)

    def narrowed(self, buckets: Iterable[int]) -> BucketPlan:
        """The plan to read only `buckets`, and small gaps between buckets to save requests."""
        return replace(self, ranges=cover(buckets, _largest(self.catalogs), SLACK_ROWS))


def plan_of(
    catalogs: Sequence[SurveyedCatalog],
    *,
    verify: bool,
    keys: Sequence[AuthorityKeys] | None = None,
    lag_seconds: float = 0,
) -> BucketPlan:
    """Plan to read every bucket or, without `verify` and `keys`, the buckets that differ.

    Verification reads every bucket, because a stored fingerprint shows neither later damage to
    the content nor a false signature.
    """
    plan = BucketPlan(
        catalogs=catalogs,
        topology=topology_of(catalogs, lag_seconds),
        ranges=[ALL_BUCKETS],
        verify=verify,
        keys=keys,
    )
    return (
        plan
        if verify or keys is not None
        else plan.narrowed(differing([c.fingerprints for c in catalogs]))
    )


def differing(fingerprints: Sequence[Fingerprints]) -> list[int]:
    """The buckets on which the catalogs disagree, in order."""
    used = set().union(*fingerprints)
    return sorted(b for b in used if len({each.get(b, (0, 0)) for each in fingerprints}) > 1)


def cover(buckets: Iterable[int], fingerprints: Fingerprints, slack: int) -> list[BucketRange]:
    """Ranges that hold `buckets`, joined across gaps of at most `slack` entities."""
    ranges: list[BucketRange] = []
    for bucket in sorted(set(buckets)):
        if ranges and _is_small_gap(ranges[-1].stop, bucket, fingerprints, slack):
            ranges[-1] = BucketRange(ranges[-1].start, bucket + 1)
        else:
            ranges.append(BucketRange(bucket, bucket + 1))
    return ranges


def _is_small_gap(start: int, stop: int, fingerprints: Fingerprints, slack: int) -> bool:
    counts = (fingerprints.get(bucket, (0, 0))[0] for bucket in range(start, stop))
    # The running total stops above the slack, so a wide gap is not summed to the end.
    return all(total <= slack for total in accumulate(counts))


def split(
    ranges: Iterable[BucketRange], fingerprints: Fingerprints, rows: int
) -> list[BucketRange]:
    """`ranges`, cut into parts of at most `rows` entities, or of a single bucket."""
    # A bucket cannot be divided, so a bucket with more than `rows` entities is a part of its own.
    parts: list[BucketRange] = []
    for whole in ranges:
        start, held = whole.start, 0
        for bucket in range(whole.start, whole.stop):
            count = fingerprints.get(bucket, (0, 0))[0]
            if held and held + count > rows:
                parts.append(BucketRange(start, bucket))
                start, held = bucket, 0
            held += count
        parts.append(BucketRange(start, whole.stop))
    return parts


def _largest(catalogs: Sequence[SurveyedCatalog]) -> Fingerprints:
    """The fingerprint with the greatest count of each bucket; the count decides on the cost."""
    found = [catalog.fingerprints for catalog in catalogs]
    buckets = set().union(*found)
    return {bucket: max(each.get(bucket, (0, 0)) for each in found) for bucket in buckets}
