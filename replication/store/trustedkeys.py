"""Stores the trusted keys of authorities, and the key histories of authorities."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from catalog.model.authoritykey import KeyHistory, PublicKey, read_history
from catalog.operations.signing import Reason
from catalog.store.database import Connection
from catalog.store.queries import Queries, from_json, to_json

MOST_HISTORIES = 10_000
_queries = Queries("trustedkeys", package=__package__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """A key that this node trusts, or trusted until the key was revoked.

    Args:
        reason: an operator has named the key, a source showed the key at the first contact, or a
            trusted key endorses the key.
    """

    authority: str
    public: PublicKey
    trustedat: datetime
    reason: Reason
    revokedat: datetime | None


async def load_trusted(
    connection: Connection, authorities: Collection[str] | None
) -> list[TrustedKey]:
    """Read the trusted keys of authorities; `None` stands for every authority."""
    wanted = None if authorities is None else list(authorities)
    return [
        TrustedKey(
            authority=row["authority"],
            public=PublicKey(row["number"], row["publickey"]),
            trustedat=row["trustedat"],
            reason=row["reason"],
            revokedat=row["revokedat"],
        )
        for row in await connection.fetch(_queries.load, wanted)
    ]


async def trust(
    connection: Connection, authority: str, key: PublicKey, at: datetime, reason: Reason
) -> None:
    await connection.execute(_queries.add, authority, key.number, key.key, at, reason)


async def revoke_trusted(
    connection: Connection, authority: str, key: PublicKey, at: datetime
) -> None:
    await connection.execute(_queries.revoke, authority, key.number, key.key, at)


async def distrust(connection: Connection, authority: str) -> None:
    """Forget the trusted keys of an authority, whose unsigned copies are accepted again."""
    await connection.execute(_queries.remove, authority)


async def load_histories(
    connection: Connection, authorities: Collection[str] | None, limit: int = MOST_HISTORIES
) -> dict[str, KeyHistory]:
    """Read the known key histories by authority; `None` stands for every authority."""
    wanted = None if authorities is None else list(authorities)
    rows = await connection.fetch(_queries.histories, wanted, limit)
    return {row["authority"]: read_history(from_json(row["history"])) for row in rows}


async def save_history(connection: Connection, history: KeyHistory) -> None:
    await connection.execute(_queries.save_history, history.authority, to_json(history.as_json()))


async def lock_histories(connection: Connection) -> None:
    """Let only one transaction at a time compare key histories."""
    await connection.execute(_queries.lock_histories)


async def count_histories(connection: Connection) -> int:
    return await connection.fetchval(_queries.count_histories)
