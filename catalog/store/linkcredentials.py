"""Stores the credentials that links show to their peers, encrypted."""

from __future__ import annotations

from dataclasses import replace

import orjson

from catalog.encryption import KeyRing, SecretPlace
from catalog.model.peercredential import PeerCredential
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.queries import Queries
from catalog.store.secrets import seal

_queries = Queries("linkcredentials")


async def save_credential(
    connection: Connection, keys: KeyRing, link: Link, credential: PeerCredential
) -> Link:
    """Store the credential of a link in place of the one that it had.

    Call this in the transaction that adds or replaces the link.
    """
    sealed = shown = None
    if not credential.is_empty:
        sealed = await seal(connection, keys, credential.written(), _place(link.id))
        shown = credential.shown
    text = None if shown is None else orjson.dumps(shown).decode()
    await connection.execute(_queries.save, link.id, sealed, text)
    return replace(link, sealed=sealed, credential=shown)


async def renew_credential(
    connection: Connection, keys: KeyRing, link: Link, credential: PeerCredential
) -> Link | None:
    """Store another credential, with which the link goes on at once from where it is.

    `None` if there is no such link.
    """
    if await connection.fetchval(_queries.go_on, link.id) is None:
        return None
    await save_credential(connection, keys, link, credential)
    # Without an id: all links are compared, so the runner of this revision starts.
    await links.wake(connection, "")
    return await links.get(connection, link.id)


def with_credential(link: Link, keys: KeyRing, credential: PeerCredential) -> Link:
    """A link that is not stored, with its credential."""
    if credential.is_empty:
        return link
    return replace(link, sealed=keys.seal(credential.written(), _place(link.id)))


def credential_of(link: Link, keys: KeyRing) -> PeerCredential:
    """The credential of a link.

    Raises:
        SecretUnreadable: it cannot be decrypted.
    """
    if link.sealed is None:
        return PeerCredential()
    return PeerCredential.read(keys.open(link.sealed, _place(link.id)))


def _place(link: str) -> SecretPlace:
    return SecretPlace("links", link, "sealed")
