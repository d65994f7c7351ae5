"""The progress of deliveries: in memory for each delivery, and saved for many at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Self

from catalog.model.errors import ServerBusy
from catalog.store.changes import Position
from catalog.store.database import Database, Signal
from catalog.subscriptions.delivery.logtail import LogEntry
from catalog.subscriptions.stored.deliveryattempts import Attempt, add_attempts
from catalog.subscriptions.stored.subscriptions import Progress, Subscription, save_progress

Sleep = Callable[[float], Awaitable[None]]

_RECORD_SECONDS = 0.05
_SKIP_SECONDS = 1.0
_SKIPS_PER_SECOND = 1000
_UNSAVED_LIMIT = 200
_MOST_ATTEMPTS = 10_000
_SAVE_TIMEOUT_SECONDS = 10
_LAST_SAVE_SECONDS = 2
# The members of `Progress` that begin anew with each save, and the other members.
_SINCE_SAVE: dict[str, Any] = {
    **dict.fromkeys(("delivered", "failed", "failedattempts"), 0),
    **dict.fromkeys(("deliveredat", "failedat", "failedcause", "lostat")),
}
_KEPT = [each.name for each in fields(Progress) if each.name not in _SINCE_SAVE]


@dataclass(slots=True, kw_only=True)
class DeliveryRecord(Progress):
    """The position and the failures of a delivery, with the progress that is not saved yet.

    Args:
        total: the number of events that the sink has accepted in all.
        settled: the number of events of the change after the cursor that need no more delivery.
        is_due: the progress is to be saved soon.
    """

    total: int
    settled: int = 0
    is_due: bool = False

    @classmethod
    def of(cls, subscription: Subscription) -> Self:
        """The record of a delivery that begins."""
        kept = {name: getattr(subscription, name) for name in _KEPT}
        return cls(total=subscription.delivered, **kept)

    def continue_from(self, earlier: DeliveryRecord) -> None:
        """Take over the unsaved progress of an earlier delivery of the subscription."""
        self.total = max(self.total, earlier.total)
        # A command moved the cursor in between, so the earlier position no longer counts.
        if self.course != earlier.course:
            return
        self.cursor = max(self.cursor, earlier.cursor)
        if earlier.initial is None or (self.initial is not None and earlier.initial > self.initial):
            self.initial = earlier.initial

    def pass_entry(self, entry: LogEntry) -> None:
        """Move on past an entry without undelivered events."""
        self.settled = 0
        if entry.initial is None:
            self.cursor = entry.position
        else:
            self.initial = entry.initial

    def finish_initial(self) -> None:
        """Note that every initial event has been delivered."""
        self.initial = None
        self.is_due = True

    def accepted(self, count: int, now: datetime, *, is_next: bool = True) -> None:
        """Note that the sink accepted events.

        If the events were next in the log (`is_next`), the following event is untried.
        """
        self.total += count
        self.delivered, self.deliveredat = self.delivered + count, now
        self.failures, self.failingsince, self.error, self.nextattemptat = 0, None, None, None
        if is_next:
            self.tried, self.triedsince = 0, None
        self.is_due = True

    def refused(self, cause: str, now: datetime, *, is_next: bool = True) -> None:
        """Note that an attempt, with the next event of the log if `is_next`, failed."""
        self.waits(cause, now)
        self.attempt_failed(cause, now)
        if is_next:
            self.tried += 1
            self.triedsince = self.triedsince or now

    def attempt_failed(self, cause: str, now: datetime) -> None:
        """Note a failed attempt for which further events of the sink need not wait."""
        self.failedattempts += 1
        self.failedat, self.failedcause = now, cause
        self.is_due = True

    def waits(self, cause: str, now: datetime) -> None:
        """Note the cause of a pause in sending."""
        self.failures += 1
        self.failingsince = self.failingsince or now
        self.error = cause
        self.is_due = True

    def gave_up(self, count: int) -> None:
        """Note that events became dead letters; the following event has not been tried."""
        self.failed += count
        self.tried, self.triedsince = 0, None
        self.is_due = True

    def lost(self, begin: Position, now: datetime) -> None:
        """Go on where the log begins; earlier changes are lost without delivery."""
        self.cursor, self.settled, self.lostat = begin, 0, now
        self.is_due = True

    def end(self, reason: str) -> None:
        """Note that the subscription has ended."""
        self.state, self.reason = "ended", reason
        self.is_due = True

    def take(self) -> tuple[Progress, bool]:
        """The progress since the last call, and whether to save it soon."""
        since = {name: getattr(self, name) for name in _SINCE_SAVE}
        progress = Progress(**{name: getattr(self, name) for name in _KEPT}, **since)
        for name, empty in _SINCE_SAVE.items():
            setattr(self, name, empty)
        is_due, self.is_due = self.is_due, False
        return progress, is_due


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
