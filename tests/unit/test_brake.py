"""The decision whether a link has to ask before it deletes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replication.brake import BrakeLimits, Deletions, must_stop

numbers = st.integers(0, 10_000)
limits = st.builds(BrakeLimits, share=st.floats(0, 1), count=st.integers(0, 100))
USUAL = BrakeLimits(share=0.1, count=20)


def deletions(about: int, *, deleted: int = 0, allowed: int = 0) -> Deletions:
    return Deletions(deleted=deleted, about=about, allowed=allowed)


def test_few_deletions_and_small_shares_pass() -> None:
    assert not must_stop(deletions(20), 20, USUAL)
    assert must_stop(deletions(21), 21, USUAL)
    assert not must_stop(deletions(100), 1000, USUAL)
    assert must_stop(deletions(101), 1000, USUAL)


@given(numbers, numbers, limits)
def test_what_deletes_nothing_never_stops(deleted: int, held: int, limits: BrakeLimits) -> None:
    assert not must_stop(deletions(0, deleted=deleted), held, limits)


@given(numbers, numbers, numbers, numbers, limits)
def test_more_deletions_stop_where_fewer_do(
    deleted: int, about: int, more: int, held: int, limits: BrakeLimits
) -> None:
    if about and must_stop(deletions(about, deleted=deleted), held, limits):
        assert must_stop(deletions(about + more, deleted=deleted), held, limits)
        assert must_stop(deletions(about, deleted=deleted), max(0, held - more), limits)


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(0, 1000), limits)
def test_no_way_to_spread_deletions_lets_more_pass(
    parts: list[int], rest: int, limits: BrakeLimits
) -> None:
    """However they are spread over batches, those that pass are within the limits together."""
    held = rest + sum(parts)
    gone = 0
    for part in parts:
        if must_stop(deletions(part, deleted=gone), held - gone, limits):
            break
        gone += part
    assert gone <= max(limits.count, limits.share * held)


@given(st.lists(st.integers(1, 50), min_size=1), st.integers(0, 1000), limits)
def test_exactly_what_is_allowed_passes(parts: list[int], rest: int, limits: BrakeLimits) -> None:
    total = sum(parts)
    gone = 0
    for part in parts:
        now = deletions(part, deleted=gone, allowed=total)
        assert not must_stop(now, rest + total - gone, limits)
        gone += part
    one_more = deletions(1, deleted=gone, allowed=total)
    is_within = total + 1 <= max(limits.count, limits.share * (rest + total))
    assert must_stop(one_more, rest, limits) is not is_within
