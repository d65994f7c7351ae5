"""Keeps the logs bounded: drops the oldest changes, and entries about subscriptions, by age and
number.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

from catalog.config import Settings
from catalog.context import Context
from catalog.model.errors import ServerBusy
from catalog.store.changes import Retention, drop_oldest
from catalog.store.clockpoints import HOUR, PassedTime, aged
from catalog.store.database import Database
from catalog.store.leadership import take_over
from catalog.subscriptions.delivery.deliveryretention import KEPT_ATTEMPTS
from catalog.subscriptions.stored.subscriptionlog import drop_oldest_of_subscriptions

# Writes and readers wait for a batch of this size for milliseconds.
_BATCH = 2000
_PAUSE_SECONDS = 10.0
_SHORT_PAUSE_SECONDS = 0.1
_LEAST_POINTS = 12


async def run_log_retention(context: Context) -> None:
    """Drop log entries beyond the retention, for ever, in one process of the node at a time.

    A link of a remote node whose cursor is dropped as well copies everything again.
    """
    retention = retention_from(context.settings)
    passed = passed_time_for(context.settings)
    while True:
        try:
            dropped = await drop_once(context.database, retention, passed)
        except (ServerBusy, TimeoutError):
            await context.database.recovered()
        else:
            await asyncio.sleep(_SHORT_PAUSE_SECONDS if dropped == _BATCH else _PAUSE_SECONDS)


async def drop_once(
    database: Database, retention: Retention, passed: PassedTime, *, limit: int = _BATCH
) -> int:
    """Drop a batch of each log, unless a second process does so; return the number of changes."""
    async with (
        database.acquire() as connection,
        take_over(connection, "log retention") as is_alone,
    ):
        if not is_alone:
            return 0
        await passed.note(connection)
        before = (await aged(connection, retention.age)).txid
        await drop_oldest_of_subscriptions(connection, before, retention.count, limit=limit)
        return await drop_oldest(connection, retention, limit=limit)


def passed_time_for(
    settings: Settings, *, monotonic: Callable[[], float] = time.monotonic
) -> PassedTime:
    """The clock for every retention in the settings.

    Points are closer together than an hour only if a retention is shorter than half a day.
    """
    days = settings.log_days, settings.log_held_days, settings.audit_days, settings.dead_letter_days
    ages = *(timedelta(days=each) for each in days), KEPT_ATTEMPTS.age
    shortest, longest = min(ages), max(ages)
    return PassedTime(min(HOUR, shortest / _LEAST_POINTS), longest, monotonic=monotonic)


def retention_from(settings: Settings) -> Retention:
    """The retention in the settings; undelivered changes stay longer than delivered changes."""
    return Retention(
        age=timedelta(days=settings.log_days),
        count=settings.log_changes,
        held_age=timedelta(days=settings.log_held_days),
        held_count=settings.log_held_changes,
    )
