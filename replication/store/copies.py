"""Reads snapshots for other catalogs, and the entities that incoming copies would replace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import Xid
from catalog.store.database import Connection
from catalog.store.entities import columns_of, entity_from, tombstone_from
from catalog.store.queries import Queries

_queries = Queries("copies", package=__package__)
_PREFETCH = 500


class HeldName(NamedTuple):
    """The xid and the origin of a held entity."""

    xid: str
    origin: Origin


class HeldCopies(NamedTuple):
    """Entities by xid, and tombstones by origin."""

    entities: dict[str, Entity]
    tombstones: dict[Origin, Tombstone]


class CopiesWithAncestors(NamedTuple):
    """Entities, their missing ancestors (groups and resources), and tombstones."""

    entities: list[Entity]
    ancestors: list[Entity]
    tombstones: dict[Origin, Tombstone]


async def stream_entities(
    connection: Connection, authorities: Sequence[str] | None
) -> AsyncIterator[Entity]:
    """Read every entity except the registry, parents first, without documents.

    Needs a transaction; `None` stands for every authority.
    """
    async for row in connection.cursor(_queries.entities, authorities, prefetch=_PREFETCH):
        yield entity_from(row)


async def stream_entities_within(
    connection: Connection, authorities: Sequence[str], origins: Sequence[str], paths: Sequence[str]
) -> AsyncIterator[Entity]:
    """Read the entities of authorities at given origins and below given paths, parents first.

    Needs a transaction, and scans only the selected ranges.
    """
    async for row in connection.cursor(
        _queries.entities_within, authorities, origins, paths, prefetch=_PREFETCH
    ):
        yield entity_from(row)


async def stream_tombstones(
    connection: Connection, authorities: Sequence[str] | None
) -> AsyncIterator[Tombstone]:
    """Read every tombstone. Needs a transaction; `None` stands for every authority."""
    async for row in connection.cursor(_queries.tombstones, authorities, prefetch=_PREFETCH):
        yield tombstone_from(row)


async def page_entities(
    connection: Connection, authorities: Sequence[str] | None, after: Origin, limit: int
) -> list[Origin]:
    """Read up to `limit` origins of entities after an origin; `None` stands for every authority."""
    rows = await connection.fetch(
        _queries.page_entities, authorities, after.authority, after.xid, limit
    )
    return [_origin_of(row) for row in rows]


async def page_tombstones(
    connection: Connection, authorities: Sequence[str] | None, after: Origin, limit: int
) -> list[Origin]:
    """Read up to `limit` origins of tombstones after an origin, as `page_entities`."""
    rows = await connection.fetch(
        _queries.page_tombstones, authorities, after.authority, after.xid, limit
    )
    return [_origin_of(row) for row in rows]


async def load_held(
    connection: Connection,
    xids: Iterable[str],
    origins: Iterable[Origin],
    versions: Iterable[str] = (),
) -> HeldCopies:
    """Read the entities that incoming copies would replace, and the tombstones of their origins.

    Ids in `xids` match in any case, and the default versions of resources are read, too; xids in
    `versions` are exact, and need not be valid.
    """
    places = [xid.rpartition("/") for xid in xids]
    rows = await connection.fetch(
        _queries.load_held,
        [collection for collection, _, _ in places],
        [id.lower() for _, _, id in places],
        *columns_of(origins),
        list(versions),
    )
    return HeldCopies(
        entities={row["xid"]: entity_from(row) for row in rows if row["tombstone"] is None},
        tombstones=_tombstones_among(rows),
    )


async def load_with_ancestors(
    connection: Connection, origins: Iterable[Origin]
) -> CopiesWithAncestors:
    """Read the entities of origins, the groups and resources above them, and the tombstones."""
    rows = await connection.fetch(_queries.load_with_ancestors, *columns_of(origins))
    live = [row for row in rows if row["tombstone"] is None]
    return CopiesWithAncestors(
        entities=[entity_from(row) for row in live if not row["is_above"]],
        ancestors=[entity_from(row) for row in live if row["is_above"]],
        tombstones=_tombstones_among(rows),
    )


def _tombstones_among(rows: Iterable[Mapping[str, Any]]) -> dict[Origin, Tombstone]:
    deleted = [tombstone_from(row["tombstone"]) for row in rows if row["tombstone"] is not None]
    return {Origin(each.authority, each.origin): each for each in deleted}


async def count_replicas(
    connection: Connection, authorities: Collection[str] | None, *, own: str
) -> int:
    """Count the entities of authorities, or of all but `own` for `None`; scans an index."""
    return await connection.fetchval(_queries.count_replicas, _listed(authorities), own)


async def drop(connection: Connection, xids: Iterable[str]) -> None:
    """Delete entities without tombstones, since no authority has deleted the entities.

    The descendants of the entities need to be included.
    """
    await connection.execute(_queries.drop, list(xids))


async def page_groups(
    connection: Connection, own: str, authorities: Collection[str] | None, after: str, limit: int
) -> list[HeldName]:
    """Read up to `limit` groups of authorities other than `own`; `None` stands for all."""
    rows = await connection.fetch(_queries.groups, own, _listed(authorities), after, limit)
    return [HeldName(row["xid"], _origin_of(row)) for row in rows]


async def page_deletions(
    connection: Connection, own: str, authorities: Collection[str] | None, after: Origin, limit: int
) -> list[Origin]:
    """Read the origins of up to `limit` tombstones of authorities other than `own`."""
    rows = await connection.fetch(
        _queries.deletions, own, _listed(authorities), after.authority, after.xid, limit
    )
    return [_origin_of(row) for row in rows]


async def page_replicas(
    connection: Connection, own: str, authorities: Collection[str] | None, after: Origin, limit: int
) -> list[HeldName]:
    """Read up to `limit` entities of authorities other than `own`, ancestors first."""
    rows = await connection.fetch(
        _queries.replicas, own, _listed(authorities), after.authority, after.xid, limit
    )
    return [HeldName(row["xid"], _origin_of(row)) for row in rows]


async def read_unlabelled(
    connection: Connection,
    own: str,
    authorities: Collection[str] | None,
    labels: Sequence[str],
    units: Collection[Origin] | None,
) -> list[HeldName]:
    """Read groups and resources of authorities other than `own` that the labels do not select.

    Args:
        units: as in `drop_unlabelled`; `None` stands for every group and resource.
    """
    named = (None, None) if units is None else columns_of(units)
    rows = await connection.fetch(_queries.unlabelled, own, _listed(authorities), labels, *named)
    return [HeldName(row["xid"], _origin_of(row)) for row in rows]


async def rename(connection: Connection, group: str, target: str) -> None:
    """Move a group with its descendants to a free xid."""
    await connection.execute(_queries.rename, group, target, Xid.parse(target).gid)


async def refer_anew(connection: Connection, group: Origin, xid: str) -> list[Entity]:
    """Point the cross references of an authority to its own group at the group's xid here."""
    rows = await connection.fetch(_queries.refer_anew, group.authority, group.xid, xid)
    return [entity_from(row) for row in rows]


async def forget_deletions(connection: Connection, origins: Iterable[Origin]) -> None:
    await connection.execute(_queries.forget_deletions, *columns_of(origins))


async def rehash_documents(connection: Connection, xids: Iterable[str]) -> dict[str, bytes]:
    """The hashes of the stored documents, by xid."""
    rows = await connection.fetch(_queries.rehash_documents, list(xids))
    return {row["xid"]: row["sha256"] for row in rows}


def _origin_of(row: Mapping[str, Any]) -> Origin:
    return Origin(row["authority"], row["origin"])


def _listed(authorities: Collection[str] | None) -> list[str] | None:
    return None if authorities is None else list(authorities)
