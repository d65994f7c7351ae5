"""Encrypts the secrets in the database, and encrypts all of them again under another key."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from catalog.keys.keyring import KeyRing, SecretPlace, SecretUnreadable, key_id
from catalog.model.credentials import PeerCredential
from catalog.store.database import Connection
from catalog.store.leadership import take_over
from catalog.store.queries import Queries

_queries = Queries("secrets")
_BATCH = 500
_TABLES = (
    *("sink_credentials", "signing_keys", "authority_keys", "links", "handovers"),
    "recovery_sources",
)


async def seal(connection: Connection, keys: KeyRing, secret: bytes, place: SecretPlace) -> bytes:
    """Encrypt a secret that the caller stores in the open transaction of the connection.

    Until the transaction ends, no rotation drops the key of the encryption.
    """
    # A rotation waits for the lock: it has to see the row, which is invisible before the commit.
    await connection.execute(_queries.share_keys)
    return keys.seal(secret, place)


async def seal_credential(
    connection: Connection, keys: KeyRing, credential: PeerCredential, table: str, id: str
) -> bytes | None:
    """Encrypt a credential at another catalog for the column `sealed` of a row, as `seal`.

    `None` if the credential is empty.
    """
    await connection.execute(_queries.share_keys)
    return seal_unsaved(keys, credential, table, id)


def seal_unsaved(keys: KeyRing, credential: PeerCredential, table: str, id: str) -> bytes | None:
    """Encrypt a credential for a row that is not going to be stored; `None` if it is empty."""
    return None if credential.is_empty else keys.seal(credential.written(), _place(table, id))


def open_credential(keys: KeyRing, sealed: bytes | None, table: str, id: str) -> PeerCredential:
    """Decrypt a credential; without a sealed value, the credential is empty.

    Raises:
        SecretUnreadable
    """
    if sealed is None:
        return PeerCredential()
    return PeerCredential.read(keys.open(sealed, _place(table, id)))


def _place(table: str, id: str) -> SecretPlace:
    return SecretPlace(table, id, "sealed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The result of a rotation: the numbers of secrets.

    `unreadable` secrets, which no key of the node opens, stay unchanged.
    """

    encrypted: int
    unreadable: int


class RotationUnderWay(Exception):
    """Another process is encrypting the secrets at the moment."""


async def count_secrets(connection: Connection) -> Counter[str]:
    """The numbers of secrets by the id of their key; "" stands for damaged secrets."""
    counts: Counter[str] = Counter()
    async for _, sealed in _all(connection):
        try:
            counts[key_id(sealed)] += 1
        except SecretUnreadable:
            counts[""] += 1
    return counts


async def encrypt_anew(connection: Connection, keys: KeyRing) -> Rotation:
    """Encrypt every secret under the key in use; secrets under the key already stay unchanged.

    Afterwards no secret needs another key of the ring. An interrupted rotation can be repeated:
    every secret is under an older key or the key in use.

    Raises:
        RotationUnderWay
    """
    async with take_over(connection, "key rotation") as is_alone:
        if not is_alone:
            raise RotationUnderWay
        # Waits for every transaction that may have used an older key (`seal`).
        async with connection.transaction():
            await connection.execute(_queries.take_keys)
        return await _encrypt_all(connection, keys)


async def _encrypt_all(connection: Connection, keys: KeyRing) -> Rotation:
    encrypted = unreadable = 0
    current = keys.current_id
    async for place, sealed in _all(connection):
        try:
            if key_id(sealed) == current:
                continue
            secret = keys.open(sealed, place)
        except SecretUnreadable:
            unreadable += 1
            continue
        anew = keys.seal(secret, place)
        # A secret that was replaced meanwhile has the key in use already.
        replaced = await connection.fetchval(_queries.replace, place.table, place.id, sealed, anew)
        encrypted += replaced is not None
    return Rotation(encrypted=encrypted, unreadable=unreadable)


async def _all(connection: Connection) -> AsyncIterator[tuple[SecretPlace, bytes]]:
    """Read every secret in the database with its place."""
    for table in _TABLES:
        after = ""
        while rows := await connection.fetch(_queries.page, table, after, _BATCH):
            for row in rows:
                yield _place(table, row["id"]), row["sealed"]
            after = rows[-1]["id"]
