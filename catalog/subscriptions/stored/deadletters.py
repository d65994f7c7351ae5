"""Stores dead letters: events that the sink of a subscription did not take.

Each function that changes dead letters locks the subscription until the end of the transaction,
so that no event is queued behind a dead letter that leaves at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.operations.deliveries import DeadLetterCause, DeadLetterState
from catalog.operations.subscriptions import DeadLetterCounts
from catalog.store.database import Connection
from catalog.store.queries import Queries
from catalog.subscriptions.stored.subscriptions import lock_subscription

_queries = Queries("deadletters")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedEvent:
    """An event that was not delivered.

    Args:
        event: the event in the JSON format; empty in a page of dead letters.
        at: the time of the last failure.
        attempts: the number of times that the event was sent; 0 if it only waits.
        state: `dead` until a client asks for a new delivery, then `due`; `waiting` while an earlier
            dead letter of the same subject is dead.
        xid: the entity of the event, if the event is about an entity.
    """

    event: bytes
    eventid: str
    subject: str
    at: datetime
    attempts: int
    reason: str
    state: DeadLetterState = "dead"
    xid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(FailedEvent):
    """A stored event; `number` orders the dead letters of a subscription."""

    number: int
    subscription: str


_COLUMNS = ("subject", "event", "at", "attempts", "reason", "state")


async def add(
    connection: Connection, subscription: str, events: Sequence[FailedEvent], *, most: int
) -> int:
    """Add events in their order, in a transaction. Dead letters of the same events stay unchanged.

    A waiting event becomes due at once if no earlier event of its subject is dead.

    Args:
        most: the largest number of dead letters of the subscription.

    Returns:
        the number of first events that are stored; there was no room for the rest. `len(events)` if
        the subscription does not exist.
    """
    if not await lock_subscription(connection, subscription):
        return len(events)
    ids, xids = [each.eventid for each in events], [each.xid for each in events]
    columns = ([getattr(each, name) for each in events] for name in _COLUMNS)
    stored: int = await connection.fetchval(_queries.add, subscription, ids, *columns, most, xids)
    # The dead letter before a waiting event may have left since the caller looked.
    await connection.fetchval(_queries.release, subscription)
    return stored


async def read_due(connection: Connection, subscription: str, limit: int) -> list[DeadLetter]:
    """The first dead letters to deliver again, in their order."""
    rows = await connection.fetch(_queries.read_due, subscription, limit)
    return [DeadLetter(**row) for row in rows]


async def _change(
    connection: Connection, subscription: str, query: str, *arguments: object
) -> tuple[int, int]:
    """Run a statement on the dead letters of a subscription, in a transaction.

    Returns:
        the number that the statement returns, and how many waiting dead letters become due.
    """
    if not await lock_subscription(connection, subscription):
        return 0, 0
    changed: int | None = await connection.fetchval(query, subscription, *arguments)
    return changed or 0, int(await connection.fetchval(_queries.release, subscription))


async def remove(connection: Connection, subscription: str, numbers: Collection[int]) -> int:
    """Delete dead letters, in a transaction; return how many waiting dead letters become due."""
    return (await _change(connection, subscription, _queries.remove, list(numbers)))[1]


async def set_dead(
    connection: Connection,
    subscription: str,
    number: int,
    *,
    reason: str,
    at: datetime,
    attempts: int = 1,
    holds_subject: bool,
) -> None:
    """Note in a transaction that a dead letter failed again.

    Args:
        attempts: how often the event was sent since the dead letter became due.
        holds_subject: whether later dead letters of the same subject wait for this dead letter.
    """
    if await lock_subscription(connection, subscription):
        await connection.execute(
            _queries.set_dead, subscription, number, attempts, reason, at, holds_subject
        )


async def blocked_subjects(connection: Connection, subscription: str) -> frozenset[str]:
    """The subjects of the dead letters of a subscription, regardless of their state."""
    rows = await connection.fetch(_queries.blocked_subjects, subscription)
    return frozenset(row["subject"] for row in rows)


async def count_dead_letters(
    connection: Connection, subscriptions: Collection[str]
) -> dict[str, DeadLetterCounts]:
    """Count the dead letters of each given subscription, by state."""
    rows = await connection.fetch(_queries.count, list(subscriptions))
    found = {row["subscription"]: DeadLetterCounts.model_validate(dict(row)) for row in rows}
    return {id: found.get(id, DeadLetterCounts()) for id in subscriptions}


async def page_dead_letters(
    connection: Connection, subscription: str, after: int, limit: int, reason: str | None = None
) -> list[DeadLetter]:
    """Read up to `limit` dead letters after a number, of a reason or all, without their events."""
    rows = await connection.fetch(_queries.page, subscription, after, limit, reason)
    return [DeadLetter(**row) for row in rows]


async def read_causes(
    connection: Connection, subscription: str, *, by_group: bool
) -> list[tuple[str | None, DeadLetterCause]]:
    """Count the dead letters of a subscription by reason, and for each group if `by_group`.

    Returns:
        the counts, each with the path of the group; `None` for all groups, and for no entity.
    """
    rows = await connection.fetch(_queries.causes, subscription, by_group)
    return [(row["path"], DeadLetterCause.model_validate(dict(row))) for row in rows]


async def get_dead_letter(
    connection: Connection, subscription: str, number: int
) -> DeadLetter | None:
    row = await connection.fetchrow(_queries.get, subscription, number)
    return None if row is None else DeadLetter(**row)


async def mark_due(
    connection: Connection,
    subscription: str,
    *,
    number: int | None = None,
    since: datetime | None = None,
    reason: str | None = None,
) -> int:
    """Make dead letters, and the events waiting behind them, due; return how many.

    The dead letters are all, or those of a number, of a reason, or that failed `since` a time.
    """
    return sum(await _change(connection, subscription, _queries.mark_due, number, since, reason))


async def clear_dead_letters(
    connection: Connection, subscription: str, reason: str | None = None
) -> tuple[int, int]:
    """Delete the dead letters of a subscription with a reason, or all; returns as `_change`."""
    return await _change(connection, subscription, _queries.clear, reason)


async def aged_subscriptions(connection: Connection, before: datetime, limit: int) -> list[str]:
    """The subscriptions of the `limit` oldest dead letters that failed before a time."""
    rows = await connection.fetch(_queries.aged, before, limit)
    return [row["subscription"] for row in rows]


async def drop_aged(connection: Connection, subscription: str, before: datetime) -> tuple[int, int]:
    """Delete the dead letters that failed before a time; returns as `_change`."""
    return await _change(connection, subscription, _queries.drop_aged, before)
