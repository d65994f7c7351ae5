"""Merged buckets are compared from coarse to fine without losing a difference."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from catalog.model.digest import BUCKETS
from replication.transfer.comparison import (
    EVERYWHERE,
    LEVELS,
    BucketRanges,
    as_text,
    divided,
    find_difference,
)

Rows = Mapping[int, Mapping[int, int]]
"""For each bucket, the fingerprints of its rows."""

rows = st.dictionaries(
    st.integers(0, BUCKETS - 1),
    st.dictionaries(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1), min_size=1),
    max_size=40,
)


def merged(held: Rows, ranges: BucketRanges, bits: int) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for bucket, prints in held.items():
        if any(start <= bucket < stop for start, stop in ranges):
            number = bucket * (1 << bits) // BUCKETS
            count, fingerprint = found.get(number, (0, 0))
            for each in prints.values():
                count, fingerprint = count + 1, fingerprint ^ each
            found[number] = count, fingerprint
    return found


@given(rows, rows)
def test_every_bucket_that_differs_is_in_a_range_at_every_level(here: Rows, there: Rows) -> None:
    ranges = EVERYWHERE
    for bits in LEVELS:
        difference = find_difference(merged(here, ranges, bits), merged(there, ranges, bits), bits)
        ranges = difference.ranges
    differing = {
        bucket
        for bucket in {*here, *there}
        if merged(here, ((bucket, bucket + 1),), 16) != merged(there, ((bucket, bucket + 1),), 16)
    }
    assert {b for start, stop in ranges for b in range(start, stop)} == differing


@given(rows)
def test_equal_catalogs_do_not_differ(held: Rows) -> None:
    found = find_difference(merged(held, EVERYWHERE, 8), merged(held, EVERYWHERE, 8), 8)
    assert (list(found.ranges), found.rows) == ([], 0)


@given(
    st.lists(st.integers(0, 300), unique=True).map(sorted),
    st.integers(1, 5),
    st.integers(1, 50),
)
def test_parts_have_all_buckets_once_and_keep_their_bounds(
    bounds: list[int], most_ranges: int, most_buckets: int
) -> None:
    ranges = list(zip(bounds[::2], bounds[1::2], strict=False))
    parts = list(divided(ranges, most_ranges, most_buckets))
    buckets = [b for part in parts for start, stop in part for b in range(start, stop)]
    assert buckets == [b for start, stop in ranges for b in range(start, stop)]
    for part in parts:
        assert len(part) <= most_ranges
        assert sum(stop - start for start, stop in part) <= most_buckets


def test_ranges_are_written_with_commas() -> None:
    assert as_text(((0, 256), (512, 768))) == "0-256,512-768"
