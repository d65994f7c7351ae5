"""Stores the last delivery attempts of each subscription, to explain why nothing arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.operations.deliveries import AttemptOutcome
from catalog.store.database import Connection
from catalog.store.queries import Queries
from catalog.subscriptions.stored.sinkcredentials import refresh_early

_queries = Queries("deliveryattempts")
_COLUMNS = ("subscription", "at", "events", "outcome", "reason", "milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt to deliver events of a subscription.

    Args:
        at: the time at which the attempt began.
        events: the number of events sent.
        reason: the sink's answer in a few words, such as "204", or why the sink refused.
        milliseconds: the duration of the attempt.
        refusedtoken: the revision of the credential whose access token the sink refused and that
            needs a refresh; not stored.
    """

    subscription: str
    at: datetime
    events: int
    outcome: AttemptOutcome
    reason: str
    milliseconds: int
    refusedtoken: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAttempt(Attempt):
    """A stored attempt; attempts are ordered by their numbers."""

    number: int


async def add_attempts(connection: Connection, attempts: Sequence[Attempt], *, most: int) -> None:
    """Add attempts in their order, the last `most` of each subscription.

    Attempts of deleted subscriptions are left out. Access tokens that a sink refused are refreshed
    early.
    """
    refused = [
        (each.subscription, each.refusedtoken, each.at)
        for each in attempts
        if each.refusedtoken is not None
    ]
    if refused:
        await refresh_early(connection, refused)
    kept = _last(attempts, most)
    columns = ([getattr(each, name) for each in kept] for name in _COLUMNS)
    await connection.execute(_queries.add, *columns)


async def page_attempts(
    connection: Connection, subscription: str, before: int, limit: int
) -> list[StoredAttempt]:
    """Read up to `limit` attempts of a subscription before a number, newest first."""
    rows = await connection.fetch(_queries.page, subscription, before, limit)
    return [StoredAttempt(**row) for row in rows]


async def trim_attempts(
    connection: Connection, before: datetime, most: int, *, since: datetime
) -> int:
    """Delete old attempts, and all but the last `most` of each subscription; return how many.

    Only subscriptions with an attempt `since` a time are counted again.
    """
    return int(await connection.fetchval(_queries.trim, before, most, since))


def _last(attempts: Sequence[Attempt], most: int) -> list[Attempt]:
    counts: Counter[str] = Counter()
    kept = []
    for attempt in reversed(attempts):
        counts[attempt.subscription] += 1
        if counts[attempt.subscription] <= most:
            kept.append(attempt)
    return kept[::-1]
