"""Lets reads wait until links have come to a position in the logs of their sources."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import web

from catalog.model.errors import ServerBusy
from catalog.store import links
from catalog.store.database import Database, wait_for
from catalog.store.linkprogress import LinkProgress, NodeProgress, read_progress
from catalog.store.logcursor import LogCursor

# A link that is current has a change of its source within milliseconds. One that sleeps, or that
# does not bring this change, reads on when it is woken; then its source may hide a change for as
# long as an older transaction is open there, so it is woken again, less and less often.
_FIRST_WAKE, _LAST_WAKE = 0.1, 2.0
# Progress is signalled; this is for a notification that was lost with its connection.
_LONGEST_PAUSE = 5.0


class _Waiting:
    """A read that waits, and the position that it waits for."""

    def __init__(self, cursor: LogCursor, behind: Sequence[LinkProgress]) -> None:
        self.cursor = cursor
        self.behind = behind
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()


@dataclass(slots=True)
class _Wake:
    """The time at which to wake a link, and the pause before the next time."""

    due: float
    pause: float


class LinkWaits:
    """The waiting reads of one process.

    They hold no connection. While there are some, one task looks at the progress of their links,
    whenever that is signalled.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: set[_Waiting] = set()
        self._wakes: dict[str, _Wake] = {}
        self._follower: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """The number of reads that wait."""
        return len(self._waiting)

    async def read(self, cursors: Sequence[LogCursor]) -> NodeProgress:
        """Read the progress of this node and of the links that follow these instances."""
        async with self._database.pool.acquire() as connection:
            return await read_progress(connection, {cursor.instance for cursor in cursors})

    async def wait(
        self, cursor: LogCursor, behind: Sequence[LinkProgress], seconds: float
    ) -> Sequence[LinkProgress]:
        """Wait until all links that follow an instance are at a position of it, or until none does.

        Args:
            behind: those that are not yet.

        Returns:
            those that are not after `seconds`.
        """
        reader = _Waiting(cursor, behind)
        self._waiting.add(reader)
        if self._follower is None or self._follower.done():
            self._follower = asyncio.create_task(self._follow())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await reader.is_over
        finally:
            self._waiting.discard(reader)
            if not self._waiting and self._follower is not None:
                self._follower.cancel()
                self._follower = None
                self._wakes.clear()
        return reader.behind

    async def _follow(self) -> None:
        """Look at the links as long as there are reads that wait."""
        while True:
            ticket = self._database.signal.progress_ticket()
            try:
                await self._look()
            except (ServerBusy, TimeoutError):
                await self._database.recovered()
                continue
            now = asyncio.get_running_loop().time()
            until = min((wake.due for wake in self._wakes.values()), default=now + _LONGEST_PAUSE)
            await wait_for(ticket, min(_LONGEST_PAUSE, max(0.0, until - now)))

    async def _look(self) -> None:
        instances = {reader.cursor.instance for reader in self._waiting}
        async with self._database.pools.tasks.acquire() as connection:
            progress = await read_progress(connection, instances)
            behind = self._settle(progress)
            for id in self._due(behind):
                await links.wake(connection, id)

    def _settle(self, progress: NodeProgress) -> set[str]:
        """End the waits that are over; return the links that the others wait for."""
        for reader in self._waiting:
            found = progress.following(reader.cursor.instance)
            reader.behind = [link for link in found if not link.is_at(reader.cursor)]
            if not reader.behind and not reader.is_over.done():
                reader.is_over.set_result(None)
        return {link.id for reader in self._waiting for link in reader.behind}

    def _due(self, behind: set[str]) -> list[str]:
        """The links to wake now."""
        now = asyncio.get_running_loop().time()
        for id in self._wakes.keys() - behind:
            del self._wakes[id]
        due = []
        for id in behind:
            wake = self._wakes.setdefault(id, _Wake(now + _FIRST_WAKE, _FIRST_WAKE))
            if wake.due <= now:
                due.append(id)
                wake.pause = min(_LAST_WAKE, 2 * wake.pause)
                wake.due = now + wake.pause
        return due


LINK_WAITS: web.AppKey[LinkWaits] = web.AppKey("link_waits", LinkWaits)
