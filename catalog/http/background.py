"""Tasks that continue after the answer to a request, until they are done or the node stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from aiohttp import web


class BackgroundTasks:
    """The background tasks of an application."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, task: Coroutine[Any, Any, None]) -> None:
        """Begin a task, which must bound its own time and handle its own errors."""
        running = asyncio.create_task(task)
        # The event loop holds a weak reference only: an unreferenced task can be collected.
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    async def end(self, _: web.Application) -> None:
        """Cancel the tasks that are not done."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


BACKGROUND_TASKS: web.AppKey[BackgroundTasks] = web.AppKey("background", BackgroundTasks)
