"""A rate lets so many through, and tells who has to wait how long."""

from __future__ import annotations

import asyncio
from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.load.limiter import MustWait, Rate, rate_in_a_minute

RATES = st.floats(0.01, 1000)
SECONDS = st.floats(0.01, 100)
PAUSES = st.lists(st.floats(0, 30), min_size=1, max_size=40)
IN_A_MINUTE = st.one_of(st.integers(1, 200), st.floats(1, 20_000))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += seconds


def rate_of(per_second: float, burst: float, **options: Any) -> tuple[Rate, Clock]:
    clock = Clock()
    return Rate(per_second, burst, clock=clock, **options), clock


@given(per_second=RATES, seconds=SECONDS, pauses=PAUSES)
def test_no_time_has_more_than_a_burst_and_what_it_brings(
    per_second: float, seconds: float, pauses: list[float]
) -> None:
    """Callers come when they like, and take as many as they are let."""
    rate, clock = rate_of(per_second, per_second * seconds)
    burst, taken = max(1.0, per_second * seconds), 0
    for pause in pauses:
        clock.now += pause
        while taken < 5000:
            quota = rate.take("a")
            if quota.delay:
                break
            taken += 1
            assert 0 <= quota.left <= burst
            assert 0 <= quota.full <= max(seconds, 1 / per_second) + 1e-5
    assert taken <= burst + per_second * (clock.now - 1000) + 1e-2


@given(per_second=RATES, seconds=SECONDS)
def test_after_its_pause_a_key_may_go_on(per_second: float, seconds: float) -> None:
    rate, clock = rate_of(per_second, per_second * seconds)
    while not (quota := rate.take("a")).delay and quota.left < 3000:
        clock.now += 0.1 / per_second
    clock.now += quota.delay
    assert not rate.take("a").delay


def test_keys_have_nothing_to_do_with_each_other_and_are_told_what_is_left() -> None:
    rate, clock = rate_of(2, 10)
    assert [rate.take("a").left for _ in range(10)] == [*range(9, -1, -1)]
    assert rate.take("a") == (0.5, 0, 5)
    assert rate.take("b") == (0, 9, 0.5)
    clock.now += 2.5
    assert rate.take("a") == (0, 4, 3)


def test_the_keys_that_came_last_are_remembered() -> None:
    rate, _ = rate_of(1, 1, most_keys=2)
    for key in "abc":
        assert not rate.take(key).delay
    assert rate.take("c").delay
    assert rate.take("b").delay
    assert not rate.take("a").delay


@given(number=IN_A_MINUTE, pauses=st.lists(st.floats(0, 90), min_size=1, max_size=60))
def test_no_minute_has_more_than_the_rate_of_a_minute(number: float, pauses: list[float]) -> None:
    clock = Clock()
    rate = rate_in_a_minute(number, clock=clock)
    taken: list[float] = []
    for pause in pauses:
        clock.now += pause
        while len(taken) < 2000 and not rate.take().delay:
            taken.append(clock.now)
    for begin in taken:
        # A thousandth of a second is left out for the rounding of floats.
        assert sum(begin <= each < begin + 59.999 for each in taken) <= ceil(number)


@given(number=IN_A_MINUTE, count=st.integers(1, 500))
def test_who_waits_for_turns_gets_the_rate(number: float, count: int) -> None:
    async def take_all() -> None:
        for _ in range(count):
            await rate.turn(sleep=clock.sleep)

    clock = Clock()
    rate = rate_in_a_minute(number, clock=clock)
    asyncio.run(take_all())
    assert clock.now - 1000 <= (count / number) * 60 + 1


def test_a_rate_of_less_than_one_in_a_minute_is_no_rate() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        rate_in_a_minute(0.5)


async def test_turns_come_in_the_order_of_those_who_wait() -> None:
    rate, clock = rate_of(1, 1)
    order: list[int] = []

    async def wait(number: int) -> None:
        await rate.turn(sleep=clock.sleep)
        order.append(number)

    await asyncio.gather(*map(wait, range(5)))
    assert order == [0, 1, 2, 3, 4]
    assert clock.now == 1004


async def test_who_wants_to_wait_less_is_told_how_long_it_would_be() -> None:
    rate, _ = rate_of(1, 1)
    rate.pause(30)
    with pytest.raises(MustWait) as told:
        await rate.turn(longest_wait=10)
    assert told.value.seconds == 30


def test_what_is_spent_without_waiting_and_a_clock_set_back_cost_a_bounded_pause() -> None:
    rate, clock = rate_of(1, 3, longest_delay=60)
    for _ in range(3):
        rate.spend("a")
    assert rate.delay("a") == 1
    for _ in range(100):
        rate.spend("a")
    assert rate.delay("a") == 60
    clock.now -= 500
    assert rate.delay("a") == 60
    assert not rate.delay("b")


def test_one_that_goes_on_guessing_credentials_gets_few_tries() -> None:
    wrong, clock = rate_of(0.1, 20, longest_delay=60)
    tries = 0
    while clock.now < 1000 + 3600:
        if seconds := wrong.delay("a"):
            clock.now += seconds
        else:
            wrong.spend("a")
            tries += 1
    assert 300 < tries <= 20 + 3600 / 10 + 1
