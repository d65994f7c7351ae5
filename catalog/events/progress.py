"""Writes down how far deliveries have come, many at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from catalog.model.errors import ServerBusy
from catalog.store.database import Database, Signal
from catalog.store.subscriptions import Progress, save_progress

Sleep = Callable[[float], Awaitable[None]]

_NEWS_SECONDS = 0.05
_SKIPS_SECONDS = 1.0
_SKIPS_PER_SECOND = 1000
_UNSAVED_LIMIT = 200
_SAVE_TIMEOUT_SECONDS = 10
_LAST_SAVE_SECONDS = 2


class ProgressWriter:
    """The durable cursors of a process's deliveries.

    After a crash at most what was acknowledged within the last save interval, and never
    more than a fixed number of events per subscription, is delivered again.
    """

    def __init__(self, database: Database, *, sleep: Sleep = asyncio.sleep) -> None:
        self._database = database
        self._sleep = sleep
        self._unsaved: dict[str, Progress] = {}
        self._news: set[str] = set()
        self._has_news = asyncio.Event()
        self._saved = Signal()
        self._saving = asyncio.Lock()

    async def record(self, progress: Progress) -> None:
        """Note what happened; waits while too much of this subscription is not saved yet."""
        saved = self._saved.ticket()
        self.skip(progress)
        self._news.add(progress.id)
        self._has_news.set()
        if self._unsaved[progress.id].delivered >= _UNSAVED_LIMIT:
            await saved.wait()

    def skip(self, progress: Progress) -> None:
        """Note that a cursor passed events that do not match; this is saved at leisure."""
        earlier = self._unsaved.get(progress.id)
        self._unsaved[progress.id] = progress if earlier is None else _merged(earlier, progress)

    async def run(self) -> None:
        """Save for ever, and once more when cancelled, so that a restart repeats nothing."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_news())
                group.create_task(self._run_skips())
        finally:
            with contextlib.suppress(ServerBusy, TimeoutError):
                async with asyncio.timeout(_LAST_SAVE_SECONDS):
                    await self.save_once()

    async def save_once(self) -> int:
        """Save everything that is not saved yet, and say of how many subscriptions."""
        return await self._save(list(self._unsaved))

    async def _run_news(self) -> None:
        while True:
            await self._has_news.wait()
            await self._sleep(_NEWS_SECONDS)
            await self._try_to_save(self._news)

    async def _run_skips(self) -> None:
        while True:
            await self._sleep(max(_SKIPS_SECONDS, len(self._unsaved) / _SKIPS_PER_SECOND))
            await self._try_to_save(self._unsaved)

    async def _try_to_save(self, ids: Iterable[str]) -> None:
        """What cannot be saved now is saved later."""
        try:
            await self._save(list(ids))
        except (ServerBusy, TimeoutError):
            await self._database.recovered()

    async def _save(self, ids: Iterable[str]) -> int:
        async with self._saving, asyncio.timeout(_SAVE_TIMEOUT_SECONDS):
            due = [self._unsaved.pop(id) for id in sorted(ids) if id in self._unsaved]
            self._news.difference_update(progress.id for progress in due)
            if not self._news:
                self._has_news.clear()
            try:
                if due:
                    async with self._database.pool.acquire() as connection:
                        await save_progress(connection, due)
            except BaseException:
                self._put_back(due)
                raise
            self._saved.set()
            return len(due)

    def _put_back(self, due: Iterable[Progress]) -> None:
        for progress in due:
            later = self._unsaved.get(progress.id)
            self._unsaved[progress.id] = progress if later is None else _merged(progress, later)


def _merged(earlier: Progress, later: Progress) -> Progress:
    return replace(
        later,
        delivered=earlier.delivered + later.delivered,
        deliveredat=later.deliveredat or earlier.deliveredat,
    )
