"""The time that has passed for what is kept for a time.

A clock that jumps ahead must not make everything old at once. So a node stores the position of its
log and the clock every hour, measures the time in between with its monotonic clock, and counts no
more than an hour where it could not measure: it did not run, or the clock jumped.
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
    """What is as old as asked for: transactions with a lower id, and rows from before `at`."""

    txid: int
    at: datetime


_NOTHING = Age(txid=0, at=datetime.min.replace(tzinfo=UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """The clock went `seconds` further by `at` than the time that was counted; back if negative."""

    at: datetime
    seconds: float


class PassedTime:
    """Measures for one process how much time has passed since the last point.

    Args:
        interval: between two points.
        kept: how long points are needed.
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
        """Store a point if it is time for one; only one process may do so at a time."""
        row = await connection.fetchrow(_queries.last)
        assert row is not None, "the first table has one row"
        if row["txid"] is None:
            await self._store(connection, 0.0, None)
            return
        clock = (row["now"] - row["at"]).total_seconds()
        if row["txid"] != self._last:
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
    """What is at least so old by the measured time; nothing before enough time was measured."""
    row = await connection.fetchrow(_queries.before, age.total_seconds())
    return _NOTHING if row is None else Age(txid=row["txid"], at=row["at"])


async def read_jumps(connection: Connection, least: timedelta, within: timedelta) -> Sequence[Jump]:
    """The jumps of at least `least` within the last measured time, the last one first."""
    rows = await connection.fetch(_queries.jumps, least.total_seconds(), within.total_seconds())
    return [Jump(at=row["at"], seconds=row["jump"]) for row in rows]
