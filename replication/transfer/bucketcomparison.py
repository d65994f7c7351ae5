"""Compares the merged buckets of two catalogs, from coarse to fine. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalog.model.digest import BUCKETS

Buckets = Mapping[int, tuple[int, int]]
"""The number of rows and the fingerprint of each merged bucket that is not empty."""
BucketRanges = Sequence[tuple[int, int]]
"""Ranges of buckets in order, each with its first bucket and the bucket after its last."""

LEVELS = (8, 12, 16)
"""The bits by which buckets are merged, level by level."""
EVERYWHERE: BucketRanges = ((0, BUCKETS),)
_FEW_ROWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDifference:
    """The ranges of buckets that differ, with the greater number of rows of the two sides."""

    ranges: BucketRanges
    rows: int

    @property
    def is_small(self) -> bool:
        """Whether a list of the rows costs no more than a finer comparison."""
        return self.rows <= _FEW_ROWS


def find_difference(here: Buckets, there: Buckets, bits: int) -> BucketDifference:
    """Find the buckets, merged by their first bits, that differ between two catalogs."""
    nothing = (0, 0)
    differing = [
        number
        for number in sorted({*here, *there})
        if here.get(number, nothing) != there.get(number, nothing)
    ]
    rows = sum(max(here.get(n, nothing)[0], there.get(n, nothing)[0]) for n in differing)
    width = BUCKETS >> bits
    return BucketDifference(
        ranges=_joined((n * width, (n + 1) * width) for n in differing), rows=rows
    )


def divided(ranges: BucketRanges, most_ranges: int, most_buckets: int) -> Iterator[BucketRanges]:
    """Divide ranges into parts of at most `most_ranges` ranges and `most_buckets` buckets."""
    part: list[tuple[int, int]] = []
    rest = most_buckets
    for begin, stop in ranges:
        start = begin
        while start < stop:
            end = min(stop, start + rest)
            part.append((start, end))
            rest -= end - start
            start = end
            if not rest or len(part) == most_ranges:
                yield part
                part, rest = [], most_buckets
    if part:
        yield part


def as_text(ranges: BucketRanges) -> str:
    """The parameter `ranges` of a request."""
    return ",".join(f"{start}-{stop}" for start, stop in ranges)


def _joined(ranges: Iterator[tuple[int, int]]) -> BucketRanges:
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined
