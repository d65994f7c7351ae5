"""How many a token bucket lets through in a minute."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.model.tokenbucket import TokenBucket

PAUSES = st.lists(st.floats(0, 90), min_size=1, max_size=60)
RATES = st.one_of(st.integers(1, 200), st.floats(1, 20_000))


@given(per_minute=RATES, pauses=PAUSES)
def test_no_minute_has_more_than_the_rate(per_minute: float, pauses: list[float]) -> None:
    """Callers come when they like, and take as many as they are let."""
    bucket = TokenBucket(per_minute)
    taken: list[float] = []
    now = 0.0
    for pause in pauses:
        now += pause
        while not bucket.delay(now) and len(taken) < 2000:
            bucket.take(now)
            taken.append(now)
    for begin in taken:
        # A thousandth of a second is left out for the rounding of floats.
        assert sum(begin <= each < begin + 59.999 for each in taken) <= ceil(per_minute)


@given(per_minute=RATES, count=st.integers(1, 500))
def test_who_waits_as_long_as_told_gets_the_rate(per_minute: float, count: int) -> None:
    bucket = TokenBucket(per_minute)
    now = 0.0
    for _ in range(count):
        while delay := bucket.delay(now):
            now += max(delay, 1e-6)
        bucket.take(now)
    assert now <= 1.05 * (count / per_minute) * 60 + 1


def test_a_batch_is_followed_by_a_pause_as_long_as_it_says() -> None:
    bucket = TokenBucket(60)
    bucket.take(0.0, 30)
    assert bucket.delay(0.0) == pytest.approx(30)
    assert bucket.delay(30.1) == 0


def test_a_clock_that_is_set_back_changes_nothing() -> None:
    bucket = TokenBucket(60)
    bucket.take(1000.0)
    assert bucket.delay(10.0) == pytest.approx(1)
    assert bucket.delay(1001.0) == pytest.approx(0)


def test_a_rate_of_less_than_one_is_no_rate() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        TokenBucket(0.5)
