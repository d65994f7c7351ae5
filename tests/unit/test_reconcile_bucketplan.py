from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from replication.reconcile.bucketplan import ALL_BUCKETS, BucketRange, cover, differing, split

BUCKETS = st.integers(0, 400)
FINGERPRINTS = st.dictionaries(BUCKETS, st.tuples(st.integers(1, 50), st.integers()))


@given(st.sets(BUCKETS), FINGERPRINTS, st.integers(0, 200))
def test_every_bucket_asked_for_is_covered_and_gaps_are_small(
    buckets: set[int], held: dict[int, tuple[int, int]], slack: int
) -> None:
    ranges = cover(buckets, held, slack)

    covered = {bucket for part in ranges for bucket in range(*part)}
    assert buckets <= covered
    extra = sum(held.get(bucket, (0, 0))[0] for bucket in covered - buckets)
    assert extra <= slack * max(0, len(buckets) - 1)
    assert all(one.stop < other.start for one, other in pairwise(ranges))


def test_a_gap_that_holds_more_than_the_slack_is_not_read() -> None:
    held = {5: (11, 0)}

    assert cover([1, 9], held, 10) == [BucketRange(1, 2), BucketRange(9, 10)]
    assert cover([1, 9], held, 11) == [BucketRange(1, 10)]


@given(FINGERPRINTS, st.integers(1, 100))
def test_a_split_keeps_every_bucket_once_and_in_order(
    held: dict[int, tuple[int, int]], rows: int
) -> None:
    parts = split([ALL_BUCKETS], held, rows)

    assert [parts[0].start, parts[-1].stop] == [*ALL_BUCKETS]
    assert all(one.stop == other.start for one, other in pairwise(parts))
    for part in parts:
        counts = [held[bucket][0] for bucket in sorted(held) if bucket in range(*part)]
        assert sum(counts) <= rows or len(counts) == 1


def test_a_bucket_that_one_catalog_lacks_differs() -> None:
    assert differing([{1: (1, 7), 2: (1, 8)}, {1: (1, 7)}]) == [2]
    assert differing([{1: (1, 7)}, {1: (2, 7)}, {1: (1, 7)}]) == [1]
    assert differing([{1: (1, 7)}, {1: (1, 7)}]) == []
