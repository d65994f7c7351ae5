"""Saves the cursors of deliveries, many at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from catalog.model.errors import ServerBusy
from catalog.store.database import Database, Signal
from catalog.store.deliveryprogress import Progress, save_progress

Sleep = Callable[[float], Awaitable[None]]

_RECORD_SECONDS = 0.05
_SKIP_SECONDS = 1.0
_SKIPS_PER_SECOND = 1000
_UNSAVED_LIMIT = 200
_SAVE_TIMEOUT_SECONDS = 10
_LAST_SAVE_SECONDS = 2


class ProgressWriter:
    """Saves the cursors of a process's deliveries.

    After a crash, events that were acknowledged within the last save interval are delivered
    again, a bounded number of them for each subscription.
    """

    def __init__(self, database: Database, *, sleep: Sleep = asyncio.sleep) -> None:
        self._database = database
        self._sleep = sleep
        self._unsaved: dict[str, Progress] = {}
        self._recorded: set[str] = set()
        self._has_records = asyncio.Event()
        self._saved = Signal()
        self._saving = asyncio.Lock()

    async def record(self, progress: Progress) -> None:
        """Save soon; wait first while too much of this subscription is not saved yet."""
        saved = self._saved.ticket()
        self.skip(progress)
        self._recorded.add(progress.id)
        self._has_records.set()
        if self._unsaved[progress.id].delivered >= _UNSAVED_LIMIT:
            await saved.wait()

    def skip(self, progress: Progress) -> None:
        """Save within seconds that a cursor passed events that do not match."""
        earlier = self._unsaved.get(progress.id)
        self._unsaved[progress.id] = progress if earlier is None else _merged(earlier, progress)

    async def run(self) -> None:
        """Save for ever, and once more when cancelled, so that a restart repeats no event."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_records())
                group.create_task(self._run_skips())
        finally:
            with contextlib.suppress(ServerBusy, TimeoutError):
                async with asyncio.timeout(_LAST_SAVE_SECONDS):
                    await self.save_once()

    async def save_once(self) -> int:
        """Save everything that is not saved yet; return the number of subscriptions."""
        return await self._save(list(self._unsaved))

    async def _run_records(self) -> None:
        while True:
            await self._has_records.wait()
            await self._sleep(_RECORD_SECONDS)
            await self._try_to_save(self._recorded)

    async def _run_skips(self) -> None:
        while True:
            await self._sleep(max(_SKIP_SECONDS, len(self._unsaved) / _SKIPS_PER_SECOND))
            await self._try_to_save(self._unsaved)

    async def _try_to_save(self, ids: Iterable[str]) -> None:
        """Save, or leave it for later while the database is away."""
        try:
            await self._save(list(ids))
        except (ServerBusy, TimeoutError):
            await self._database.recovered()

    async def _save(self, ids: Iterable[str]) -> int:
        async with self._saving, asyncio.timeout(_SAVE_TIMEOUT_SECONDS):
            due = [self._unsaved.pop(id) for id in sorted(ids) if id in self._unsaved]
            self._recorded.difference_update(progress.id for progress in due)
            if not self._recorded:
                self._has_records.clear()
            try:
                if due:
                    async with self._database.pool.acquire() as connection:
                        await save_progress(connection, due)
            except BaseException:
                for progress in due:
                    later = self._unsaved.get(progress.id)
                    self._unsaved[progress.id] = _merged(progress, later) if later else progress
                raise
            self._saved.set()
            return len(due)


def _merged(earlier: Progress, later: Progress) -> Progress:
    return replace(
        later,
        delivered=earlier.delivered + later.delivered,
        deliveredat=later.deliveredat or earlier.deliveredat,
        failed=earlier.failed + later.failed,
        failedattempts=earlier.failedattempts + later.failedattempts,
        failedat=later.failedat or earlier.failedat,
        failedcause=later.failedcause or earlier.failedcause,
        lostat=later.lostat or earlier.lostat,
    )
