"""Waits for the next page of this node's own log, for the links that send."""

from __future__ import annotations

import asyncio

from catalog.operations.feed import MOST_CHANGES
from catalog.store.changes import Position
from catalog.store.database import Database
from replication.feed.feed import pages_of
from replication.feed.feedpages import Page
from replication.feed.wakeup import until_woken

# The subject of errors about this node's own log.
LOG = "/replication/changes"


async def next_page(
    database: Database, wakeup: asyncio.Event, seen: Position, seconds: float
) -> Page | None:
    """Wait for the page after a position; `None` if something else is to be done first."""
    reading = pages_of(database.shared).read_next(LOG, seen, MOST_CHANGES)
    try:
        async with asyncio.timeout(seconds) as waiting:
            return await until_woken(reading, wakeup)
    except TimeoutError:
        if not waiting.expired():
            raise
        return None
