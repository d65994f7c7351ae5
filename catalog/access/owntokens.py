"""Makes the tokens of the node, and finds the holder of a token by its digest."""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import UTC, datetime

from catalog.access.identity import Identity
from catalog.access.rolerules import grant_to_token, who_of
from catalog.model.concorderrors import LimitReached
from catalog.model.roles import TOKEN, WHOLE_CATALOG, Grant
from catalog.store.accessrules import remove_rules_for
from catalog.store.accesstokens import (
    MOST_TOKENS,
    AccessToken,
    add_token,
    count_tokens,
    find_token,
    note_use,
    remove_token,
)
from catalog.store.database import Connection, Database

_PREFIX = "concord_"
_SECRET_BYTES = 32
_FORM = re.compile(_PREFIX + r"[A-Za-z0-9_-]{43}", re.ASCII)
_ID_BYTES = 5


def is_own(credential: str) -> bool:
    """Whether a credential has the form of the node's own tokens."""
    return _FORM.fullmatch(credential) is not None


async def make_token(
    connection: Connection,
    *,
    name: str,
    grants: tuple[Grant, ...],
    expiresat: datetime | None,
    by: str = "",
) -> tuple[AccessToken, str]:
    """Make a token, whose text cannot be read again.

    Args:
        grants: the grants of the token; grants for groups are stored as rules for the token.
        by: the caller who makes the token.

    Raises:
        LimitReached
    """
    now = datetime.now(UTC)
    kept, _ = await count_tokens(connection, now)
    if kept >= MOST_TOKENS:
        raise LimitReached(limit=str(MOST_TOKENS), things="tokens", setting="fixed")
    text = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    token = AccessToken(
        id=secrets.token_hex(_ID_BYTES),
        name=name,
        grants=tuple(each for each in grants if each.path == WHOLE_CATALOG),
        createdat=now,
        expiresat=expiresat,
    )
    await add_token(connection, token, _digest(text))
    in_groups = [(each.role, each.path) for each in grants if each.path != WHOLE_CATALOG]
    await grant_to_token(connection, token.id, in_groups, by=by)
    return token, text


async def end_token(connection: Connection, id: str) -> AccessToken | None:
    """Remove a token with the rules for the token; `None` if no token has the id."""
    token = await remove_token(connection, id)
    if token is not None:
        await remove_rules_for(connection, who_of(id))
    return token


async def caller_with(database: Database, credential: str) -> Identity | None:
    """The holder of a token; `None` if the token is unknown, was revoked or has expired.

    Every case takes the same work: one digest, and one search for a row with the digest.
    """
    now = datetime.now(UTC)
    async with database.acquire() as connection:
        token = await find_token(connection, _digest(credential))
        if token is None or not token.is_valid(now):
            return None
        await note_use(connection, token, now)
    return Identity("token", token.id, grants=token.grants, claims={TOKEN: token.id})


def _digest(text: str) -> bytes:
    # A slow hash protects secrets that can be guessed. A token has 256 random bits, which cannot be
    # guessed, so a fast digest protects it as well and costs requests no time. The time of the
    # search reveals no token either: an attacker who varies a token cannot choose the digest.
    return hashlib.sha256(text.encode()).digest()
