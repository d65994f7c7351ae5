"""Bounds how much of a process its deliveries take at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

# To send a request and to read its answer takes a fraction of a millisecond each. With a few
# under way at a time, clients of the same process wait a few milliseconds at most.
_COUNT = 4
_PATIENCE_SECONDS = 0.005


class DeliverySlots:
    """Slots for requests that are under way; whoever waits for one gets it in turn.

    A slot is given back as soon as the sink has answered, or after a moment in which it has
    not: to wait for a sink costs nothing, and a slow one must not hold back others.
    """

    def __init__(self, count: int = _COUNT, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._free = asyncio.Semaphore(count)
        self._patience_seconds = patience_seconds

    @contextlib.asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Begin when a slot is free."""
        await self._free.acquire()
        held = _Held(self._free)
        early = asyncio.get_running_loop().call_later(self._patience_seconds, held.give_back)
        try:
            yield
        finally:
            early.cancel()
            held.give_back()


class _Held:
    """One slot, which is given back once."""

    __slots__ = ("_free", "_is_held")

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free = free
        self._is_held = True

    def give_back(self) -> None:
        if self._is_held:
            self._is_held = False
            self._free.release()
