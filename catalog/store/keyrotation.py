"""Encrypts all secrets in a database again, under the key in use."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from catalog.keys.keyring import KeyRing, SecretPlace, SecretUnreadable, key_id
from catalog.store.database import Connection
from catalog.store.leadership import take_over
from catalog.store.queries import Queries

_queries = Queries("keyrotation")
_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column of secrets: the place, and the statements that read and replace values.

    `page` reads the ids and values after an id; `replace` replaces a value if it is unchanged.
    """

    table: str
    column: str
    page: str
    replace: str


COLUMNS: Sequence[_Column] = (
    _Column(
        table="sink_credentials",
        column="sealed",
        page=_queries.page_sink_credentials,
        replace=_queries.replace_sink_credential,
    ),
    _Column(
        table="signing_keys",
        column="sealed",
        page=_queries.page_signing_keys,
        replace=_queries.replace_signing_key,
    ),
    _Column(
        table="authority_keys",
        column="sealed",
        page=_queries.page_authority_keys,
        replace=_queries.replace_authority_key,
    ),
    _Column(
        table="links",
        column="sealed",
        page=_queries.page_links,
        replace=_queries.replace_link,
    ),
    _Column(
        table="handovers",
        column="sealed",
        page=_queries.page_handovers,
        replace=_queries.replace_handover,
    ),
    _Column(
        table="recovery_sources",
        column="sealed",
        page=_queries.page_recovery_sources,
        replace=_queries.replace_recovery_source,
    ),
)
"""Every column that holds secrets."""


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
    for column in COLUMNS:
        async for _, sealed in _values(connection, column):
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
    for column in COLUMNS:
        async for id, sealed in _values(connection, column):
            place = SecretPlace(column.table, id, column.column)
            with contextlib.suppress(SecretUnreadable):
                if key_id(sealed) == current:
                    continue
            try:
                secret = keys.open(sealed, place)
            except SecretUnreadable:
                unreadable += 1
                continue
            anew = keys.seal(secret, place)
            # A secret that was replaced meanwhile has the key in use already.
            replaced = await connection.fetchval(column.replace, id, sealed, anew)
            encrypted += replaced is not None
    return Rotation(encrypted=encrypted, unreadable=unreadable)


async def _values(connection: Connection, column: _Column) -> AsyncIterator[tuple[str, bytes]]:
    after = ""
    while rows := await connection.fetch(column.page, after, _BATCH):
        for row in rows:
            yield row["id"], row["sealed"]
        after = rows[-1]["id"]
