"""Encrypts the secrets of a transaction, so that no rotation of the keys misses a secret."""

from __future__ import annotations

from catalog.keys.keyring import KeyRing, SecretPlace
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("secrets")


async def seal(connection: Connection, keys: KeyRing, secret: bytes, place: SecretPlace) -> bytes:
    """Encrypt a secret that the caller stores in the open transaction of the connection.

    Until the transaction ends, no rotation drops the key of the encryption.
    """
    # A rotation waits for the lock: it has to see the row, which is invisible before the commit.
    await connection.execute(_queries.share_keys)
    return keys.seal(secret, place)
