"""Stores the consents of sinks of web hooks, and when the remaining sinks are asked."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime

from catalog.model.sinkterms import SinkConsent
from catalog.store.database import Connection
from catalog.store.queries import Queries

AWAITS_CONSENT = "waits for the sink's consent: it is about to be asked"
"""The reason of a pending subscription whose sink was not asked yet."""
_queries = Queries("sinkconsents")


@dataclass(frozen=True, slots=True, kw_only=True)
class DueConsent:
    """A sink that is to be asked now.

    Args:
        id: the id of the subscription.
        sink: the URL of the sink.
        sinkorigin: scheme, host and port of the sink.
        attempts: how often the sink was asked, including the coming request.
        endsat: the time at which the subscription ends without consent.
    """

    id: str
    sink: str
    sinkorigin: str
    attempts: int
    endsat: datetime


async def seek(
    connection: Connection, id: str, sinkorigin: str, *, now: datetime, until: datetime
) -> bool:
    """Have the sink of a subscription asked; return whether the sink has yet to consent.

    A consent to the same origin stays. The subscription has to exist, and the caller writes the
    state of the subscription in the same transaction.
    """
    await connection.execute(_queries.lock, id)
    return bool(await connection.fetchval(_queries.seek, id, sinkorigin, now, until))


async def forget(connection: Connection, id: str) -> None:
    """Delete the consent, or the search for a consent, of a subscription that needs none."""
    await connection.execute(_queries.lock, id)
    await connection.execute(_queries.forget, id)


async def is_missing(connection: Connection, id: str) -> bool:
    """Whether a subscription lacks a required consent of the sink."""
    return bool(await connection.fetchval(_queries.is_missing, id))


async def claim(
    connection: Connection,
    *,
    now: datetime,
    until: datetime,
    most: int,
    busy: Collection[str],
    most_of_origin: int,
) -> Sequence[DueConsent]:
    """Claim up to `most` due sinks, each until `until`, and of each origin up to `most_of_origin`.

    Origins in `busy` are left out.
    """
    found = await connection.fetch(_queries.claim, now, until, most, list(busy), most_of_origin)
    names = [each.name for each in fields(DueConsent)]
    # The query also takes subscriptions off the schedule that are no longer pending.
    pending = (row for row in found if row["state"] == "pending")
    return [DueConsent(**{name: row[name] for name in names}) for row in pending]


async def next_at(connection: Connection) -> datetime | None:
    """The time at which the next sink is due."""
    found: datetime | None = await connection.fetchval(_queries.next_at)
    return found


async def offer(connection: Connection, due: DueConsent, secret: str) -> bool:
    """Let a sink consent by a callback with a secret, whose digest is stored.

    Returns:
        whether the consent of the sink is still sought.
    """
    found = await connection.fetchval(_queries.offer, due.id, due.sinkorigin, _digest(secret))
    return bool(found)


async def grant(connection: Connection, due: DueConsent, consent: SinkConsent) -> bool:
    """Note the consent of a sink; return whether it was sought.

    A pending subscription becomes active, or paused if a client paused it in the meantime.
    """
    return await _grant(connection, _queries.grant, due.id, due.sinkorigin, consent)


async def grant_by_callback(
    connection: Connection, id: str, secret: str, consent: SinkConsent
) -> bool:
    """As `grant`, for a sink that calls back with a secret; each secret is valid once."""
    return await _grant(connection, _queries.grant_by_callback, id, _digest(secret), consent)


async def _grant(
    connection: Connection, query: str, id: str, proof: str | bytes, consent: SinkConsent
) -> bool:
    await connection.execute(_queries.lock, id)
    values = consent.at, consent.origin, consent.rate
    if not await connection.fetchval(query, id, proof, *values):
        return False
    await connection.execute(_queries.activate, id)
    await connection.execute(_queries.announce, id)
    return True


async def postpone(connection: Connection, due: DueConsent, reason: str, until: datetime) -> None:
    """Ask a sink again later, and store the reason."""
    await connection.execute(_queries.lock, due.id)
    await connection.execute(_queries.ask_at, due.id, due.sinkorigin, until)
    await connection.execute(_queries.explain, due.id, reason, until)


async def give_up(connection: Connection, due: DueConsent, reason: str) -> None:
    """End a subscription whose sink has not consented in time."""
    await connection.execute(_queries.lock, due.id)
    await connection.execute(_queries.ask_at, due.id, due.sinkorigin, None)
    await connection.execute(_queries.give_up, due.id, reason)
    await connection.execute(_queries.announce, due.id)


async def load_consents(
    connection: Connection, subscriptions: Collection[str]
) -> dict[str, SinkConsent]:
    """Read the consents that sinks have given, by subscription."""
    rows = await connection.fetch(_queries.load, list(subscriptions))
    return {
        row["subscription"]: SinkConsent(
            at=row["grantedat"], origin=row["requestorigin"], rate=row["allowedrate"]
        )
        for row in rows
    }


async def release(connection: Connection) -> None:
    """Let the subscriptions go on that wait for a consent."""
    await connection.execute(_queries.release)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
