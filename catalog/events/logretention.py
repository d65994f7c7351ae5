"""Keeps the logs bounded: drops the oldest changes, and entries about subscriptions, by age and
number."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from catalog.config import Settings
from catalog.context import Context
from catalog.model.errors import ServerBusy
from catalog.store.changes import Retention, drop_oldest
from catalog.store.database import Database
from catalog.store.leadership import take_over
from catalog.store.subscriptionlog import drop_oldest_of_subscriptions

# Writes and readers wait for a batch of this size for milliseconds.
_BATCH = 2000
_PAUSE_SECONDS = 10.0
_SHORT_PAUSE_SECONDS = 0.1


async def run_log_retention(context: Context) -> None:
    """Drop what need not be kept, for ever, in one process of the node at a time.

    A link of another node whose cursor is dropped with it copies everything again.
    """
    retention = retention_from(context.settings)
    while True:
        try:
            dropped = await drop_once(context.database, retention)
        except (ServerBusy, TimeoutError):
            await context.database.recovered()
        else:
            await asyncio.sleep(_SHORT_PAUSE_SECONDS if dropped == _BATCH else _PAUSE_SECONDS)


async def drop_once(database: Database, retention: Retention, *, limit: int = _BATCH) -> int:
    """Drop a batch of each log, unless another process does so; return the number of changes."""
    async with (
        database.pool.acquire() as connection,
        take_over(connection, "log retention") as is_alone,
    ):
        if not is_alone:
            return 0
        now = datetime.now(UTC)
        before, most = now - retention.age, retention.count
        await drop_oldest_of_subscriptions(connection, before, most, limit=limit)
        return await drop_oldest(connection, retention, now, limit=limit)


def retention_from(settings: Settings) -> Retention:
    """The retention that the settings ask for; that for subscriptions is no less than the other."""
    return Retention(
        age=timedelta(days=settings.log_days),
        count=settings.log_changes,
        held_age=timedelta(days=settings.log_held_days),
        held_count=settings.log_held_changes,
    )
