"""How long a retry waits."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from catalog.model.backoff import Backoff

backoffs = st.builds(
    Backoff,
    initial=st.floats(0.001, 10),
    factor=st.floats(1, 10),
    cap=st.floats(10, 1000),
    jitter=st.floats(0, 1),
)


def test_waits_double_up_to_the_cap() -> None:
    backoff = Backoff(initial=1, factor=2, cap=10, jitter=0)
    assert [backoff.delay(n, Random()) for n in range(7)] == [0, 1, 2, 4, 8, 10, 10]


def test_chance_spreads_those_who_failed_together() -> None:
    backoff = Backoff(initial=1, factor=2, cap=10, jitter=0.5)
    random = Random(1)
    assert len({backoff.delay(3, random) for _ in range(100)}) > 90


@given(backoffs, st.integers(0, 10**9), st.integers())
def test_a_wait_is_never_longer_than_the_cap_nor_shorter_than_jitter_allows(
    backoff: Backoff, failures: int, seed: int
) -> None:
    longest = Backoff(
        initial=backoff.initial, factor=backoff.factor, cap=backoff.cap, jitter=0
    ).delay(failures, Random(seed))
    delay = backoff.delay(failures, Random(seed))
    assert longest * (1 - backoff.jitter) <= delay <= longest <= backoff.cap


def test_a_wait_is_as_long_as_the_other_side_asks_for() -> None:
    backoff = Backoff(initial=1, factor=2, cap=10, jitter=0)
    assert backoff.delay(2, Random(), at_least=1.5) == 2
    assert backoff.delay(2, Random(), at_least=60) == 60
