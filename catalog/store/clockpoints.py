"""Measures the age of rows that are kept for a limited time.

A clock that jumps ahead must not make all rows old at once. A node therefore stores the position of
its log and the clock every hour, and measures the time in between with the monotonic clock. An
interval that could not be measured, because no node ran or the clock jumped, counts as an hour at
most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from catalog.store.connections import Connection
from catalog.store.queries import Queries

_log = structlog.get_logger(__name__)
_queries = Queries("clockpoints")

HOUR = timedelta(hours=1)
# Clocks that NTP corrects differ by less.
_LEAST_JUMP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """The rows of a given age: transactions with a lower id, and rows from before `at`."""

    txid: int
    at: datetime


_NOTHING = Age(txid=0, at=datetime.min.replace(tzinfo=UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """The clock at `at` was `seconds` ahead of the counted time; behind if negative."""

    at: datetime
    seconds: float


class PassedTime:
    """Measures the time since the last stored point, for a single process.

    Args:
        interval: the time between two points.
        kept: the time for which points are needed.
    """

    def __init__(
        self,
        interval: timedelta,
        kept: timedelta,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = interval.total_seconds()
        self._kept = kept.total_seconds()
        self._monotonic = monotonic
        self._last: int | None = None
        self._since = 0.0

    async def note(self, connection: Connection) -> None:
        """Store a point if the interval is over; a single process may call this at a time."""
        row = await connection.fetchrow(_queries.last)
        assert row is not None, "the first table has one row"
        if row["txid"] is None:
            await self._store(connection, 0.0, None)
            return
        clock = (row["now"] - row["at"]).total_seconds()
        if row["txid"] != self._last:
            # This process did not measure the time since a point of another process. The clock of
            # the database stands in, bounded by an interval, as the clock may have jumped.
            is_short = 0 <= clock <= self._interval
            self._since = self._monotonic() - (clock if is_short else self._interval)
            self._last = row["txid"]
        passed = self._monotonic() - self._since
        if passed < self._interval:
            return
        jump = clock - passed
        if abs(jump) < _LEAST_JUMP_SECONDS:
            await self._store(connection, row["measured"] + passed, None)
            return
        _log.warning(
            "the clock of the database jumped, or no node ran",
            jumpseconds=round(jump),
            countedseconds=round(passed),
        )
        await self._store(connection, row["measured"] + passed, jump)

    async def _store(self, connection: Connection, measured: float, jump: float | None) -> None:
        self._last = await connection.fetchval(_queries.store, measured, jump, self._kept)
        self._since = self._monotonic()


async def aged(connection: Connection, age: timedelta) -> Age:
    """The rows as old as `age` or older by the measured time; none before enough was measured."""
    row = await connection.fetchrow(_queries.before, age.total_seconds())
    return _NOTHING if row is None else Age(txid=row["txid"], at=row["at"])


async def read_jumps(connection: Connection, least: timedelta, within: timedelta) -> Sequence[Jump]:
    """The jumps of at least `least` within the last measured time, last first."""
    rows = await connection.fetch(_queries.jumps, least.total_seconds(), within.total_seconds())
    return [Jump(at=row["at"], seconds=row["jump"]) for row in rows]
