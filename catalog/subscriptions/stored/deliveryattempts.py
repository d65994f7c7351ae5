"""Stores the last attempts of deliveries, for whoever asks why a subscription gets nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.operations.deliveries import AttemptOutcome
from catalog.store.database import Connection
from catalog.store.queries import Queries
from catalog.subscriptions.stored.sinkcredentials import RefusedToken, refresh_early

_queries = Queries("deliveryattempts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt to deliver events of a subscription.

    Args:
        at: when it began.
        events: how many were sent.
        reason: the sink's answer in a few words, such as "204" or why it refused.
        milliseconds: how long it took.
        refusedtoken: the revision of the credential whose access token the sink refused, and that
            is to be refreshed for that; it is not stored.
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
    """An attempt with its number, which tells its place among all."""

    number: int


async def add_attempts(connection: Connection, attempts: Sequence[Attempt], *, most: int) -> None:
    """Add attempts in their order, the last `most` of each subscription.

    Those of subscriptions that are gone are left out. Access tokens that were refused are
    refreshed early.
    """
    refused = [
        RefusedToken(subscription=each.subscription, revision=each.refusedtoken, at=each.at)
        for each in attempts
        if each.refusedtoken is not None
    ]
    if refused:
        await refresh_early(connection, refused)
    kept = _last(attempts, most)
    await connection.execute(
        _queries.add,
        [each.subscription for each in kept],
        [each.at for each in kept],
        [each.events for each in kept],
        [each.outcome for each in kept],
        [each.reason for each in kept],
        [each.milliseconds for each in kept],
    )


async def page_attempts(
    connection: Connection, subscription: str, before: int, limit: int
) -> list[StoredAttempt]:
    """Read up to `limit` attempts of a subscription before a number, the newest first."""
    rows = await connection.fetch(_queries.page, subscription, before, limit)
    return [StoredAttempt(**row) for row in rows]


async def trim_attempts(
    connection: Connection, before: datetime, most: int, *, since: datetime
) -> int:
    """Keep the last `most` attempts of each subscription that are not from before a time.

    Args:
        since: those of subscriptions that have had none from then on are not counted again.

    Returns:
        how many were deleted.
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
