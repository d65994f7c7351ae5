"""Bounds the rate of operations, operations at a time, or bytes in use, by key and in total.

A key names the holder of a part of the whole: a client, an address, a host. The part of a key is
small enough that a single key never keeps other keys out. The caller gives the key. The empty key
is the node itself, which has no bound but the total. Keys without a part in use are forgotten.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

from catalog.model.concorderrors import TooManyAtOnce
from catalog.model.errors import ServerBusy, XRegistryError

_MOST_KEYS = 16_384
# The rounding of the times of a wall clock, as floats.
_ROUNDING = 1e-6


class Quota(NamedTuple):
    """The state of a key's bucket after `Rate.take`.

    Args:
        delay: seconds until the next operation may begin; 0 if the operation was counted.
        left: the number of further operations that may begin at once.
        full: seconds until the bucket is full, and a whole burst may begin at once.
    """

    delay: float
    left: int
    full: float


class MustWait(Exception):
    """A turn comes later than the caller wants to wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the next may go in {seconds:g} seconds")
        self.seconds = seconds


class Rate:
    """A rate of operations per second for each key, with bursts after a pause: a token bucket.

    The bucket of a key is stored as a single number, the time at which the bucket is full (the
    generic cell rate algorithm, ITU-T I.371). A full bucket equals an unused bucket. The most
    recently used keys are stored.

    Args:
        per_second: the rate at which a bucket is filled.
        burst: the most operations that may begin at once; at least 1.
        longest_delay: the longest delay in seconds, even after operations that did not wait
            (`spend`) or after a clock is set back.
        most_keys: the number of stored keys.
        clock: returns the time in seconds.
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
        """The seconds until the next operation may begin; 0 without a delay."""
        return self._delay_at(self._clock(), key)

    def take(self, key: str = "") -> Quota:
        """Count an operation, unless the operation has to wait."""
        now = self._clock()
        if (delay := self._delay_at(now, key)) > 0:
            return Quota(delay, 0, _rounded(self._filled(now, key) - now))
        full = _rounded(self._count(now, key) - now)
        left = self.burst - full * self.per_second
        return Quota(0.0, max(0, int(left + _ROUNDING * max(1.0, self.per_second))), full)

    def spend(self, key: str = "") -> None:
        """Count an operation that has begun, whether the operation should have waited or not."""
        self._count(self._clock(), key)

    def pause(self, seconds: float, key: str = "") -> None:
        """Let no operation begin for some seconds."""
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
        """Wait until an operation may begin, in the order of the calls, and count the operation.

        Raises:
            MustWait: the delay is longer than `longest_wait` seconds.
        """
        # The lock keeps the order of the calls: sleeping tasks would race for the next operation.
        async with self._turn:
            while (delay := self.delay(key)) > 0:
                if delay > longest_wait:
                    raise MustWait(delay)
                await sleep(delay)
            self.spend(key)

    def _delay_at(self, now: float, key: str) -> float:
        delay = self._filled(now, key) - now - (self.burst - 1) / self.per_second
        return _rounded(delay) if delay > _ROUNDING else 0.0

    def _filled(self, now: float, key: str) -> float:
        """The time at which the bucket of a key is full."""
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


def _rounded(seconds: float) -> float:
    return round(seconds, 6)


def rate_in_a_minute(
    number: float, *, longest_delay: float = math.inf, clock: Callable[[], float] = time.monotonic
) -> Rate:
    """A rate of at most `number` operations in every 60 seconds; a burst is a second's operations.

    Raises:
        ValueError: the number is less than 1.
    """
    if number < 1:
        raise ValueError("a rate is at least 1 in a minute")
    burst = max(1.0, number // 60)
    # A burst and the operations of the following minute are together no more than the number.
    return Rate((number - (burst - 1)) / 60, burst, longest_delay=longest_delay, clock=clock)


class Things(NamedTuple):
    """The bounded things, as a refusal names the things.

    Args:
        name: the name of the things, in the plural.
        setting: the setting of the bound; a key has a fixed part of the bound.
    """

    name: str
    setting: str = "fixed"

    def refuse_key(self, path: str, most: int) -> XRegistryError:
        """The error of a key that uses up the part of a key."""
        return TooManyAtOnce(path, limit=str(most), things=self.name, setting=self.setting)

    def refuse_all(self, path: str, most: int) -> XRegistryError:
        """The error of a key below the part of a key, while the keys together use up the whole."""
        return ServerBusy(path, detail=f"There are {most} {self.name} under way ({self.setting}).")


class Share:
    """A bounded number of places; each key may hold a bounded part of the places.

    A waiting task holds no place. Keys take turns: a free place goes to the next key, and among the
    tasks of the key to the task that has waited longest.

    Args:
        most: the number of places.
        per_key: the most places that a key may hold.
        leaves_free: instead of `per_key`, a key may hold at most as many places as are free: a
            single key holds half of the places at most, two keys a third each, and the next key
            finds a free place.
        things: the name of the places in refusals; by default a refusal is a plain `ServerBusy`.
    """

    def __init__(
        self,
        most: int,
        *,
        per_key: int | None = None,
        leaves_free: bool = False,
        things: Things | None = None,
    ) -> None:
        self.limit = most
        self.used = self.waiting = 0
        self._per_key = most if per_key is None else per_key
        self._leaves_free = leaves_free
        self._things = things
        self._used_of: Counter[str] = Counter()
        # Waiting tasks by key in the order of turns, and of each key the oldest first.
        self._queues: OrderedDict[str, dict[asyncio.Future[None], None]] = OrderedDict()

    @contextlib.asynccontextmanager
    async def hold(
        self, key: str = "", *, wait_seconds: float | None = None, path: str = "/"
    ) -> AsyncIterator[None]:
        """A context in which a key has a place; see `take`."""
        await self.take(key, wait_seconds=wait_seconds, path=path)
        try:
            yield
        finally:
            self.give_back(key)

    async def take(
        self, key: str = "", *, wait_seconds: float | None = None, path: str = "/"
    ) -> None:
        """Take a place, which `give_back` frees.

        Args:
            key: the holder of the place.
            wait_seconds: the longest wait for a place; unlimited by default.
            path: the path of the request, for refusals.

        Raises:
            TooManyAtOnce: the key holds the most places of a key.
            ServerBusy: the keys together hold every place.
        """
        if self.take_now(key):
            return
        if wait_seconds is not None and wait_seconds <= 0:
            raise self._refusal(key, path)
        await self._wait(key, wait_seconds, path)

    def take_now(self, key: str = "") -> bool:
        """Take a place if the key may have a free place; return whether a place was taken."""
        # A new task must not overtake the tasks that wait.
        if key in self._queues or not self._admits(key):
            return False
        self._give(key)
        return True

    def give_back(self, key: str = "") -> None:
        """Free a place, and give free places to waiting tasks."""
        self.used -= 1
        _subtract(self._used_of, key, 1)
        while self.used < self.limit and (next_key := self._next()) is not None:
            turn = next(iter(self._queues[next_key]))
            self._leave(next_key, turn)
            # A task that is cancelled, or waits no longer, leaves its turn to the next task.
            if not turn.done():
                self._give(next_key)
                turn.set_result(None)

    def _admits(self, key: str) -> bool:
        """Whether a key may have one more place."""
        if self.used >= self.limit:
            return False
        part = self.limit - self.used if self._leaves_free else self._per_key
        return not key or self._used_of[key] < part

    def _give(self, key: str) -> None:
        self.used += 1
        self._used_of[key] += 1

    def _next(self) -> str | None:
        """The key with the next turn, if a place is free; its turn comes again after the others.

        Only keys that hold places can be passed over, so that the search is short however many keys
        wait.
        """
        for key in self._queues:
            if self._admits(key):
                self._queues.move_to_end(key)
                return key
        return None

    async def _wait(self, key: str, wait_seconds: float | None, path: str) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        clock = None if wait_seconds is None else loop.call_later(wait_seconds, _end_wait, turn)
        self._queues.setdefault(key, {})[turn] = None
        self.waiting += 1
        try:
            await turn
        except BaseException as error:
            # A task may be cancelled after the place was given and before the task resumes.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give_back(key)
            else:
                self._leave(key, turn)
            if isinstance(error, TimeoutError):
                raise self._refusal(key, path) from None
            raise
        finally:
            if clock is not None:
                clock.cancel()

    def _leave(self, key: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(key, {})
        if turn not in queue:
            return
        del queue[turn]
        self.waiting -= 1
        if not queue:
            del self._queues[key]

    def _refusal(self, key: str, path: str) -> XRegistryError:
        if self._things is None:
            return ServerBusy(path)
        if key and self._used_of[key] >= self._per_key:
            return self._things.refuse_key(path, self._per_key)
        return self._things.refuse_all(path, self.limit)


def _end_wait(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(TimeoutError())


class Bytes:
    """A bounded number of bytes in use.

    Args:
        most: the most bytes in total.
        per_key: the most bytes of a key.
        things: the name of the bytes in refusals.
    """

    def __init__(self, most: int, *, per_key: int, things: Things) -> None:
        self.limit = most
        self.used = 0
        self._per_key = per_key
        self._things = things
        self._used_of: Counter[str] = Counter()

    def take(self, key: str, size: int, *, path: str = "/") -> None:
        """Count `size` further bytes, until `give_back`.

        Raises:
            TooManyAtOnce: the key would exceed the bound of a key.
            ServerBusy: the keys together would exceed the total.
        """
        if key and self._used_of[key] + size > self._per_key:
            raise self._things.refuse_key(path, self._per_key)
        if self.used + size > self.limit:
            raise self._things.refuse_all(path, self.limit)
        self.used += size
        self._used_of[key] += size

    def give_back(self, key: str, size: int) -> None:
        """Stop counting `size` bytes of a key."""
        self.used -= size
        _subtract(self._used_of, key, size)


def _subtract(counts: Counter[str], key: str, number: int) -> None:
    counts[key] -= number
    if not counts[key]:
        del counts[key]
