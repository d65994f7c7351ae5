"""A rate lets so many requests through, and addresses that guess credentials wait so long."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.access.ratelimits import Rate
from catalog.access.wrongcredentials import WrongCredentials
from catalog.model.concorderrors import TooManyAttempts

RATES = st.floats(0.01, 1000)
WINDOWS = st.floats(0.01, 100)
PAUSES = st.lists(st.floats(0, 30), min_size=1, max_size=40)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def rate(*numbers: float, **options: Any) -> tuple[Rate, Clock]:
    clock = Clock()
    return Rate("caller", *numbers, clock=clock, **options), clock


@given(per_second=RATES, window=WINDOWS, pauses=PAUSES)
def test_no_time_has_more_than_a_burst_and_what_it_brings(
    per_second: float, window: float, pauses: list[float]
) -> None:
    """Callers come when they like, and take as many as they are let."""
    limit, clock = rate(per_second, window)
    burst, taken = max(1.0, per_second * window), 0
    for pause in pauses:
        clock.now += pause
        while taken < 5000:
            allowed = limit.take("a")
            if allowed.delay:
                break
            taken += 1
            assert 0 <= allowed.left <= burst
            assert 0 <= allowed.full <= max(window, 1 / per_second) + 1e-6
    assert taken <= burst + per_second * (clock.now - 1000) + 1e-3


@given(per_second=RATES, window=WINDOWS)
def test_after_its_pause_a_caller_may_go_on(per_second: float, window: float) -> None:
    limit, clock = rate(per_second, window)
    while not (allowed := limit.take("a")).delay and allowed.left < 3000:
        clock.now += 0.1 / per_second
    clock.now += allowed.delay + 1e-6
    assert not limit.take("a").delay


def test_callers_have_nothing_to_do_with_each_other_and_are_told_what_is_left() -> None:
    limit, clock = rate(2, 5)
    assert limit.policy == '"caller";q=10;w=5'
    assert [limit.take("a").left for _ in range(10)] == [*range(9, -1, -1)]
    refused = limit.take("a")
    assert (refused.delay, refused.left) == (0.5, 0)
    assert limit.describe(refused) == '"caller";r=0;t=5'
    assert limit.describe(limit.take("b")) == '"caller";r=9;t=1'
    clock.now += 2.5
    assert limit.describe(limit.take("a")) == '"caller";r=4;t=3'


def test_the_callers_that_came_last_are_remembered() -> None:
    limit, _ = rate(1, 1, most=2)
    for key in "abc":
        assert not limit.take(key).delay
    assert limit.take("c").delay
    assert limit.take("b").delay
    assert not limit.take("a").delay


def pause(wrong: WrongCredentials, address: str = "a") -> int:
    """The seconds that an address has to wait."""
    try:
        wrong.check(address, "/")
    except TooManyAttempts as refusal:
        return int(refusal.headers["Retry-After"])
    return 0


def test_an_address_that_guesses_waits_longer_and_longer_and_is_forgiven() -> None:
    clock = Clock()
    wrong = WrongCredentials(3, clock=clock)
    pauses = []
    for _ in range(12):
        wrong.note("a")
        pauses.append(pause(wrong))
    assert pauses == [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert pause(wrong, "b") == 0
    clock.now += 59.5
    assert pause(wrong) == 1
    clock.now += 0.5
    assert pause(wrong) == 0
    clock.now += 3600
    wrong.note("a")
    assert pause(wrong) == 0


def test_one_that_goes_on_guessing_gets_few_tries() -> None:
    clock = Clock()
    wrong = WrongCredentials(20, clock=clock)
    tries = 0
    while clock.now < 1000 + 3600:
        if seconds := pause(wrong):
            clock.now += seconds
        else:
            wrong.note("a")
            tries += 1
    assert tries < 20 + 3600 / 10 + 10


@pytest.mark.parametrize(("free", "most"), [(0, 10), (3, 1)], ids=["no_limit", "forgotten"])
def test_no_limit_and_bounded_memory(free: int, most: int) -> None:
    wrong = WrongCredentials(free, most=most)
    for _ in range(10):
        wrong.note("a")
    wrong.note("b")
    assert pause(wrong) == 0
