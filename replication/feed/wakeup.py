"""Gives up work when the link is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def until_woken(work: Coroutine[Any, Any, T], wakeup: asyncio.Event) -> T | None:
    """Return the result of `work`, or cancel it and return `None` when `wakeup` is set."""
    working, waiting = asyncio.create_task(work), asyncio.create_task(wakeup.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Read before the cancellation, after which both tasks are done.
        is_done = working.done()
        for task in (working, waiting):
            task.cancel()
        await asyncio.wait((working, waiting))
    wakeup.clear()
    return working.result() if is_done else None
