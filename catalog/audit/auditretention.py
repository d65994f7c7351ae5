"""Keeps the audit bounded: drops the oldest rows by age, and by the number of each caller."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from catalog.audit.auditlog import drop_oldest_of_audit
from catalog.config import Settings
from catalog.context import Context
from catalog.model.errors import ServerBusy
from catalog.store.clockpoints import aged
from catalog.store.database import Database
from catalog.store.leadership import take_over

_PAUSE_SECONDS = 60.0
_SHORT_PAUSE_SECONDS = 0.1
# Large, since each batch beyond the bound counts the rows of every caller again.
_BATCH = 10_000
# Refused clients can cause rows at will, so a separate bound keeps them from displacing the rows
# about writes.
MOST_REFUSED = 100_000


async def run_audit_retention(context: Context) -> None:
    """Drop surplus rows for ever, in one process of the node at a time."""
    while True:
        try:
            dropped = await drop_once(context.database, context.settings)
        except (ServerBusy, TimeoutError):
            await context.database.recovered()
        else:
            await asyncio.sleep(_SHORT_PAUSE_SECONDS if dropped >= _BATCH else _PAUSE_SECONDS)


async def drop_once(
    database: Database, settings: Settings, *, most_refused: int = MOST_REFUSED
) -> int:
    """Drop a batch, unless a concurrent process does so; return the number of dropped rows."""
    async with (
        database.acquire() as connection,
        take_over(connection, "audit retention") as is_alone,
    ):
        if not is_alone:
            return 0
        before = (await aged(connection, timedelta(days=settings.audit_days))).at
        most = settings.audit_entries
        return await drop_oldest_of_audit(connection, before, most, most_refused, limit=_BATCH)
