"""Which buckets to read, cut into ranges that one request each brings home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from catalog.model.digest import BUCKETS

Fingerprints = Mapping[int, tuple[int, int]]
"""Of each bucket that holds something: how many live entities, and the xor of them."""


class BucketRange(NamedTuple):
    """Buckets from `start` up to and excluding `stop`."""

    start: int
    stop: int


WHOLE = BucketRange(0, BUCKETS)


def differing(catalogs: Sequence[Fingerprints]) -> list[int]:
    """The buckets on which not all catalogs agree, in order."""
    used = set().union(*catalogs)
    nothing = (0, 0)
    return sorted(
        bucket for bucket in used if len({held.get(bucket, nothing) for held in catalogs}) > 1
    )


def cover(buckets: Iterable[int], fingerprints: Fingerprints, slack: int) -> list[BucketRange]:
    """Ranges that hold all `buckets`: neighbours are joined where at most `slack` entities
    lie between them, which cost less to read than another request."""
    ranges: list[BucketRange] = []
    for bucket in sorted(set(buckets)):
        if ranges and _held(fingerprints, ranges[-1].stop, bucket, slack) <= slack:
            ranges[-1] = BucketRange(ranges[-1].start, bucket + 1)
        else:
            ranges.append(BucketRange(bucket, bucket + 1))
    return ranges


def _held(fingerprints: Fingerprints, start: int, stop: int, enough: int) -> int:
    total = 0
    for bucket in range(start, stop):
        total += fingerprints.get(bucket, (0, 0))[0]
        if total > enough:
            break
    return total


def split(
    ranges: Iterable[BucketRange], fingerprints: Fingerprints, rows: int
) -> list[BucketRange]:
    """`ranges` cut so that each holds about `rows` entities at most."""
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
