"""Stores the keys by which this authority signs, and finds what they have yet to sign."""

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
    """The key that signs, and the progress of signing anew.

    Args:
        number: of the key that signs; `None` if none does.
        after: what was there before is signed up to here; `None` if all of it is.
    """

    number: int | None
    after: str | None


@dataclass(slots=True, kw_only=True)
class OwnSigners:
    """The signers of this authority's keys, which are decrypted once.

    Args:
        authority: this node's.
        keys: encrypt the secrets.
    """

    authority: str
    keys: KeyRing
    _signers: dict[int, EntitySigner] = field(init=False, default_factory=dict)
    _unreadable: set[int] = field(init=False, default_factory=set)

    async def get(self, connection: Connection, number: int | None) -> EntitySigner | None:
        """The signer of a key; `None` if there is none, or its secret cannot be read.

        What is written meanwhile stays unsigned until it is signed again.
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
        """Forget the secret of a key that signs nothing more."""
        self._signers.pop(number, None)


async def load_keys_of_own(connection: Connection) -> list[KeyEntry]:
    """Read the keys that this authority has had, the first one first."""
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
    """Drop the secret of a key; with `revokes`, nothing is valid that it has signed."""
    await connection.execute(_queries.retire, number, at, at if revokes else None)


async def read_signing(connection: Connection) -> SigningState:
    row = await connection.fetchrow(_queries.read_signing)
    return SigningState(number=row["signingkey"], after=row["signsafter"])


async def sign_by(connection: Connection, number: int | None) -> None:
    """Sign what is written from now on; the caller has locked the whole catalog."""
    await connection.execute(_queries.sign_by, number)


async def note_signed(connection: Connection, after: str | None) -> None:
    """Note up to where what is there has been signed: "" to begin, `None` at the end."""
    await connection.execute(_queries.sign_after, after)


async def lock_unsigned(
    connection: Connection, authority: str, after: str, revoked: Collection[str], limit: int
) -> list[Entity]:
    """Lock and read up to `limit` entities that are to be signed, after an xid."""
    arguments = authority, after, list(revoked), limit
    return await entities_from(await connection.fetch(_queries.unsigned_entities, *arguments))


async def lock_unsigned_tombstones(
    connection: Connection, authority: str, after: str, revoked: Collection[str], limit: int
) -> Sequence[Tombstone]:
    """The same of deleted entities, after an origin."""
    arguments = authority, after, list(revoked), limit
    rows = await connection.fetch(_queries.unsigned_tombstones, *arguments)
    return [tombstone_from(row) for row in rows]


def _place(number: int) -> SecretPlace:
    return SecretPlace("authority_keys", str(number), "sealed")
