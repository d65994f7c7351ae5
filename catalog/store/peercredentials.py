"""Encrypts the credentials of this node at other catalogs, each credential for its place."""

from __future__ import annotations

from catalog.keys.keyring import KeyRing, SecretPlace
from catalog.model.credentials import PeerCredential
from catalog.store.database import Connection
from catalog.store.secrets import seal


async def seal_credential(
    connection: Connection, keys: KeyRing, credential: PeerCredential, table: str, id: str
) -> bytes | None:
    """Encrypt a credential for the column `sealed` of a row, as `seal`; `None` if it is empty."""
    if credential.is_empty:
        return None
    return await seal(connection, keys, credential.written(), _place(table, id))


def seal_unsaved(keys: KeyRing, credential: PeerCredential, table: str, id: str) -> bytes | None:
    """Encrypt a credential for a row that is not going to be stored; `None` if it is empty."""
    if credential.is_empty:
        return None
    return keys.seal(credential.written(), _place(table, id))


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
