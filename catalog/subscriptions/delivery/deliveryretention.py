"""Keeps dead letters and attempts bounded: drops the oldest by age, and attempts by number."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import structlog

from catalog.config import Settings
from catalog.context import Context
from catalog.model.errors import ServerBusy
from catalog.store.clockpoints import aged
from catalog.store.database import Database
from catalog.store.leadership import take_over
from catalog.subscriptions.stored.deadletters import aged_subscriptions, drop_aged
from catalog.subscriptions.stored.deliveryattempts import trim_attempts
from catalog.subscriptions.stored.subscriptioncommands import wake

_log = structlog.get_logger(__name__)

_PAUSE_SECONDS = 30.0
_BATCH = 1000
# Attempts are stored within seconds, or after an outage of the database.
_RECENT = timedelta(hours=1)


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
        ids = await aged_subscriptions(connection, before, _BATCH)
    return attempts, sum([await _drop_aged(database, id, before) for id in ids])


async def _drop_aged(database: Database, id: str, before: datetime) -> int:
    async with database.transaction() as connection:
        dropped, released = await drop_aged(connection, id, before)
        if released:
            await wake(connection, id)
    if dropped:
        _log.warning("dead letters were dropped for their age", subscription=id, count=dropped)
    return dropped
