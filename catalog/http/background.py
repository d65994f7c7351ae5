"""Tasks that go on after their request was answered, until they are done or the node stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from aiohttp import web


class BackgroundTasks:
    """The background tasks of one application."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, task: Coroutine[Any, Any, None]) -> None:
        """Begin a task, which bounds its own time and handles its own errors."""
        running = asyncio.create_task(task)
        self._tasks.add(running)
        running.add_done_callback(self._tasks.discard)

    async def end(self, _: web.Application) -> None:
        """Cancel the tasks that are not done."""
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


BACKGROUND_TASKS: web.AppKey[BackgroundTasks] = web.AppKey("background", BackgroundTasks)
