"""Reads the end of the change log once for all subscribers that keep up with it."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from cloudevents.core.v1.event import CloudEvent

from catalog.events.render import texts_of
from catalog.store.changes import LoggedChange, Position, read_changes, read_head
from catalog.store.database import Connection, Database, Signal, wait_for

_READ_LIMIT = 1000
_FIRST_LOOK_SECONDS = 0.005
_LONGEST_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """An event together with its attributes as filters see them."""

    event: CloudEvent
    texts: Mapping[str, str]


class Entry:
    """A logged change whose events are rendered when somebody first needs them."""

    def __init__(self, position: Position, render: Callable[[], Sequence[CloudEvent]]) -> None:
        self._render = render
        self.position = position

    @cached_property
    def events(self) -> Sequence[Rendered]:
        return tuple(Rendered(event=event, texts=texts_of(event)) for event in self._render())


class Terms(Protocol):
    """The terms that changes are spoken of in: those of one published API."""

    async def entries(
        self, connection: Connection, changes: Sequence[LoggedChange]
    ) -> list[Entry]: ...


class Tail:
    """A bounded window on the newest changes, kept in memory.

    Args:
        database: whose log is read.
        terms: those of the rendered events.
        start: the window begins after this position.
        size: how many changes the window keeps at least, once there were that many.
    """

    def __init__(self, database: Database, *, terms: Terms, start: Position, size: int) -> None:
        self.grown = Signal()
        self._wanted = asyncio.Event()
        self._database = database
        self._terms = terms
        self._size = size
        self._entries: list[Entry] = []
        self._begin = start
        self._end = start
        # Those who are behind share a few connections, whatever their number.
        self._readers = asyncio.Semaphore(3)

    async def want(self, is_wanted: bool) -> None:
        """Say whether there is anybody to read the log for. It begins anew at the log's end."""
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

        A commit can stay hidden for a moment behind an older transaction that ends without
        a signal, so after each signal the log is looked at again, less and less often.
        """
        patience = _FIRST_LOOK_SECONDS
        while True:
            await self._wanted.wait()
            ticket = self._database.signal.ticket()
            if await self.read_once() or await wait_for(ticket, patience):
                patience = _FIRST_LOOK_SECONDS
            else:
                patience = min(2 * patience, _LONGEST_LOOK_SECONDS)

    async def read_once(self) -> int:
        """Add what the log has grown by to the window, and say how many changes that were."""
        end = self._end
        entries = await self._read(end, _READ_LIMIT)
        if entries and end == self._end:
            self._entries += entries
            self._end = entries[-1].position
            self._trim()
            self.grown.set()
        return len(entries)

    async def after(self, position: Position, limit: int) -> Sequence[Entry]:
        """Up to `limit` changes after a position: from memory for those who are synced,
        from the database for those who are behind."""
        if position >= self._begin:
            first = bisect_right(self._entries, position, key=lambda entry: entry.position)
            return self._entries[first : first + limit]
        async with self._readers:
            return await self._read(position, limit)

    async def _read(self, position: Position, limit: int) -> list[Entry]:
        async with self._database.pool.acquire(timeout=30) as connection:
            changes = await read_changes(connection, position, limit)
            return await self._terms.entries(connection, changes)

    def _trim(self) -> None:
        surplus = len(self._entries) - self._size
        if surplus > self._size:
            self._begin = self._entries[surplus - 1].position
            del self._entries[:surplus]
