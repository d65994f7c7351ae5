"""Stores the progress of the deliveries of many subscriptions at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from catalog.operations.subscriptions import State
from catalog.store.changes import Position
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("subscriptions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of one revision of a subscription since the last `save_progress`.

    The members are members of `Subscription`; `delivered`, `failed` and `failedattempts` are the
    increments since the last save, and a time that is `None` keeps the stored time.
    """

    id: str
    revision: int
    course: int
    cursor: Position
    initial: str | None = None
    delivered: int = 0
    deliveredat: datetime | None = None
    failed: int = 0
    failedattempts: int = 0
    failedat: datetime | None = None
    failedcause: str | None = None
    state: State = "active"
    reason: str | None = None
    failures: int = 0
    failingsince: datetime | None = None
    error: str | None = None
    nextattemptat: datetime | None = None
    tried: int = 0
    triedsince: datetime | None = None
    lostat: datetime | None = None


# The statement takes the cursor as two columns, after the course.
_AFTER_CURSOR = [each.name for each in fields(Progress)][4:]


async def save_progress(connection: Connection, progress: Sequence[Progress]) -> None:
    """Store the progress of subscriptions in one statement. A cursor never moves back."""
    await connection.execute(
        _queries.save_progress,
        [p.id for p in progress],
        [p.revision for p in progress],
        [p.course for p in progress],
        [p.cursor.txid for p in progress],
        [p.cursor.seq for p in progress],
        *([getattr(p, name) for p in progress] for name in _AFTER_CURSOR),
    )
