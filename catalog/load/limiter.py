"""Bounds work by its rate, its number at a time, or its bytes, for each key and in all.

A key names who has a part of the whole: a client, an address, a host. Its part is small enough that
no key keeps the others out. The caller gives the key. The empty one is the node itself, which has
no bound but the one in all. Keys that hold nothing are forgotten.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from catalog.model.concorderrors import TooManyAtOnce
from catalog.model.errors import ServerBusy, XRegistryError

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
            return Quota(delay, 0, _rounded(self._filled(now, key) - now))
        full = _rounded(self._count(now, key) - now)
        left = self.burst - full * self.per_second
        return Quota(0.0, max(0, int(left + _ROUNDING * max(1.0, self.per_second))), full)

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
        return _rounded(delay) if delay > _ROUNDING else 0.0

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


def _rounded(seconds: float) -> float:
    return round(seconds, 6)


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


class Things(NamedTuple):
    """What is bounded, as a refusal names it.

    Args:
        name: in the plural.
        setting: the setting of the bound, of which a key has a fixed part.
    """

    name: str
    setting: str = "fixed"

    def refuse_key(self, path: str, most: int) -> XRegistryError:
        """The error of a key that has its part."""
        return TooManyAtOnce(path, limit=str(most), things=self.name, setting=self.setting)

    def refuse_all(self, path: str, most: int) -> XRegistryError:
        """The error of a key that has less than its part, while all together have the whole."""
        return ServerBusy(path, detail=f"There are {most} {self.name} under way ({self.setting}).")


class Share:
    """A bounded number of places; each key may hold a bounded part of them.

    A waiting task holds no place. Keys take turns: a free place goes to the next key, and among the
    tasks of that key to the task that has waited longest.

    Args:
        most: the places in all.
        per_key: the places that one key may hold.
        leaves_free: let a key hold no more places than it leaves free instead: a single key holds
            half at most, two keys a third each, and the next key finds a free place.
        things: names the places in refusals; without it, a refusal is that of a busy server.
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
        # Of the places in use, those that were taken within half.
        self._halves = 0
        self._halves_of: Counter[str] = Counter()
        # By key, and whether within half: those who wait, the first one first.
        self._queues: dict[_Line, dict[asyncio.Future[None], None]] = {}
        # The keys that wait and have less than their part, in the order of their turns.
        self._ready: dict[bool, OrderedDict[str, None]] = {
            False: OrderedDict(),
            True: OrderedDict(),
        }
        self._was_within_half = False

    def hold(
        self,
        key: str = "",
        *,
        within_half: bool = False,
        wait_seconds: float | None = None,
        path: str = "/",
    ) -> Held:
        """A context in which a key has a place; see `take`."""
        return Held(self, key, within_half, wait_seconds, path)

    async def take(
        self,
        key: str = "",
        *,
        within_half: bool = False,
        wait_seconds: float | None = None,
        path: str = "/",
    ) -> None:
        """Take a place, which `give_back` frees.

        Args:
            within_half: leave half of the places, in all and of the key, to others.
            wait_seconds: how long to wait for a place; for ever unless given.
            path: of the request that a refusal is about.

        Raises:
            TooManyAtOnce: the key has its part.
            ServerBusy: all keys together have all places.
        """
        if self.take_now(key, within_half=within_half):
            return
        if wait_seconds is not None and wait_seconds <= 0:
            raise self._refusal(key, path)
        await self._wait((key, within_half), wait_seconds, path)

    def take_now(self, key: str = "", *, within_half: bool = False) -> bool:
        """Take a place if there is one for the key; return whether there was."""
        line = key, within_half
        if line in self._queues or not self._admits(line):
            return False
        self._give(line)
        return True

    def give_back(self, key: str = "", *, within_half: bool = False) -> None:
        """Free a place, for whose turn it is."""
        self.used -= 1
        _subtract(self._used_of, key, 1)
        if within_half:
            self._halves -= 1
            _subtract(self._halves_of, key, 1)
        if not self._queues:
            return
        self._find_ready((key, False))
        self._find_ready((key, True))
        while self.used < self.limit and (line := self._next()):
            turn = next(iter(self._queues[line]))
            self._leave(line, turn)
            if not turn.done():
                self._give(line)
                turn.set_result(None)

    def _admits(self, line: _Line) -> bool:
        is_full = line[1] and self._halves >= max(1, self.limit // 2)
        return self.used < self.limit and not is_full and self._has_less_than_its_part(line)

    def _has_less_than_its_part(self, line: _Line) -> bool:
        key, within_half = line
        if not key:
            return True
        part = self.limit - self.used if self._leaves_free else self._per_key
        if within_half and self._halves_of[key] >= max(1, part // 2):
            return False
        return self._used_of[key] < part

    def _give(self, line: _Line) -> None:
        key, within_half = line
        self.used += 1
        self._used_of[key] += 1
        if within_half:
            self._halves += 1
            self._halves_of[key] += 1

    def _next(self) -> _Line | None:
        """Whose turn it is, if a place is free."""
        if self._leaves_free:
            # What a key may have changes with each place; there are few places and few keys.
            due = [line for line in self._queues if self._admits(line)]
            return min(due, key=lambda line: self._used_of[line[0]], default=None)
        for within_half in (not self._was_within_half, self._was_within_half):
            ready = self._ready[within_half]
            while ready and not (within_half and self._halves >= max(1, self.limit // 2)):
                key = next(iter(ready))
                if self._has_less_than_its_part((key, within_half)):
                    ready.move_to_end(key)
                    self._was_within_half = within_half
                    return key, within_half
                del ready[key]
        return None

    def _find_ready(self, line: _Line) -> None:
        if line in self._queues and self._has_less_than_its_part(line):
            self._ready[line[1]].setdefault(line[0])

    async def _wait(self, line: _Line, wait_seconds: float | None, path: str) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        clock = None if wait_seconds is None else loop.call_later(wait_seconds, _end_wait, turn)
        self._queues.setdefault(line, {})[turn] = None
        self.waiting += 1
        self._find_ready(line)
        try:
            await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give_back(line[0], within_half=line[1])
            else:
                self._leave(line, turn)
            if isinstance(error, TimeoutError):
                raise self._refusal(line[0], path) from None
            raise
        finally:
            if clock is not None:
                clock.cancel()

    def _leave(self, line: _Line, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(line, {})
        if turn not in queue:
            return
        del queue[turn]
        self.waiting -= 1
        if not queue:
            del self._queues[line]
            self._ready[line[1]].pop(line[0], None)

    def _refusal(self, key: str, path: str) -> XRegistryError:
        if self._things is None:
            return ServerBusy(path)
        if key and self._used_of[key] >= self._per_key:
            return self._things.refuse_key(path, self._per_key)
        return self._things.refuse_all(path, self.limit)


def _end_wait(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(TimeoutError())


_Line: TypeAlias = tuple[str, bool]


class Held:
    """A place of a `Share`, for the time of a context.

    It is a class since deliveries enter one for each event: generators as contexts take several
    times as long.
    """

    __slots__ = ("_key", "_path", "_share", "_wait_seconds", "_within_half")

    def __init__(
        self, share: Share, key: str, within_half: bool, wait_seconds: float | None, path: str
    ) -> None:
        self._share = share
        self._key = key
        self._within_half = within_half
        self._wait_seconds = wait_seconds
        self._path = path

    async def __aenter__(self) -> None:
        await self._share.take(
            self._key,
            within_half=self._within_half,
            wait_seconds=self._wait_seconds,
            path=self._path,
        )

    async def __aexit__(self, *_: object) -> None:
        self._share.give_back(self._key, within_half=self._within_half)


class Bytes:
    """So many bytes held at once.

    Args:
        most: the bytes in all.
        per_key: those of one key.
        things: names them in refusals.
    """

    def __init__(self, most: int, *, per_key: int, things: Things) -> None:
        self.limit = most
        self.used = 0
        self._per_key = per_key
        self._things = things
        self._used_of: Counter[str] = Counter()

    def take(self, key: str, size: int, *, path: str = "/") -> None:
        """Count `size` bytes more, until `give_back`.

        Raises:
            TooManyAtOnce: the key would hold more than one may.
            ServerBusy: all keys together would hold more than they may.
        """
        if key and self._used_of[key] + size > self._per_key:
            raise self._things.refuse_key(path, self._per_key)
        if self.used + size > self.limit:
            raise self._things.refuse_all(path, self.limit)
        self.used += size
        self._used_of[key] += size

    def give_back(self, key: str, size: int) -> None:
        """Count `size` bytes of a key no more."""
        self.used -= size
        _subtract(self._used_of, key, size)


def _subtract(counts: Counter[str], key: str, number: int) -> None:
    counts[key] -= number
    if not counts[key]:
        del counts[key]
