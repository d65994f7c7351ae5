"""Renews the planner's statistics right after large writes; autovacuum does so a minute later."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from catalog.model.change import Change
from catalog.model.errors import ServerBusy
from catalog.store.database import Database
from catalog.store.leadership import take_over
from catalog.store.queries import Queries

_queries = Queries("statistics")
# Neither fewer changes nor a smaller share of the entities change a plan.
_LEAST_CHANGES = 5000
_LEAST_SHARE = 1.0
_ANALYZE_SECONDS = 600


class Statistics:
    """Counts the changes of this process, and analyses the tables after enough changes.

    The analysis runs after the commit, on a separate connection, in one process at a time, so no
    request waits for it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes = 0
        self._threshold = float(_LEAST_CHANGES)
        self._is_due = asyncio.Event()
        database.signal.listeners.append(self._count)

    async def run(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            counted, self._changes = self._changes, 0
            try:
                await self.analyze_once()
            except (ServerBusy, TimeoutError):
                self._changes += counted
                self._is_due.set()
                await self._database.recovered()

    async def analyze_once(self) -> None:
        """Renew the statistics, unless another process is doing so."""
        async with self._database.acquire() as connection:
            async with take_over(connection, "statistics") as is_alone:
                if is_alone:
                    await connection.execute(_queries.analyze, timeout=_ANALYZE_SECONDS)
            size = await connection.fetchval(_queries.size)
        self._threshold = max(_LEAST_CHANGES, _LEAST_SHARE * size)

    def _count(self, changes: Sequence[Change]) -> None:
        self._changes += len(changes)
        if self._changes >= self._threshold:
            self._is_due.set()
