"""Work that goes on when its request has been answered, until it is done or the node stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from aiohttp import web


class BackgroundTasks:
    """The work of one application that no client waits for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work`, which bounds its own time and deals with its own failures."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self, _: web.Application) -> None:
        """Give up what is not done."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


BACKGROUND_TASKS: web.AppKey[BackgroundTasks] = web.AppKey("afterwards", BackgroundTasks)
