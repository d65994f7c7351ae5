"""Stores the credentials of sinks, encrypted, and the state of the tokens among them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any

import orjson

from catalog.encryption import KeyRing, SecretPlace
from catalog.model.masking import masked_url
from catalog.model.sinkcredential import (
    CredentialType,
    PlainCredential,
    RefreshGrant,
    SinkCredential,
    TokenCredential,
    type_of,
)
from catalog.store.database import Connection
from catalog.store.queries import Queries
from catalog.store.secrets import seal

_queries = Queries("sinkcredentials")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCredential:
    """The credential of a subscription's sink as it is stored.

    Args:
        subscription: the id of the subscription.
        revision: grows whenever a client or a refresh stores another credential.
        sealed: the credential, encrypted; the other members are no secrets.
        scheme: the type of the access token.
        expiresat: the end of the access token's validity.
        endpoint: the URL that refreshes it, with stars in place of the values in its query.
        failures: the number of refreshes in a row that failed, the last one because of `error`.
    """

    subscription: str
    revision: int
    sealed: bytes = field(repr=False)
    type: CredentialType
    scheme: str | None
    expiresat: datetime | None
    endpoint: str | None
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
    """Store the credential of a subscription that exists, in place of the one that it had.

    Args:
        refreshat: the time at which its access token is to be refreshed.
    """
    sealed = await seal(connection, keys, _encoded(credential), _place(subscription))
    await connection.execute(
        _queries.save, subscription, sealed, *_shown_columns(credential), refreshat
    )


async def remove_credential(connection: Connection, subscription: str) -> None:
    await connection.execute(_queries.remove, subscription)


async def load_credentials(
    connection: Connection, subscriptions: Collection[str]
) -> dict[str, StoredCredential]:
    """Read the credentials of subscriptions, by id; those without one are left out."""
    rows = await connection.fetch(_queries.load, list(subscriptions))
    return {row["subscription"]: _stored_from(row) for row in rows}


def open_credential(keys: KeyRing, stored: StoredCredential) -> SinkCredential:
    """Decrypt a credential.

    Raises:
        SecretUnreadable: its key is not there, or it was damaged.
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


def _shown_columns(credential: SinkCredential) -> Sequence[Any]:
    """The type, scheme, expiry and endpoint of a credential."""
    if isinstance(credential, PlainCredential):
        return type_of(credential), None, None, None
    refresh = credential.refresh
    endpoint = None if refresh is None else masked_url(refresh.endpoint)
    return type_of(credential), credential.scheme, credential.expiresat, endpoint


def _stored_from(row: Mapping[str, Any]) -> StoredCredential:
    return StoredCredential(**{name: row[name] for name in _NAMES})
