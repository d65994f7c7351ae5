"""Stores the keys by which this authority signs, and finds the entities without a signature."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from catalog.keys.entitysignature import EntitySigner
from catalog.keys.keyring import KeyRing, SecretPlace, SecretUnreadable
from catalog.model.authoritykey import KeyEntry, PublicKey
from catalog.model.entity import Entity, Tombstone
from catalog.store.database import Connection
from catalog.store.entities import entities_from, tombstone_from
from catalog.store.queries import Queries
from catalog.store.secrets import seal

_log = structlog.get_logger(__name__)
_queries = Queries("authoritykeys")


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningState:
    """The key that signs, and the progress of signing the existing entities.

    Args:
        number: the number of the key that signs; `None` if nothing is signed.
        after: the xid or origin up to which older entities are signed; `None` once all are signed.
    """

    number: int | None
    after: str | None


@dataclass(slots=True, kw_only=True)
class OwnSigners:
    """The signers of the authority's keys; each key is decrypted once.

    Args:
        authority: the authority of this node.
        keys: encrypt the secrets.
    """

    authority: str
    keys: KeyRing
    _signers: dict[int, EntitySigner] = field(init=False, default_factory=dict)
    _unreadable: set[int] = field(init=False, default_factory=set)

    async def get(self, connection: Connection, number: int | None) -> EntitySigner | None:
        """The signer of a key; `None` if the key is gone or its secret cannot be read.

        Entities written meanwhile stay unsigned until the catalog is signed again.
        """
        if number is None or number in self._signers:
            return None if number is None else self._signers[number]
        sealed = await connection.fetchval(_queries.load_secret, number)
        if sealed is None:
            return None
        try:
            seed = self.keys.open(sealed, _place(number))
        except SecretUnreadable as error:
            if number not in self._unreadable:
                _log.error("nothing is signed", key=number, reason=error.reason, cause=error.cause)
            self._unreadable.add(number)
            return None
        self._signers[number] = EntitySigner.of(self.authority, number, seed)
        return self._signers[number]

    def forget(self, number: int) -> None:
        """Forget the secret of a key that no longer signs."""
        self._signers.pop(number, None)


async def load_keys_of_own(connection: Connection) -> list[KeyEntry]:
    """Read all past and present keys of this authority, oldest first."""
    return [
        KeyEntry(
            public=PublicKey(row["number"], row["publickey"]),
            createdat=row["createdat"],
            endorsement=row["endorsement"],
            retiredat=row["retiredat"],
            revokedat=row["revokedat"],
        )
        for row in await connection.fetch(_queries.load)
    ]


async def add_own_key(connection: Connection, keys: KeyRing, entry: KeyEntry, seed: bytes) -> None:
    """Store a key with its secret, encrypted."""
    number = entry.public.number
    sealed = await seal(connection, keys, seed, _place(number))
    values = entry.public.key, sealed, entry.createdat, entry.endorsement
    await connection.execute(_queries.add, number, *values)


async def retire_own_key(
    connection: Connection, number: int, at: datetime, *, revokes: bool
) -> None:
    """Drop the secret of a key; with `revokes`, the signatures of the key become invalid."""
    await connection.execute(_queries.retire, number, at, at if revokes else None)


async def read_signing(connection: Connection) -> SigningState:
    row = await connection.fetchrow(_queries.read_signing)
    return SigningState(number=row["signingkey"], after=row["signsafter"])


async def sign_by(connection: Connection, number: int | None) -> None:
    """Sign writes from now on; the caller has locked the whole catalog."""
    await connection.execute(_queries.sign_by, number)


async def note_signed(connection: Connection, after: str | None) -> None:
    """Store the progress of signing older entities: "" at the beginning, `None` at the end."""
    await connection.execute(_queries.sign_after, after)


async def lock_unsigned(
    connection: Connection, authority: str, after: str, revoked: Collection[str], limit: int
) -> list[Entity]:
    """Lock and read up to `limit` entities to sign, after the xid `after`.

    Entities in an open write are skipped, as the write itself signs them.
    """
    arguments = authority, after, list(revoked), limit
    return await entities_from(await connection.fetch(_queries.unsigned_entities, *arguments))


async def lock_unsigned_tombstones(
    connection: Connection, authority: str, after: str, revoked: Collection[str], limit: int
) -> Sequence[Tombstone]:
    """Lock and read up to `limit` tombstones to sign, after the origin `after`."""
    arguments = authority, after, list(revoked), limit
    rows = await connection.fetch(_queries.unsigned_tombstones, *arguments)
    return [tombstone_from(row) for row in rows]


def _place(number: int) -> SecretPlace:
    return SecretPlace("authority_keys", str(number), "sealed")
