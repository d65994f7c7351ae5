"""Reads and writes what passes between catalogs: whole snapshots, and what incoming copies meet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import Xid, collection_of
from catalog.store.database import Connection
from catalog.store.entities import entity_from, tombstone_from
from catalog.store.queries import Queries

_queries = Queries("feed")
_PREFETCH = 500


async def stream_entities(
    connection: Connection, authorities: Sequence[str] | None
) -> AsyncIterator[Entity]:
    """Every live entity but the registry, parents first, without documents.

    Needs a transaction; `None` stands for all authorities.
    """
    async for row in connection.cursor(_queries.entities, authorities, prefetch=_PREFETCH):
        yield entity_from(row)


async def stream_tombstones(
    connection: Connection, authorities: Sequence[str] | None
) -> AsyncIterator[Tombstone]:
    """Every tombstone. Needs a transaction; `None` stands for all authorities."""
    async for row in connection.cursor(_queries.tombstones, authorities, prefetch=_PREFETCH):
        yield tombstone_from(row)


async def load_held(
    connection: Connection, xids: Iterable[str], origins: Iterable[Origin]
) -> dict[str, Entity]:
    """By xid, what is at these places (whatever the case of its id) or has these origins."""
    paths = [Xid.parse(xid) for xid in xids]
    wanted = list(origins)
    rows = await connection.fetch(
        _queries.load_held,
        [collection_of(path) for path in paths],
        [path.id.lower() for path in paths],
        [origin.authority for origin in wanted],
        [origin.xid for origin in wanted],
    )
    return {row["xid"]: entity_from(row) for row in rows}


async def drop(connection: Connection, xids: Sequence[str]) -> None:
    """Remove rows that can't be reached any more, without tombstones."""
    await connection.execute(_queries.drop, list(xids))


async def rehash_documents(connection: Connection, xids: Iterable[str]) -> dict[str, bytes]:
    """By xid, what the stored documents hash to, whatever the entities' rows say."""
    rows = await connection.fetch(_queries.rehash_documents, list(xids))
    return {row["xid"]: row["sha256"] for row in rows}
