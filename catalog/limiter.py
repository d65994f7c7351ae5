"""Bounds the rate of work for each key: a client, an address, a host. The caller gives the key."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

_MOST_KEYS = 16_384
# The rounding of the times of a wall clock, as floats.
_ROUNDING = 1e-6


class Quota(NamedTuple):
    """What a rate leaves to a key.

    Args:
        delay: seconds until the next may go; 0 if it went.
        left: how many more may go at once.
        full: seconds until as many may go at once as ever may.
    """

    delay: float
    left: int
    full: float


class MustWait(Exception):
    """A turn comes later than its caller wants to wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the next may go in {seconds:g} seconds")
        self.seconds = seconds


class Rate:
    """So many in a second for each key, and after a pause a burst: a token bucket.

    The bucket of a key is one number, the time at which it is full (the generic cell rate
    algorithm, ITU-T I.371): a bucket that is full is like one that nobody has used. The keys that
    came last are remembered.

    Args:
        per_second: how fast a bucket is filled.
        burst: how many may go at once; less than 1 lets one through all the same.
        longest_delay: seconds; what goes without waiting (`spend`), or a clock that is set back,
            makes nobody wait longer.
    """

    def __init__(
        self,
        per_second: float,
        burst: float,
        *,
        longest_delay: float = math.inf,
        most_keys: int = _MOST_KEYS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.per_second = per_second
        self.burst = max(burst, 1.0)
        self._longest_delay = longest_delay
        self._most_keys = most_keys
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._turn = asyncio.Lock()

    def delay(self, key: str = "") -> float:
        """The seconds until the next may go; 0 if that is at once."""
        return self._delay_at(self._clock(), key)

    def take(self, key: str = "") -> Quota:
        """Let one go and count it, unless it has to wait."""
        now = self._clock()
        if (delay := self._delay_at(now, key)) > 0:
            return Quota(delay, 0, self._filled(now, key) - now)
        full = self._count(now, key) - now
        return Quota(0.0, int(self.burst - full * self.per_second + _ROUNDING), full)

    def spend(self, key: str = "") -> None:
        """Count one that has gone, whether it should have waited or not."""
        self._count(self._clock(), key)

    def pause(self, seconds: float, key: str = "") -> None:
        """Let nothing go for so long."""
        now = self._clock()
        until = now + seconds + (self.burst - 1) / self.per_second
        self._remember(key, max(self._filled(now, key), until))

    async def turn(
        self,
        key: str = "",
        *,
        longest_wait: float = math.inf,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Wait until one may go, first come, first served, and count it.

        Raises:
            MustWait: that takes more than `longest_wait` seconds.
        """
        async with self._turn:
            while (delay := self.delay(key)) > 0:
                if delay > longest_wait:
                    raise MustWait(delay)
                await sleep(delay)
            self.spend(key)

    def _delay_at(self, now: float, key: str) -> float:
        delay = self._filled(now, key) - now - (self.burst - 1) / self.per_second
        return delay if delay > _ROUNDING else 0.0

    def _filled(self, now: float, key: str) -> float:
        """When the bucket of a key is full."""
        latest = now + (self.burst - 1) / self.per_second + self._longest_delay
        return min(max(self._full_at.get(key, now), now), latest)

    def _count(self, now: float, key: str) -> float:
        full_at = self._filled(now, key) + 1 / self.per_second
        self._remember(key, full_at)
        return full_at

    def _remember(self, key: str, full_at: float) -> None:
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > self._most_keys:
            self._full_at.popitem(last=False)


def rate_in_a_minute(
    number: float, *, longest_delay: float = math.inf, clock: Callable[[], float] = time.monotonic
) -> Rate:
    """A rate of which no 60 seconds have more than `number`, in bursts of what a second brings.

    Raises:
        ValueError: the number is less than 1.
    """
    if number < 1:
        raise ValueError("a rate is at least 1 in a minute")
    burst = max(1.0, number // 60)
    # A burst and what comes back in the minute that it begins are no more than the number.
    return Rate((number - (burst - 1)) / 60, burst, longest_delay=longest_delay, clock=clock)
