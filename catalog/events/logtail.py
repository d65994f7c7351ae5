"""Reads the end of a log once for all subscribers that are synced."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Protocol

from cloudevents.core.v1.event import CloudEvent

from catalog.http.leftout import shown_or_none
from catalog.model.errors import ServerBusy
from catalog.sinks.outgoing import OutgoingEvent
from catalog.store.changes import ChangesDropped, Position, read_head
from catalog.store.database import Connection, Database, wait_for

_READ_LIMIT = 1000
# After so many subscribers, other tasks of the event loop have a turn.
_WOKEN_AT_ONCE = 16
_FIRST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 1.0


class LogEntry:
    """An entry of a log whose events are rendered when they are first needed.

    Args:
        at: when it was logged.
        initial: the xid of an entity that is not in the log: what was there is told as if it had
            been created.
    """

    def __init__(
        self,
        position: Position,
        at: datetime,
        render: Callable[[], Sequence[CloudEvent]],
        *,
        initial: str | None = None,
    ) -> None:
        self._render = render
        self.position = position
        self.at = at
        self.initial = initial

    @cached_property
    def events(self) -> Sequence[OutgoingEvent]:
        """The events; none if they cannot be rendered, since the log goes on after them."""
        found = shown_or_none(
            f"the change at {self.position}",
            lambda: tuple(OutgoingEvent(event) for event in self._render()),
        )
        return found or ()


class LogReader(Protocol):
    """Reads one log, whose entries it renders in one dialect."""

    async def read(self, connection: Connection, after: Position, limit: int) -> list[LogEntry]:
        """Up to `limit` entries after a position, in the order of the log.

        Raises:
            ChangesDropped: entries after the position are no longer there.
        """
        ...

    async def read_initial(
        self, connection: Connection, subscription: str, cursor: Position, after: str, limit: int
    ) -> list[LogEntry]:
        """Up to `limit` entities after an xid, for a subscriber that begins with what is there.

        Args:
            cursor: the position in the log from which the subscriber goes on afterwards.
        """
        ...


Concerns = Callable[[Sequence[LogEntry]], bool]
"""Whether any of these changes concerns a subscriber."""


class Tail:
    """A bounded window on the newest changes, kept in memory.

    Args:
        database: the log is read there.
        log: reads the entries and renders their events.
        start: the window begins after this position.
        size: the least number of changes in the window, once there were that many.
    """

    def __init__(
        self,
        database: Database,
        *,
        log: LogReader,
        start: Position,
        size: int,
    ) -> None:
        self._wanted = asyncio.Event()
        self._database = database
        self.log = log
        self._size = size
        self._entries: list[LogEntry] = []
        self._begin = start
        self._end = start
        self._waiting: dict[asyncio.Future[None], Concerns] = {}
        # Subscribers that are behind share a few connections, whatever their number.
        self._readers = asyncio.Semaphore(3)

    async def want(self, is_wanted: bool) -> None:
        """Read the log from its end on if there are subscribers, else stop reading."""
        if is_wanted == self._wanted.is_set():
            return
        if not is_wanted:
            self._wanted.clear()
            return
        async with self._database.pool.acquire(timeout=30) as connection:
            head = await read_head(connection)
        self._entries, self._begin, self._end = [], head.now, head.now
        self._wanted.set()

    async def run(self) -> None:
        """Follow the log for ever, while it is wanted.

        A commit can stay hidden behind an older transaction that ends without a signal, so the
        log is read again after each signal, less and less often.
        """
        pause = _FIRST_PAUSE_SECONDS
        while True:
            await self._wanted.wait()
            ticket = self._database.signal.ticket()
            try:
                is_more = await self.read_once() or await wait_for(ticket, pause)
            except ServerBusy:
                is_more = True
                await self._database.recovered()
            pause = _FIRST_PAUSE_SECONDS if is_more else min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def read_once(self) -> int:
        """Add the new changes of the log to the window; return their number."""
        end = self._end
        try:
            entries = await self._read(end, _READ_LIMIT)
        except ChangesDropped as dropped:
            if end == self._end:
                self._entries, self._begin, self._end = [], dropped.begin, dropped.begin
                for woken in [each for each in self._waiting if not each.done()]:
                    woken.set_result(None)
            return 1
        if entries and end == self._end:
            self._entries += entries
            self._end = entries[-1].position
            surplus = len(self._entries) - self._size
            if surplus > self._size:
                self._begin = self._entries[surplus - 1].position
                del self._entries[:surplus]
            await self._wake(entries)
        return len(entries)

    async def growth(self, seen: Position, concerns: Concerns) -> None:
        """Wait until the window holds a change after `seen` that concerns the caller.

        Args:
            seen: how far the caller has read. It returns at once if the window has grown since.
            concerns: is asked of each batch of changes that comes, in their order.
        """
        if self._entries and self._entries[-1].position > seen:
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[woken] = concerns
        try:
            await woken
        finally:
            self._waiting.pop(woken, None)

    async def _wake(self, entries: Sequence[LogEntry]) -> None:
        """Wake the subscribers that are concerned, few at a time: thousands may be waiting."""
        for number, woken in enumerate([*self._waiting]):
            if number % _WOKEN_AT_ONCE == 0:
                await asyncio.sleep(0)
            concerns = self._waiting.get(woken)
            if concerns is not None and _is_concerned(concerns, entries) and not woken.done():
                woken.set_result(None)

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
        async with self._readers, self._database.pool.acquire(timeout=30) as connection:
            return await self.log.read_initial(connection, subscription, cursor, after, limit)

    async def _read(self, position: Position, limit: int) -> list[LogEntry]:
        async with self._database.pool.acquire(timeout=30) as connection:
            return await self.log.read(connection, position, limit)


def _is_concerned(concerns: Concerns, entries: Sequence[LogEntry]) -> bool:
    try:
        return concerns(entries)
    # The subscriber meets the error again when it reads the changes. The others are woken, too.
    except Exception:
        return True
