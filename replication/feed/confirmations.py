"""Saves the state `current` of links in batches."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from catalog.model.errors import ServerBusy
from catalog.store.database import Database
from catalog.store.links import Link
from replication.store import linkconfirmations
from replication.store.linkconfirmations import Confirmation

SAVE_SECONDS = 1.0
"""The seconds between two saves of the state `current` of an idle link."""


class Confirmations:
    """Links without new copies since the last save.

    A thousand idle links take one transaction per second.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._due: dict[str, Confirmation] = {}
        self._is_due = asyncio.Event()

    def add(self, link: Link) -> None:
        """Note that a current link has no new copies."""
        self._due[link.id] = Confirmation(link.id, link.revision, datetime.now(UTC))
        self._is_due.set()

    async def run(self) -> None:
        """Save confirmations as they come, for ever."""
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            due, self._due = [*self._due.values()], {}
            try:
                async with self._database.transaction() as connection:
                    await linkconfirmations.confirm(connection, due)
            # Lost confirmations need no retry: an idle link soon adds the next confirmation.
            except (ServerBusy, TimeoutError):
                await self._database.recovered()
            await asyncio.sleep(SAVE_SECONDS)
