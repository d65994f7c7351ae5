"""A clock for tests of what waits for a certain time."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from catalog.supervisor import LoopTiming

# Shorter sleeps are those of a node's own loops, and take their time.
_LEAST_HELD_SECONDS = 2.0


class SteppedTime:
    """A clock that only the test moves on; long sleeps last until it has.

    Args:
        begin: the time of the clock at first, from which the seconds of its methods count.
    """

    def __init__(self, begin: datetime) -> None:
        self.time = begin
        self._begin = begin
        self._sleeps: list[datetime] = []
        self._changed = asyncio.Condition()

    @property
    def timing(self) -> LoopTiming:
        return LoopTiming(now=lambda: self.time, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        if seconds < _LEAST_HELD_SECONDS:
            await asyncio.sleep(seconds)
            return
        until = self.time + timedelta(seconds=seconds)
        async with self._changed:
            self._sleeps.append(until)
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self.time >= until)

    async def sleeps_until(self, seconds: float, *, times: int = 1) -> None:
        """Wait until so many sleeps until this time have begun."""
        until = self._begin + timedelta(seconds=seconds)
        async with asyncio.timeout(15), self._changed:
            await self._changed.wait_for(lambda: self._sleeps.count(until) >= times)

    async def move_to(self, seconds: float) -> None:
        async with self._changed:
            self.time = self._begin + timedelta(seconds=seconds)
            self._changed.notify_all()
