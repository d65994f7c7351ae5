"""Reads entities, their documents, cross references and tombstones; stores sets of entities."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import orjson

from catalog.load.workthread import aside
from catalog.model.change import Change
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.record import record
from catalog.store.changes import change_from
from catalog.store.database import Connection
from catalog.store.queries import Queries

T = TypeVar("T")

_queries = Queries("entities")
_FOLLOWED = ("xref", "defaultversionid")
# The number of characters that take as long to parse as a small entity.
_LARGE_ATTRIBUTES = 2048


@record
class Shown:
    """A resource as a GET shows it: with its default version, if already replicated."""

    resource: Entity
    default: Entity | None
    versionscount: int


def entity_from(row: Mapping[str, Any]) -> Entity:
    attributes, damage = _read_attributes(row["attributes"], row["kind"])
    # Rows that are only for showing lack `replaced` and the signature.
    text, replaced = row.get("replaced"), None
    if text is not None:
        replaced, fault = _read_attributes(text, row["kind"])
        damage = damage or fault
    return Entity(
        xid=row["xid"],
        kind=row["kind"],
        authority=row["authority"],
        origin=row["origin"],
        epoch=row["epoch"],
        attributes=attributes,
        replaced=replaced,
        createdat=row["createdat"],
        modifiedat=row["modifiedat"],
        digest=row["digest"],
        document_sha256=row["document_sha256"],
        damage=damage,
        signature=row.get("signature"),
        signedby=row.get("signedby") or "",
    )


def _read_attributes(text: str, kind: str) -> tuple[dict[str, Any], str]:
    """The stored attributes; or none, and the reason why they cannot be used.

    Reads follow `xref` and `defaultversionid` of resources to further entities, so both attributes
    are checked here; the types of the rest matter only where a single entity is shown.
    """
    try:
        attributes = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return {}, f"its attributes cannot be read: {error}"
    if type(attributes) is not dict:
        return {}, "its attributes are no object"
    if kind == "resource":
        for name in _FOLLOWED:
            if type(attributes.get(name, "")) is not str:
                return {}, f'its "{name}" is no text'
    return attributes, ""


async def entities_from(rows: Sequence[Mapping[str, Any]]) -> list[Entity]:
    return await _each(entity_from, rows)


async def _each(
    parse: Callable[[Mapping[str, Any]], T], rows: Sequence[Mapping[str, Any]]
) -> list[T]:
    """Parse rows, in a thread if there are many or large rows."""
    weight = sum([len(row["attributes"]) for row in rows]) // _LARGE_ATTRIBUTES
    return await aside(max(len(rows), weight), _all, parse, rows)


def _all(parse: Callable[[Mapping[str, Any]], T], rows: Sequence[Mapping[str, Any]]) -> list[T]:
    return [parse(row) for row in rows]


def _default_from(row: Mapping[str, Any]) -> Entity:
    # Written out: building the names of columns for each row would take noticeable time.
    attributes, damage = _read_attributes(row["v_attributes"], "version")
    return Entity(
        xid=row["v_xid"],
        kind="version",
        authority=row["v_authority"],
        origin=row["v_origin"],
        epoch=row["v_epoch"],
        attributes=attributes,
        createdat=row["v_createdat"],
        modifiedat=row["v_modifiedat"],
        digest=row["v_digest"],
        document_sha256=row["v_document_sha256"],
        damage=damage,
    )


def tombstone_from(row: Mapping[str, Any]) -> Tombstone:
    return Tombstone(
        xid=row["xid"],
        kind=row["kind"],
        authority=row["authority"],
        origin=row["origin"],
        epoch=row["epoch"],
        deletedat=row["deletedat"],
        signature=row["signature"],
        signedby=row["signedby"] or "",
    )


def columns_of(origins: Iterable[Origin]) -> tuple[list[str], list[str]]:
    """The authorities and the xids of origins."""
    wanted = list(origins)
    return [origin.authority for origin in wanted], [origin.xid for origin in wanted]


def _shown_from(row: Mapping[str, Any]) -> Shown:
    return Shown(
        resource=entity_from(row),
        default=_default_from(row) if row["v_xid"] is not None else None,
        versionscount=row["versionscount"],
    )


async def read_batches(
    connection: Connection, size: int, statement: str, *arguments: object
) -> AsyncIterator[list[Entity]]:
    """Read entities in batches; the transaction must not end meanwhile."""
    cursor = await connection.cursor(statement, *arguments)
    while rows := await cursor.fetch(size):
        yield await entities_from(rows)


async def load(connection: Connection, xids: Iterable[str]) -> dict[str, Entity]:
    """Read entities without their documents, by xid; missing entities are left out."""
    rows = await connection.fetch(_queries.load, list(xids))
    return {entity.xid: entity for entity in await entities_from(rows)}


async def load_by_origin(connection: Connection, origins: Iterable[Origin]) -> dict[Origin, Entity]:
    rows = await connection.fetch(_queries.load_by_origin, *columns_of(origins))
    return {Origin(row["authority"], row["origin"]): entity_from(row) for row in rows}


async def load_by_path_at_authority(connection: Connection, origin: str) -> list[Entity]:
    """Read the entities with the given path at their authorities, for every authority."""
    rows = await connection.fetch(_queries.load_by_path_at_authority, origin)
    return [entity_from(row) for row in rows]


async def load_tombstones(
    connection: Connection, origins: Iterable[Origin]
) -> dict[Origin, Tombstone]:
    rows = await connection.fetch(_queries.load_tombstones, *columns_of(origins))
    return {Origin(row["authority"], row["origin"]): tombstone_from(row) for row in rows}


async def load_subtrees(connection: Connection, xids: Iterable[str]) -> list[Entity]:
    """Read entities with everything below each entity, parents before their children."""
    roots = ["" if xid == "/" else xid for xid in xids]
    rows = await connection.fetch(_queries.load_subtrees, roots)
    return await entities_from(rows)


async def numbers_of_deleted_versions(
    connection: Connection, authority: str, resources: Sequence[str]
) -> dict[str, list[range]]:
    """The numeric ids of deleted versions, as ranges by resource."""
    if not resources:
        return {}
    rows = await connection.fetch(_queries.numbers_of_deleted_versions, authority, resources)
    return {
        row["resource"]: [range(numbers.lower, numbers.upper) for numbers in row["numbers"]]
        for row in rows
    }


async def load_shown(connection: Connection, xids: Iterable[str]) -> list[Shown]:
    """Read the existing resources among `xids`, each as a GET shows it."""
    wanted = list(xids)
    if len(wanted) == 1:
        row = await connection.fetchrow(_queries.load_one_shown, wanted[0])
        # Two entities of any size are soon parsed.
        return [] if row is None else [_shown_from(row)]
    rows = await connection.fetch(_queries.load_shown, wanted)
    return await _each(_shown_from, rows)


async def count_fitting(connection: Connection, xids: Iterable[str], most_bytes: int) -> int:
    """Count the entities, in order, that begin within the first `most_bytes` bytes of metadata.

    A resource is measured with the default version, and a cross reference as the target.
    """
    return await connection.fetchval(_queries.count_fitting, list(xids), most_bytes)


async def measure_subtrees(connection: Connection, xids: Iterable[str]) -> int:
    """Add up the bytes of metadata of the given entities and everything below them."""
    return await connection.fetchval(_queries.measure_subtrees, list(xids))


async def load_ids(connection: Connection, collection: str) -> list[str]:
    """Read the ids of all entities of a collection."""
    rows = await connection.fetch(_queries.load_ids, collection)
    return [row["id"] for row in rows]


async def find_by_key(connection: Connection, key: bytes) -> str | None:
    """Find the xid of the group or resource whose short URL has the given key."""
    return await connection.fetchval(_queries.find_by_key, key)


async def count_collections(connection: Connection, collections: Iterable[str]) -> dict[str, int]:
    """Count the entities of each collection, by its path; empty collections are left out."""
    rows = await connection.fetch(_queries.count_collections, list(collections))
    return {row["collection"]: row["count"] for row in rows}


async def load_documents(connection: Connection, xids: Iterable[str]) -> dict[str, bytes]:
    rows = await connection.fetch(_queries.documents, list(xids))
    return {row["xid"]: row["body"] for row in rows}


_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossReference:
    """A cross reference: its xid, the xid of the target, and the group of the cross reference."""

    xid: str
    target: str
    group: Entity


async def load_sources(connection: Connection, targets: Iterable[str]) -> list[CrossReference]:
    """Read the cross references to the given resources."""
    rows = await connection.fetch(_queries.sources, list(targets))
    return [
        CrossReference(xid=row["source"], target=row["target"], group=entity_from(row))
        for row in rows
    ]


async def all_references(connection: Connection) -> AsyncIterator[list[tuple[str, str]]]:
    """Read the xid of every cross reference and of its target, in batches.

    The transaction must not end meanwhile.
    """
    cursor = await connection.cursor(_queries.all_references)
    while rows := await cursor.fetch(_BATCH):
        yield [(row["xid"], row["target"]) for row in rows]


async def read_entities_after(
    connection: Connection, xid: str, limit: int
) -> list[tuple[Change, datetime]]:
    """Up to `limit` groups, resources and versions whose xids come after `xid`, in order.

    Each entity is read as the change that would create the entity, with the time of its last
    change.
    """
    rows = await connection.fetch(_queries.entities_after, xid, limit)
    return [(change_from(row), row["modifiedat"]) for row in rows]


async def members_of(connection: Connection, name: str) -> list[str]:
    """Read the xids of a set's entities that still exist; none for an unknown set."""
    return [row["xid"] for row in await connection.fetch(_queries.members, name)]


async def claimed_by_others(
    connection: Connection, name: str, xids: Collection[str]
) -> frozenset[str]:
    """The `xids` that belong to a set with a name other than `name`."""
    rows = await connection.fetch(_queries.claimed_by_others, name, list(xids))
    return frozenset(row["xid"] for row in rows)


async def add_members(connection: Connection, name: str, xids: Collection[str]) -> None:
    """Add existing entities to a set."""
    await connection.execute(_queries.add, name, list(xids))


async def keep_members(connection: Connection, name: str, xids: Collection[str]) -> None:
    """Remove all entities from a set except `xids`."""
    await connection.execute(_queries.keep_only, name, list(xids))
