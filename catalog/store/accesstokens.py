"""Stores the node's own access tokens: the digests of the secrets, and the grants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from catalog.model.roles import Grant, token_principal
from catalog.store.database import Connection
from catalog.store.queries import Queries

# A list of tokens has no pages: an answer holds every token.
MOST_TOKENS = 1000
_USE_NOTED = timedelta(minutes=1)
_queries = Queries("accesstokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """A token without the secret, which only the holder has.

    `expiresat` is `None` if the token never expires, `usedat` is `None` until the first use.
    """

    id: str
    name: str
    grants: tuple[Grant, ...]
    createdat: datetime
    expiresat: datetime | None = None
    usedat: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        return self.expiresat is None or now < self.expiresat


async def add_token(connection: Connection, token: AccessToken, digest: bytes) -> None:
    """Store a new token by the digest of its secret."""
    await connection.execute(
        _queries.add,
        token.id,
        digest,
        token.name,
        orjson.dumps([asdict(grant) for grant in token.grants]).decode(),
        token.createdat,
        token.expiresat,
    )


async def find_token(connection: Connection, digest: bytes) -> AccessToken | None:
    row = await connection.fetchrow(_queries.find, digest)
    return None if row is None else _token_from(row)


async def find_token_by_id(connection: Connection, id: str) -> AccessToken | None:
    row = await connection.fetchrow(_queries.find_by_id, id)
    return None if row is None else _token_from(row)


async def note_use(connection: Connection, token: AccessToken, now: datetime) -> None:
    """Store the time at which a token is used, at most once a minute."""
    before = now - _USE_NOTED
    # The statement compares again, as another process may have stored a later use meanwhile.
    if token.usedat is None or token.usedat < before:
        await connection.execute(_queries.note_use, token.id, now, before)


async def list_tokens(connection: Connection) -> list[AccessToken]:
    """Read all tokens, newest first."""
    return [_token_from(row) for row in await connection.fetch(_queries.page, MOST_TOKENS)]


async def remove_token(connection: Connection, id: str) -> AccessToken | None:
    """Delete a token, in a transaction; `None` if no token has the id.

    The subscriptions of the token's holder are suspended.
    """
    row = await connection.fetchrow(_queries.remove, id)
    if row is None:
        return None
    await suspend_subscriptions(connection, token_principal(id), "its creator's token was revoked")
    return _token_from(row)


async def suspend_subscriptions(connection: Connection, createdby: str, reason: str) -> None:
    """Suspend the subscriptions of a caller, and announce the suspensions."""
    await connection.execute(_queries.suspend_subscriptions, createdby, reason)


async def count_tokens(connection: Connection, now: datetime) -> tuple[int, int]:
    """Count the stored tokens, and the tokens that are valid and give a role."""
    row = await connection.fetchrow(_queries.count, now)
    return int(row["kept"]), int(row["usable"])


def _token_from(row: Mapping[str, Any]) -> AccessToken:
    grants = tuple(Grant(**each) for each in orjson.loads(row["grants"]))
    names = ("id", "name", "createdat", "expiresat", "usedat")
    return AccessToken(grants=grants, **{name: row[name] for name in names})
