"""Stores the encrypted keys that sign deliveries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from datetime import datetime

from catalog.keys.keyring import KeyRing, SecretPlace
from catalog.model.sinkterms import SignatureScheme, SigningKey
from catalog.store.database import Connection
from catalog.store.queries import Queries
from catalog.store.secrets import seal

_queries = Queries("signingkeys")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A key in its stored form: `sealed` is the encrypted secret; every other field is public."""

    subscription: str
    id: str
    scheme: SignatureScheme
    sealed: bytes = field(repr=False)
    publickey: str | None
    createdat: datetime
    endsat: datetime | None


_NAMES = [each.name for each in fields(StoredKey)]


async def save_key(
    connection: Connection,
    keys: KeyRing,
    subscription: str,
    key: SigningKey,
    publickey: str | None,
) -> None:
    """Add a key to a subscription."""
    sealed = await seal(connection, keys, key.secret, _place(subscription, key.id))
    values = key.id, key.scheme, sealed, publickey, key.createdat
    await connection.execute(_queries.save, subscription, *values)


async def load_keys(
    connection: Connection, subscriptions: Collection[str], now: datetime
) -> dict[str, tuple[StoredKey, ...]]:
    """Read the keys of subscriptions that are in use, newest first, by subscription."""
    found = defaultdict(list)
    for row in await connection.fetch(_queries.load, list(subscriptions), now):
        found[row["subscription"]].append(StoredKey(**{name: row[name] for name in _NAMES}))
    return {id: tuple(keys) for id, keys in found.items()}


async def end_keys(
    connection: Connection, subscription: str, at: datetime, *, now: datetime
) -> None:
    """Let the keys of a subscription end at a time, if they do not end earlier."""
    await connection.execute(_queries.end_all, subscription, at, now)


async def remove_key(connection: Connection, subscription: str, id: str) -> None:
    await connection.execute(_queries.remove, subscription, id)


async def remove_keys(connection: Connection, subscription: str) -> None:
    """Delete the keys of a subscription that signs no more."""
    await connection.execute(_queries.remove_all, subscription)


def open_key(keys: KeyRing, stored: StoredKey) -> SigningKey:
    """Decrypt a key.

    Raises:
        SecretUnreadable: the encryption key is missing, or the secret was damaged.
    """
    return SigningKey(
        id=stored.id,
        scheme=stored.scheme,
        secret=keys.open(stored.sealed, _place(stored.subscription, stored.id)),
        createdat=stored.createdat,
        endsat=stored.endsat,
    )


def _place(subscription: str, id: str) -> SecretPlace:
    return SecretPlace("signing_keys", f"{subscription}/{id}", "sealed")
