"""Stores the encrypted credentials of sinks, and the state of their access tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

import orjson

from catalog.keys.keyring import KeyRing, SecretPlace
from catalog.model.credentials import (
    CredentialType,
    PlainCredential,
    RefreshGrant,
    SinkCredential,
    TokenCredential,
    type_of,
)
from catalog.model.masking import masked_url
from catalog.store.database import Connection
from catalog.store.queries import Queries
from catalog.store.secrets import seal

BETWEEN_EARLY_REFRESHES = timedelta(seconds=60)
"""The least time between two refreshes of a token that the sink refuses before expiry."""
_queries = Queries("sinkcredentials")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCredential:
    """The credential of a subscription's sink as it is stored.

    Args:
        subscription: the id of the subscription.
        revision: a number that grows whenever a client or a refresh stores a new credential.
        sealed: the encrypted credential; the remaining members are not secret.
        scheme: the type of the access token.
        expiresat: the end of the access token's validity.
        endpoint: the URL that refreshes the token, with stars in place of the values in its query.
        earlyat: the last time that an early refresh was due because the sink had refused the token.
        failures: the number of failed refreshes in a row; `error` is the cause of the last failure.
    """

    subscription: str
    revision: int
    sealed: bytes = field(repr=False)
    type: CredentialType
    scheme: str | None
    expiresat: datetime | None
    endpoint: str | None
    earlyat: datetime | None
    failures: int
    error: str | None


_NAMES = [each.name for each in fields(StoredCredential)]


async def save_credential(
    connection: Connection,
    keys: KeyRing,
    subscription: str,
    credential: SinkCredential,
    *,
    refreshat: datetime | None = None,
) -> None:
    """Replace the credential of a subscription, whose token is to be refreshed at `refreshat`."""
    sealed = await seal(connection, keys, _encoded(credential), _place(subscription))
    await connection.execute(
        _queries.save, subscription, sealed, *shown_columns(credential), refreshat
    )


async def remove_credential(connection: Connection, subscription: str) -> None:
    await connection.execute(_queries.remove, subscription)


async def load_credentials(
    connection: Connection, subscriptions: Collection[str]
) -> dict[str, StoredCredential]:
    """Read the credentials of subscriptions by id; absent credentials are left out."""
    rows = await connection.fetch(_queries.load, list(subscriptions))
    return {row["subscription"]: _stored_from(row) for row in rows}


async def warn_of_ending(connection: Connection, before: datetime) -> None:
    """Log, once per token, the access tokens without a refresh that end before a time."""
    await connection.execute(_queries.warn, before)


async def claim_due(
    connection: Connection,
    now: datetime,
    *,
    until: datetime,
    busy: Sequence[str],
    per_endpoint: int,
    limit: int,
) -> list[StoredCredential]:
    """Claim credentials with tokens due for a refresh, each until `until`.

    Endpoints in `busy` are left out, and each other one has up to `per_endpoint`.
    """
    rows = await connection.fetch(_queries.claim, now, until, busy, per_endpoint, limit)
    return [_stored_from(row) for row in rows]


async def refresh_early(
    connection: Connection, refused: Sequence[tuple[str, int, datetime]]
) -> None:
    """Have tokens refreshed that a sink has refused before the end of the token's validity.

    A token stays as it is while a refresh runs, after a refresh that failed, and for
    `BETWEEN_EARLY_REFRESHES` after the last early refresh.

    Args:
        refused: subscriptions, the revisions of their credentials, and the times of the refusals.
    """
    ids, revisions, times = zip(*refused, strict=True)
    await connection.execute(_queries.refresh_early, ids, revisions, times, BETWEEN_EARLY_REFRESHES)


async def next_refresh(connection: Connection, *, busy: Sequence[str]) -> datetime | None:
    """The time of the next refresh at an endpoint that is not in `busy`."""
    found: datetime | None = await connection.fetchval(_queries.next_refresh, busy)
    return found


async def renew(
    connection: Connection,
    keys: KeyRing,
    stored: StoredCredential,
    credential: TokenCredential,
    *,
    refreshat: datetime,
) -> bool:
    """Store the refreshed tokens, unless a client has stored a new credential in the meantime.

    The subscription gets a new revision, so that the sink is reopened. Call in a transaction.

    Returns:
        whether the tokens are stored.
    """
    id = stored.subscription
    # Locked before the credential, as in a replacement by a client, to avoid a deadlock.
    await connection.execute(_queries.hold, id)
    sealed = await seal(connection, keys, _encoded(credential), _place(id))
    scheme, expiresat = credential.scheme, credential.expiresat
    return bool(
        await connection.fetchval(
            _queries.renew, id, stored.revision, sealed, scheme, expiresat, refreshat
        )
    )


async def note_failure(
    connection: Connection, stored: StoredCredential, error: str, *, refreshat: datetime
) -> None:
    """Store why a refresh failed, and the time of the next refresh. Call in a transaction.

    A new cause gives the subscription a new revision, so that the reopened sink reports the cause.
    """
    id = stored.subscription
    await connection.execute(_queries.hold, id)
    await connection.execute(_queries.note_failure, id, stored.revision, error, refreshat)


def open_credential(keys: KeyRing, stored: StoredCredential) -> SinkCredential:
    """Decrypt a credential.

    Raises:
        SecretUnreadable: the key is missing, or the stored credential was damaged.
    """
    data = orjson.loads(keys.open(stored.sealed, _place(stored.subscription)))
    if "identifier" in data:
        return PlainCredential(**data)
    refresh = data["refresh"] and RefreshGrant(**data["refresh"])
    expiresat = data["expiresat"] and datetime.fromisoformat(data["expiresat"])
    return TokenCredential(**data | {"refresh": refresh, "expiresat": expiresat})


def _place(subscription: str) -> SecretPlace:
    return SecretPlace("sink_credentials", subscription, "sealed")


def _encoded(credential: SinkCredential) -> bytes:
    return orjson.dumps(asdict(credential))


def shown_columns(
    credential: SinkCredential,
) -> tuple[CredentialType, str | None, datetime | None, str | None]:
    """The members that are no secret: type, scheme, expiry, and endpoint as `masked_url`."""
    if isinstance(credential, PlainCredential):
        return type_of(credential), None, None, None
    refresh = credential.refresh
    endpoint = None if refresh is None else masked_url(refresh.endpoint)
    return type_of(credential), credential.scheme, credential.expiresat, endpoint


def _stored_from(row: Mapping[str, Any]) -> StoredCredential:
    return StoredCredential(**{name: row[name] for name in _NAMES})
