"""Writes the results of interactions: entities, documents, tombstones and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from catalog.longwork import aside
from catalog.model.change import Change
from catalog.model.digest import bucket
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import collection_of
from catalog.store.changes import Position, read_newest
from catalog.store.database import Connection
from catalog.store.entities import columns_of
from catalog.store.queries import Queries

_queries = Queries("writes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The rows that one interaction writes or removes."""

    interaction: str
    at: datetime
    entities: Sequence[Entity] = ()
    tombstones: Sequence[Tombstone] = ()
    changes: Sequence[Change] = ()
    dropped_documents: Sequence[str] = ()
    revived: Sequence[Origin] = ()


async def write(connection: Connection, *writes: Write) -> Position:
    """Write the rows of some interactions, in their order; the caller commits.

    Returns:
        the position of their last change in the log, or where they have none, that of the last
        change that they may depend on.
    """
    if tombstones := [tombstone for write in writes for tombstone in write.tombstones]:
        await connection.execute(_queries.bury, *_tombstone_columns(tombstones))
    if revived := [origin for write in writes for origin in write.revived]:
        columns = columns_of(revived)
        await connection.execute(_queries.revive, *columns)
        await connection.execute(_queries.begin_lives, *columns)
    entities = list({entity.xid: entity for write in writes for entity in write.entities}.values())
    count = len(entities)
    rows = await aside(count, _entity_rows, entities)
    changes = await aside(count, _change_rows, writes)
    last = await connection.fetchrow(_queries.write, rows, changes)
    if resources := await aside(count, _relisted, entities, writes):
        await connection.execute(_queries.relist, *_default_columns(resources))
    if documents := {e.xid: e.document for e in entities if e.document is not None}:
        await connection.execute(
            _queries.write_documents, list(documents), list(documents.values())
        )
    if dropped := [xid for write in writes for xid in write.dropped_documents]:
        await connection.execute(_queries.drop_documents, dropped)
    return await read_newest(connection) if last is None else Position(last["txid"], last["seq"])


def _entity_rows(entities: Sequence[Entity]) -> str:
    defaults = {e.xid: _default_version(e) for e in entities if e.kind == "resource"}
    return orjson.dumps([_entity_row(entity, defaults) for entity in entities]).decode()


def _entity_row(entity: Entity, defaults: Mapping[str, str]) -> dict[str, Any]:
    """A row, with the collection that its attributes are listed in, and whether they are.

    `is_listed` is `None`, for the database to look at the stored resource, of versions whose
    resource has none in `defaults`.
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
