"""Stores the encrypted credentials of links."""

from __future__ import annotations

from dataclasses import replace

from catalog.keys.keyring import KeyRing
from catalog.model.credentials import PeerCredential
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.queries import Queries, to_json
from catalog.store.secrets import open_credential, seal_credential, seal_unsaved

_queries = Queries("linkcredentials", package=__package__)
_TABLE = "links"


async def save_credential(
    connection: Connection, keys: KeyRing, link: Link, credential: PeerCredential
) -> Link:
    """Replace the stored credential of a link.

    Call this in the transaction that adds or replaces the link.
    """
    sealed = await seal_credential(connection, keys, credential, _TABLE, link.id)
    shown = None if credential.is_empty else credential.shown
    await connection.execute(_queries.save, link.id, sealed, to_json(shown))
    return replace(link, sealed=sealed, credential=shown)


async def renew_credential(
    connection: Connection, keys: KeyRing, link: Link, credential: PeerCredential
) -> Link | None:
    """Store a new credential, and let the link continue at once from its cursor.

    `None` if the link does not exist.
    """
    if await connection.fetchval(_queries.go_on, link.id) is None:
        return None
    await save_credential(connection, keys, link, credential)
    # The empty id makes the scheduler compare every link, so a runner with the new revision starts.
    await links.wake(connection, "")
    return await links.get(connection, link.id)


def with_credential(link: Link, keys: KeyRing, credential: PeerCredential) -> Link:
    """An unsaved link with its credential."""
    return replace(link, sealed=seal_unsaved(keys, credential, _TABLE, link.id))


def credential_of(link: Link, keys: KeyRing) -> PeerCredential:
    """The credential of a link.

    Raises:
        SecretUnreadable: the credential cannot be decrypted.
    """
    return open_credential(keys, link.sealed, _TABLE, link.id)


async def find_leading_to(connection: Connection, url: str) -> Link | None:
    """Read the first link that shows a credential to the catalog at a URL."""
    id = await connection.fetchval(_queries.leading_to, url)
    return None if id is None else await links.get(connection, id)
