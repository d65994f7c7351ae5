"""Wakes whoever waits for something else to do."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from catalog.store.database import wait_for

_Result = TypeVar("_Result")


class Wakeup:
    """Wakes a runner that waits, or one that is about to."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        self._event.set()

    def fall_silent(self) -> None:
        """Forget the rings so far: the runner is about to look anyway."""
        self._event.clear()

    async def wait(self, timeout_seconds: float) -> bool:
        """Whether there is a ring, or was one since the bell fell silent, within that time."""
        return await wait_for(self._event, timeout_seconds)

    async def during(self, work: Coroutine[Any, Any, _Result]) -> _Result | None:
        """The result of some work, or `None` if there was a ring and the work was given up."""
        working, ringing = asyncio.create_task(work), asyncio.create_task(self._event.wait())
        try:
            await asyncio.wait((working, ringing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_done = working.done()
            for task in (working, ringing):
                task.cancel()
            await asyncio.wait((working, ringing))
        self._event.clear()
        return working.result() if is_done else None
