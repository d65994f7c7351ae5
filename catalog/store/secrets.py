"""Encrypts secrets that a transaction stores, so that a rotation of the keys misses none."""

from __future__ import annotations

from catalog.keys.keyring import KeyRing, SecretPlace
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("secrets")


async def seal(connection: Connection, keys: KeyRing, secret: bytes, place: SecretPlace) -> bytes:
    """Encrypt a secret that the caller stores in the open transaction of the connection.

    Until the transaction ends, no rotation drops the key that was used.
    """
    await connection.execute(_queries.share_keys)
    return keys.seal(secret, place)
