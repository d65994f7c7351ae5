"""Reads and writes entities, their documents and tombstones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
from asyncpg.exceptions import LockNotAvailableError, PostgresError

from catalog.model.change import Change
from catalog.model.digest import bucket
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import collection_of
from catalog.store.changes import Position
from catalog.store.database import Connection
from catalog.store.queries import Queries

_queries = Queries("entities")


class MustBeginAgain(Exception):
    """What an interaction touches changed while it waited for its locks, or it waited too long."""


class ConfigurationChanged(Exception):
    """The configuration is another one than the interaction was read with."""


_REASONS: Mapping[str, type[Exception]] = {
    "CC001": MustBeginAgain,
    LockNotAvailableError.sqlstate: MustBeginAgain,
    "CC002": ConfigurationChanged,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What an interaction is about to write, so that it can be locked and loaded.

    `groups` and `resources` are xids. The exclusive flags say what is known beforehand to
    gain or lose children; what is missing is found out by the database itself. `revision`
    is the configuration's that all of this was made with; `None` fits any.
    """

    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    registry_exclusive: bool = False
    groups_exclusive: bool = False
    catalog_exclusive: bool = False
    revision: int | None = None

    def __or__(self, other: Touched) -> Touched:
        """Both, of the same revision."""
        return Touched(
            groups=self.groups | other.groups,
            resources=self.resources | other.resources,
            registry_exclusive=self.registry_exclusive or other.registry_exclusive,
            groups_exclusive=self.groups_exclusive or other.groups_exclusive,
            catalog_exclusive=self.catalog_exclusive or other.catalog_exclusive,
            revision=self.revision,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """What is touched, as it is while the locks are held.

    Nothing else needs to be looked for where `is_referred` is false: no cross reference
    refers to a touched resource; or where `has_lived` is false: nothing touched, and no
    version of a touched resource, left a tombstone.
    """

    entities: dict[str, Entity]
    is_referred: bool
    has_lived: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Everything that one interaction writes."""

    interaction: str
    at: datetime
    entities: Sequence[Entity] = ()
    tombstones: Sequence[Tombstone] = ()
    changes: Sequence[Change] = ()
    dropped_documents: Sequence[str] = ()
    revived: Sequence[Origin] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A resource with what a GET of it shows: its default version, if that is here yet."""

    resource: Entity
    default: Entity | None
    versionscount: int


def entity_from(row: Mapping[str, Any]) -> Entity:
    return Entity(
        xid=row["xid"],
        kind=row["kind"],
        authority=row["authority"],
        origin=row["origin"],
        epoch=row["epoch"],
        attributes=orjson.loads(row["attributes"]),
        createdat=row["createdat"],
        modifiedat=row["modifiedat"],
        digest=row["digest"],
        document_sha256=row["document_sha256"],
    )


def _default_from(row: Mapping[str, Any]) -> Entity:
    return Entity(
        xid=row["v_xid"],
        kind="version",
        authority=row["v_authority"],
        origin=row["v_origin"],
        epoch=row["v_epoch"],
        attributes=orjson.loads(row["v_attributes"]),
        createdat=row["v_createdat"],
        modifiedat=row["v_modifiedat"],
        digest=row["v_digest"],
        document_sha256=row["v_document_sha256"],
    )


def tombstone_from(row: Mapping[str, Any]) -> Tombstone:
    return Tombstone(
        xid=row["xid"],
        kind=row["kind"],
        authority=row["authority"],
        origin=row["origin"],
        epoch=row["epoch"],
        deletedat=row["deletedat"],
    )


def _shown_from(row: Mapping[str, Any]) -> Shown:
    return Shown(
        resource=entity_from(row),
        default=_default_from(row) if row["v_xid"] is not None else None,
        versionscount=row["versionscount"],
    )


async def lock_and_load(
    connection: Connection, touched: Touched, *, patience_seconds: float = 0
) -> Locked:
    """Lock what is touched, then load it: the registry, the groups, the resources, and
    every version of these resources.

    Args:
        patience_seconds: how long to wait for a lock, then and for the rest of the
            transaction; 0 is for ever.

    Raises:
        MustBeginAgain: roll back, and come again with everything exclusive.
        ConfigurationChanged: roll back, and read the configuration anew.
    """
    try:
        rows = await connection.fetch(
            _queries.lock_and_load,
            list(touched.groups),
            list(touched.resources),
            touched.registry_exclusive,
            touched.groups_exclusive,
            touched.catalog_exclusive,
            touched.revision,
            f"{patience_seconds:.3f}s",
        )
    except PostgresError as error:
        reason = _REASONS.get(getattr(error, "sqlstate", None) or "")
        if reason is None:
            raise
        raise reason from error
    return Locked(
        entities={row["xid"]: entity_from(row) for row in rows},
        is_referred=not rows or rows[0]["is_referred"],
        has_lived=not rows or rows[0]["has_lived"],
    )


async def load(connection: Connection, xids: Iterable[str]) -> dict[str, Entity]:
    """Entities by xid, without their documents; what does not exist is not in the answer."""
    rows = await connection.fetch(_queries.load, list(xids))
    return {row["xid"]: entity_from(row) for row in rows}


async def load_by_origin(connection: Connection, origins: Iterable[Origin]) -> dict[Origin, Entity]:
    wanted = list(origins)
    rows = await connection.fetch(
        _queries.load_by_origin, [o.authority for o in wanted], [o.xid for o in wanted]
    )
    return {Origin(row["authority"], row["origin"]): entity_from(row) for row in rows}


async def load_tombstones(
    connection: Connection, origins: Iterable[Origin]
) -> dict[Origin, Tombstone]:
    wanted = list(origins)
    rows = await connection.fetch(
        _queries.load_tombstones, [o.authority for o in wanted], [o.xid for o in wanted]
    )
    return {Origin(row["authority"], row["origin"]): tombstone_from(row) for row in rows}


async def load_subtrees(connection: Connection, xids: Iterable[str]) -> list[Entity]:
    """Some entities with everything below each, every entity before what is below it."""
    roots = ["" if xid == "/" else xid for xid in xids]
    rows = await connection.fetch(_queries.load_subtrees, roots)
    return [entity_from(row) for row in rows]


async def numbers_of_deleted_versions(
    connection: Connection, authority: str, resources: Sequence[str]
) -> dict[str, list[range]]:
    """By resource, the numbers that were ids of versions which are deleted now."""
    if not resources:
        return {}
    rows = await connection.fetch(_queries.numbers_of_deleted_versions, authority, resources)
    return {
        row["resource"]: [range(numbers.lower, numbers.upper) for numbers in row["numbers"]]
        for row in rows
    }


async def load_shown(connection: Connection, xids: Iterable[str]) -> list[Shown]:
    """Those of these resources that exist, with what a GET of each shows."""
    wanted = list(xids)
    if len(wanted) == 1:
        rows = await connection.fetch(_queries.load_one_shown, wanted[0])
    else:
        rows = await connection.fetch(_queries.load_shown, wanted)
    return [_shown_from(row) for row in rows]


async def page(
    connection: Connection, collection: str, after: str, limit: int | None
) -> list[Entity]:
    """Up to `limit` entities of a collection whose ids come after `after`."""
    rows = await connection.fetch(_queries.page, collection, after.lower(), limit)
    return [entity_from(row) for row in rows]


async def page_resources(
    connection: Connection, collection: str, after: str, limit: int | None
) -> list[Shown]:
    """Up to `limit` resources of a collection whose ids come after `after`."""
    rows = await connection.fetch(_queries.page_resources, collection, after.lower(), limit)
    return [_shown_from(row) for row in rows]


async def load_ids(connection: Connection, collection: str) -> list[str]:
    """The ids of everything in a collection."""
    rows = await connection.fetch(_queries.load_ids, collection)
    return [row["id"] for row in rows]


async def find_by_key(connection: Connection, key: bytes) -> str | None:
    """The xid of the group or resource whose short URL has this key."""
    xid: str | None = await connection.fetchval(_queries.find_by_key, key)
    return xid


async def count_collections(connection: Connection, collections: Iterable[str]) -> dict[str, int]:
    """How many entities each collection holds, by its path; empty ones are missing."""
    rows = await connection.fetch(_queries.count_collections, list(collections))
    return {row["collection"]: row["count"] for row in rows}


async def load_documents(connection: Connection, xids: Iterable[str]) -> dict[str, bytes]:
    rows = await connection.fetch(_queries.documents, list(xids))
    return {row["xid"]: row["body"] for row in rows}


async def write(connection: Connection, *writes: Write) -> Position:
    """Write everything of some interactions, in their order; the caller commits.

    Returns:
        where the change log will show them.
    """
    tombstones = [tombstone for write in writes for tombstone in write.tombstones]
    if tombstones:
        await connection.execute(_queries.bury, *_tombstone_columns(tombstones))
    revived = [origin for write in writes for origin in write.revived]
    if revived:
        await connection.execute(
            _queries.revive, [o.authority for o in revived], [o.xid for o in revived]
        )
    entities = _last_states(writes)
    txid = await connection.fetchval(_queries.write, _entity_rows(entities), _change_rows(writes))
    if resources := _relisted(entities, writes):
        await connection.execute(_queries.relist, *_default_columns(resources))
    documents = [e for e in entities if e.document is not None]
    if documents:
        await connection.execute(
            _queries.write_documents, [e.xid for e in documents], [e.document for e in documents]
        )
    if dropped := [xid for write in writes for xid in write.dropped_documents]:
        await connection.execute(_queries.drop_documents, dropped)
    return Position.end_of(txid)


def _last_states(writes: Sequence[Write]) -> Sequence[Entity]:
    """Each entity once, as the last that writes it leaves it."""
    if len(writes) == 1:
        return writes[0].entities
    return list({entity.xid: entity for write in writes for entity in write.entities}.values())


def _entity_rows(entities: Sequence[Entity]) -> str:
    defaults = {e.xid: _default_version(e) for e in entities if e.kind == "resource"}
    return orjson.dumps([_entity_row(entity, defaults) for entity in entities]).decode()


def _entity_row(entity: Entity, defaults: Mapping[str, str]) -> dict[str, Any]:
    """A row, with where its attributes are shown, and whether they are.

    That is known of groups and resources, and of the versions whose resource is among those
    with `defaults`. `None` leaves it to the resource that is stored.
    """
    path = entity.path
    owner = path.resource if path.vid else path
    sha256 = entity.document_sha256
    return {
        "xid": entity.xid,
        "collection": collection_of(path),
        "id": path.id,
        "kind": entity.kind,
        "authority": entity.authority,
        "origin": entity.origin,
        "epoch": entity.epoch,
        "attributes": dict(entity.attributes),
        "createdat": entity.createdat,
        "modifiedat": entity.modifiedat,
        "document_sha256": None if sha256 is None else sha256.hex(),
        "digest": entity.digest.hex(),
        "fingerprint": entity.fingerprint,
        "bucket": entity.bucket,
        "listing": collection_of(owner),
        "listing_id": owner.id.lower(),
        "is_listed": _is_listed(entity, defaults),
    }


def _is_listed(entity: Entity, defaults: Mapping[str, str]) -> bool | None:
    if entity.kind != "version":
        return entity.kind == "group"
    default = defaults.get(str(entity.path.resource))
    return None if default is None else entity.xid == default


def _relisted(entities: Sequence[Entity], writes: Sequence[Write]) -> list[Entity]:
    """The resources with a version that is not written but may begin or cease to be listed."""
    written = {entity.xid for entity in entities}
    created = {c.xid for write in writes for c in write.changes if c.action == "created"}
    return [
        entity
        for entity in entities
        if entity.kind == "resource"
        and not (entity.xid in created and _default_version(entity) in written)
    ]


def _default_columns(resources: Sequence[Entity]) -> list[list[str]]:
    return [
        [collection_of(resource.path) for resource in resources],
        [resource.path.id.lower() for resource in resources],
        [_default_version(resource) for resource in resources],
    ]


def _default_version(resource: Entity) -> str:
    return f"{resource.xid}/versions/{resource.attributes.get('defaultversionid', '')}"


def _tombstone_columns(tombstones: Sequence[Tombstone]) -> list[list[Any]]:
    return [
        [t.xid for t in tombstones],
        [t.kind for t in tombstones],
        [t.authority for t in tombstones],
        [t.origin for t in tombstones],
        [t.epoch for t in tombstones],
        [t.digest for t in tombstones],
        [bucket(t.authority, t.origin) for t in tombstones],
        [t.deletedat for t in tombstones],
    ]


def _change_rows(writes: Sequence[Write]) -> str:
    return orjson.dumps(
        [
            {
                "interaction": write.interaction,
                "at": write.at,
                "xid": change.xid,
                "kind": change.kind,
                "action": change.action,
                "authority": change.authority,
                "origin": change.origin,
                "epoch": change.epoch,
                "digest": change.digest.hex(),
                "changed": change.changed,
                "deprecation": change.deprecation,
            }
            for write in writes
            for change in write.changes
        ]
    ).decode()
