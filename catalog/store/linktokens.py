"""Stores the tokens that links send to their peers, encrypted."""

from __future__ import annotations

from dataclasses import replace

import structlog

from catalog.encryption import KeyRing, SecretPlace, SecretUnreadable
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.queries import Queries
from catalog.store.secrets import seal

_log = structlog.get_logger()
_queries = Queries("linktokens")


async def save_token(connection: Connection, keys: KeyRing, link: Link, token: str) -> Link:
    """Store the token of a link in place of the one that it had; an empty one is none.

    Call this in the transaction that adds or replaces the link.
    """
    sealed = None
    if token:
        sealed = await seal(connection, keys, token.encode(), _place(link.id))
    await connection.execute(_queries.save, link.id, sealed)
    return replace(link, sealed=sealed)


def with_token(link: Link, keys: KeyRing, token: str) -> Link:
    """A link that is not stored, with its token."""
    sealed = keys.seal(token.encode(), _place(link.id)) if token else None
    return replace(link, sealed=sealed)


def token_of(link: Link, keys: KeyRing) -> str | None:
    """The token that a link sends; `None` if it has none that can be read.

    The peer then refuses the link, which says so.
    """
    if link.sealed is None:
        return None
    try:
        return keys.open(link.sealed, _place(link.id)).decode()
    except SecretUnreadable as error:
        _log.warning("the token of a link cannot be read", link=link.id, cause=error.cause)
        return None


def _place(link: str) -> SecretPlace:
    return SecretPlace("links", link, "sealed")
