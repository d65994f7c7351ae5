"""Keeps the logs, the dead letters and the attempts to deliver bounded, by age and number."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import structlog

from catalog.context import Context
from catalog.model.errors import ServerBusy
from catalog.settings import Settings
from catalog.store.changes import Retention, drop_oldest
from catalog.store.clockpoints import HOUR, PassedTime, aged
from catalog.store.database import Database
from catalog.store.leadership import take_over
from catalog.store.revisions import drop_oldest_contents, keep_contents
from catalog.subscriptions.stored.deadletters import aged_subscriptions, drop_aged
from catalog.subscriptions.stored.deliveryattempts import trim_attempts
from catalog.subscriptions.stored.subscriptionlog import drop_oldest_of_subscriptions
from catalog.subscriptions.stored.subscriptions import wake

_log = structlog.get_logger(__name__)

# Writes and readers wait for a batch of this size for milliseconds.
_LOG_BATCH = 2000
_LOG_PAUSE_SECONDS = 10.0
_SHORT_PAUSE_SECONDS = 0.1
_LEAST_POINTS = 12
_PAUSE_SECONDS = 30.0
_MOST_SUBSCRIPTIONS = 1000
# Attempts are stored within seconds, or after an outage of the database.
_RECENT = timedelta(hours=1)


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
            is_more = dropped == _LOG_BATCH
            await asyncio.sleep(_SHORT_PAUSE_SECONDS if is_more else _LOG_PAUSE_SECONDS)


async def drop_once(
    database: Database, retention: Retention, passed: PassedTime, *, limit: int = _LOG_BATCH
) -> int:
    """Drop a batch of each log and of former contents, unless a second process does so.

    Returns:
        the number of changes or of contents, whichever is larger.
    """
    async with database.acquire() as connection, take_over(connection, "log retention") as is_alone:
        if not is_alone:
            return 0
        await passed.note(connection)
        before = (await aged(connection, retention.age)).txid
        await drop_oldest_of_subscriptions(connection, before, retention.count, limit=limit)
        dropped = await drop_oldest(connection, retention, limit=limit)
        await keep_contents(connection, retention.content_bytes)
        contents = await drop_oldest_contents(connection, retention.content_bytes, limit=limit)
        return max(dropped, contents)


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
        content_bytes=settings.revision_bytes,
    )


class KeptAttempts(NamedTuple):
    """The retention of delivery attempts: the last `most` of each subscription, up to an age."""

    most: int
    age: timedelta


# Enough to see the answers of a sink over a weekend.
KEPT_ATTEMPTS = KeptAttempts(100, timedelta(days=7))


async def run_delivery_retention(context: Context) -> None:
    """Drop dead letters and attempts beyond the retention, for ever, in one process at a time."""
    while True:
        try:
            await trim_once(context.database, context.settings, datetime.now(UTC))
        except (ServerBusy, TimeoutError):
            await context.database.recovered()
        else:
            await asyncio.sleep(_PAUSE_SECONDS)


async def trim_once(
    database: Database, settings: Settings, now: datetime, *, kept: KeptAttempts = KEPT_ATTEMPTS
) -> tuple[int, int]:
    """Drop attempts and dead letters, unless a second process is doing so.

    Returns:
        the number of dropped attempts, and the number of dropped dead letters.
    """
    async with (
        database.acquire() as connection,
        take_over(connection, "delivery retention") as is_alone,
    ):
        if not is_alone:
            return 0, 0
        oldest = (await aged(connection, kept.age)).at
        attempts = await trim_attempts(connection, oldest, kept.most, since=now - _RECENT)
        before = (await aged(connection, timedelta(days=settings.dead_letter_days))).at
        ids = await aged_subscriptions(connection, before, _MOST_SUBSCRIPTIONS)
    return attempts, sum([await _drop_aged(database, id, before) for id in ids])


async def _drop_aged(database: Database, id: str, before: datetime) -> int:
    async with database.transaction() as connection:
        dropped, released = await drop_aged(connection, id, before)
        if released:
            await wake(connection, id)
    if dropped:
        _log.warning("dead letters were dropped for their age", subscription=id, count=dropped)
    return dropped
