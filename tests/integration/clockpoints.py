"""Points of time that a node is made to have noted, for tests of what is kept for a time."""

from __future__ import annotations

from datetime import datetime, timedelta

from catalog.store.database import Database

_STORE = """
    INSERT INTO clock_points (at, measured)
    SELECT $1::timestamptz, coalesce(max(measured), 0) + $2::float8 FROM clock_points"""


async def store_point(database: Database, at: datetime, passed: timedelta) -> None:
    """Note the end of the log at a time, which comes so long after the last point."""
    async with database.acquire() as connection:
        await connection.execute(_STORE, at, passed.total_seconds())
