"""Saves the cursors and the attempts of deliveries, many at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from catalog.model.errors import ServerBusy
from catalog.store.database import Database, Signal
from catalog.subscriptions.stored.deliveryattempts import Attempt, add_attempts
from catalog.subscriptions.stored.subscriptions import Progress, save_progress

Sleep = Callable[[float], Awaitable[None]]

_RECORD_SECONDS = 0.05
_SKIP_SECONDS = 1.0
_SKIPS_PER_SECOND = 1000
_UNSAVED_LIMIT = 200
_MOST_ATTEMPTS = 10_000
_SAVE_TIMEOUT_SECONDS = 10
_LAST_SAVE_SECONDS = 2


class ProgressWriter:
    """Saves the cursors and the attempts of a process's deliveries.

    After a crash, events that were acknowledged within the last save interval are delivered again,
    a bounded number for each subscription.

    Args:
        most_attempts: the largest number of attempts to keep per subscription.
    """

    def __init__(
        self, database: Database, *, most_attempts: int, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._database = database
        self._most_attempts = most_attempts
        self._sleep = sleep
        self._attempts: deque[Attempt] = deque(maxlen=_MOST_ATTEMPTS)
        self._unsaved: dict[str, Progress] = {}
        self._recorded: set[str] = set()
        self._has_records = asyncio.Event()
        self._saved = Signal()
        self._saving = asyncio.Lock()

    async def record(self, progress: Progress) -> None:
        """Save soon; first wait while the subscription has too many unsaved deliveries."""
        # Taken before `skip`: a save of the progress must not be missed.
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

    def attempted(self, attempt: Attempt) -> None:
        """Save an attempt within seconds; drop the oldest attempt when too many are unsaved."""
        self._attempts.append(attempt)

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
        """Save all unsaved progress; return the number of subscriptions."""
        count = await self._save(list(self._unsaved))
        await self._save_attempts()
        return count

    async def _run_records(self) -> None:
        while True:
            await self._has_records.wait()
            await self._sleep(_RECORD_SECONDS)
            await self._try_to_save(self._recorded)

    async def _run_skips(self) -> None:
        while True:
            await self._sleep(max(_SKIP_SECONDS, len(self._unsaved) / _SKIPS_PER_SECOND))
            await self._try_to_save(self._unsaved, with_attempts=True)

    async def _try_to_save(self, ids: Iterable[str], *, with_attempts: bool = False) -> None:
        """Save, or leave the progress for later while the database is away."""
        try:
            await self._save(list(ids))
            if with_attempts:
                await self._save_attempts()
        except (ServerBusy, TimeoutError):
            await self._database.recovered()

    async def _save(self, ids: Iterable[str]) -> int:
        # One save at a time, so that an earlier state cannot overwrite a later state.
        async with self._saving, asyncio.timeout(_SAVE_TIMEOUT_SECONDS):
            due = [self._unsaved.pop(id) for id in sorted(ids) if id in self._unsaved]
            self._recorded.difference_update(progress.id for progress in due)
            if not self._recorded:
                self._has_records.clear()
            try:
                if due:
                    async with self._database.acquire() as connection:
                        await save_progress(connection, due)
            except BaseException:
                # Put back before the progress that was recorded during the failed save.
                for progress in due:
                    later = self._unsaved.get(progress.id)
                    self._unsaved[progress.id] = _merged(progress, later) if later else progress
                raise
            self._saved.set()
            return len(due)

    async def _save_attempts(self) -> None:
        attempts, self._attempts = self._attempts, deque(maxlen=_MOST_ATTEMPTS)
        if not attempts:
            return
        try:
            async with (
                asyncio.timeout(_SAVE_TIMEOUT_SECONDS),
                self._database.acquire() as connection,
            ):
                await add_attempts(connection, attempts, most=self._most_attempts)
        except BaseException:
            attempts.extend(self._attempts)
            self._attempts = attempts
            raise


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
