"""Reads the end of a log once for all synced subscribers."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from cloudevents.core.v1.event import CloudEvent

from catalog.http.responses import shown_or_none
from catalog.model.errors import ServerBusy
from catalog.store.changes import ChangesDropped, Position, read_head
from catalog.store.database import Connection, Database, wait_for
from catalog.subscriptions.delivery.filters import FilterIndex, Required
from catalog.subscriptions.sinks.outgoing import OutgoingEvent

_BEGIN = Position(0, 0)
_READ_LIMIT = 1000
# After so many subscribers or changes, other tasks of the event loop get a turn.
_AT_ONCE = 16
# The number of idle subscribers per second that learn of changes without interest to them.
_PASSED_PER_SECOND = 1000
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 1.0


class LogEntry:
    """An entry of a log, whose events are rendered on first use.

    Args:
        at: the time of the entry.
        xid: the entity of the entry, if the entry is about an entity.
        createdby: the owner's principal, if the entry is about a subscription.
        initial: the xid of an existing entity, reported as if just created; `None` for an entry of
            the log.
    """

    def __init__(
        self,
        position: Position,
        at: datetime,
        render: Callable[[], Sequence[CloudEvent]],
        *,
        xid: str | None = None,
        createdby: str | None = None,
        initial: str | None = None,
    ) -> None:
        self._render = render
        self.position = position
        self.at = at
        self.xid = xid
        self.createdby = createdby
        self.initial = initial

    def untold(self) -> LogEntry:
        """The entry without events, for a subscriber that may not know of the events."""
        return LogEntry(self.position, self.at, tuple, xid=self.xid, initial=self.initial)

    @cached_property
    def events(self) -> Sequence[OutgoingEvent]:
        """The events; no events if rendering fails, since the log goes on after the entry."""
        found = shown_or_none(
            f"the change at {self.position}",
            lambda: tuple(OutgoingEvent(event) for event in self._render()),
        )
        return found or ()


class LogReader:
    """Reads one log, and renders the entries in one dialect; `source` is the source of events."""

    def __init__(self, source: str) -> None:
        self._source = source

    async def read(self, connection: Connection, after: Position, limit: int) -> list[LogEntry]:
        """Up to `limit` entries after a position, in the order of the log.

        Raises:
            ChangesDropped: entries after the position are no longer in the log.
        """
        raise NotImplementedError

    async def read_initial(
        self, connection: Connection, subscription: str, cursor: Position, after: str, limit: int
    ) -> list[LogEntry]:
        """Up to `limit` entities after an xid, for a subscriber that begins with present entities.

        Only the change log has entities. The subscriber goes on from `cursor` afterwards.
        """
        return []


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waiter:
    """A subscriber that waits for changes.

    Args:
        required: the condition that every event for the subscriber meets; `None` if unknown.
        concerns: whether changes include an event for the subscriber; called when an event meets
            `required`.
        passed: receives a position up to which no change concerns the subscriber, before the waiter
            is woken or within seconds.
    """

    required: Required | None
    concerns: Callable[[Sequence[LogEntry]], bool]
    passed: Callable[[Position], None]
    woken: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Tail:
    """A bounded window on the newest changes, kept in memory.

    Args:
        database: the database with the log.
        log: reads the entries and renders their events.
        start: the position after which the window begins; a tail that is wanted begins at the end.
        size: the least number of changes in the window, once there were as many.
        pace_seconds: the least time between two reads, for readers that need no haste.
    """

    def __init__(
        self,
        database: Database,
        *,
        log: LogReader,
        size: int,
        start: Position = _BEGIN,
        pace_seconds: float = 0.0,
    ) -> None:
        self._wanted = asyncio.Event()
        self._database = database
        self.log = log
        self._size = size
        self._pace = pace_seconds
        self._entries: list[LogEntry] = []
        self._begin = start
        self._end = start
        # The waiting subscribers have been asked about the changes up to here.
        self._asked = start
        self._is_asked = asyncio.Event()
        self._waiting: set[Waiter] = set()
        self._index: FilterIndex[Waiter] = FilterIndex()
        # Subscribers that are behind share a few connections, regardless of their number.
        self._readers = asyncio.Semaphore(3)

    async def want(self, is_wanted: bool) -> None:
        """Read the log from its end on if there are subscribers, else stop reading."""
        if is_wanted == self._wanted.is_set():
            return
        if not is_wanted:
            self._wanted.clear()
            return
        async with self._database.acquire() as connection:
            head = await read_head(connection)
        self._begin_at(head.now)
        # Last: the loop that reads must not continue from the end of an earlier window.
        self._wanted.set()

    async def run(self) -> None:
        """Follow the log for ever, while the tail is wanted."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_reading())
            group.create_task(self._run_passing())

    async def _run_reading(self) -> None:
        """Read new changes for ever.

        A commit can stay hidden behind an older transaction that ends without a signal, so the log
        is read again after each signal, at growing intervals.
        """
        pause = _FIRST_PAUSE_SECONDS
        while True:
            await self._wanted.wait()
            # Taken before the read, so that a commit during the read is not missed.
            ticket = self._database.signal.ticket()
            try:
                is_read = await self.read_once() > 0
                is_more = is_read or await wait_for(ticket, pause)
            except ServerBusy:
                is_read, is_more = False, True
                await self._database.recovered()
            if is_read and self._pace:
                await asyncio.sleep(self._pace)
            pause = _FIRST_PAUSE_SECONDS if is_more else min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _run_passing(self) -> None:
        while True:
            await self._is_asked.wait()
            await asyncio.sleep(len(self._waiting) / _PASSED_PER_SECOND)
            self._is_asked.clear()
            await self.pass_once()

    async def read_once(self) -> int:
        """Add the new changes of the log to the window; return their number."""
        end = self._end
        try:
            entries = await self._read(end, _READ_LIMIT)
        except ChangesDropped as dropped:
            # `want` may have moved the window during the read.
            if end == self._end:
                self._begin_at(dropped.begin)
                for waiter in self._waiting:
                    _wake(waiter)
            return 1
        if entries and end == self._end:
            self._entries += entries
            self._end = entries[-1].position
            surplus = len(self._entries) - self._size
            # Trimmed at twice the size, so that the cost of a trim is spread over many changes.
            if surplus > self._size:
                self._begin = self._entries[surplus - 1].position
                del self._entries[:surplus]
            await self._ask(entries)
        return len(entries)

    def _begin_at(self, position: Position) -> None:
        self._entries = []
        self._begin = self._end = self._asked = position

    async def growth(self, seen: Position, waiter: Waiter) -> None:
        """Wait until the window holds a change after `seen` that concerns a new waiter.

        The wait ends at once if the window has grown since the caller has read up to `seen`.
        """
        if self._entries and self._entries[-1].position > seen:
            return
        # No `await` since the check: a change in between would not wake the waiter.
        self._waiting.add(waiter)
        self._index.add(waiter, waiter.required)
        try:
            await waiter.woken
        finally:
            self._waiting.discard(waiter)
            self._index.remove(waiter, waiter.required)

    async def _ask(self, entries: Sequence[LogEntry]) -> None:
        """Wake the waiters that new changes concern, few at a time: thousands may be waiting."""
        for number, waiter in enumerate(await self._candidates(entries)):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            # The waiter may have left while other tasks had their turn.
            if waiter in self._waiting:
                waiter.passed(self._asked)
                if _is_concerned(waiter, entries):
                    _wake(waiter)
        if entries[-1].position == self._end:
            self._asked = self._end
            self._is_asked.set()

    async def _candidates(self, entries: Sequence[LogEntry]) -> set[Waiter]:
        found = set(self._index.unconditional)
        if len(found) == len(self._waiting):
            return found
        for number, entry in enumerate(entries):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            for event in entry.events:
                found.update(self._index.candidates(event.texts))
        return found

    async def pass_once(self) -> None:
        """Tell waiting subscribers the position up to which no change concerns them."""
        position = self._asked
        for number, waiter in enumerate([*self._waiting]):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if waiter in self._waiting and not waiter.woken.done():
                waiter.passed(position)

    async def after(self, position: Position, limit: int) -> Sequence[LogEntry]:
        """Up to `limit` changes after a position: from the window, or else from the database."""
        if position >= self._begin:
            first = bisect_right(self._entries, position, key=lambda entry: entry.position)
            return self._entries[first : first + limit]
        async with self._readers:
            return await self._read(position, limit)

    async def initial(
        self, subscription: str, cursor: Position, after: str, limit: int
    ) -> Sequence[LogEntry]:
        """Up to `limit` entities after an xid as entries; see `LogReader.read_initial`."""
        async with self._readers, self._database.acquire() as connection:
            return await self.log.read_initial(connection, subscription, cursor, after, limit)

    async def _read(self, position: Position, limit: int) -> list[LogEntry]:
        async with self._database.acquire() as connection:
            return await self.log.read(connection, position, limit)


def _is_concerned(waiter: Waiter, entries: Sequence[LogEntry]) -> bool:
    try:
        return waiter.concerns(entries)
    # The subscriber meets the error again when reading the changes; the rest have to be woken.
    except Exception:
        return True


def _wake(waiter: Waiter) -> None:
    if not waiter.woken.done():
        waiter.woken.set_result(None)
