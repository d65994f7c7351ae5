"""Writes the results of interactions: entities, documents, tombstones and changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, TypeVar

import orjson

from catalog.keys.entitysignature import EntitySigner
from catalog.load.workthread import aside
from catalog.model.caller import Author, PublishedAuthor
from catalog.model.change import Change
from catalog.model.digest import bucket
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.record import record
from catalog.model.tracecontext import TraceContext
from catalog.model.xid import collection_of, parent_of
from catalog.store.auditnotes import interaction_row
from catalog.store.changes import Position, read_newest
from catalog.store.database import Connection
from catalog.store.entities import columns_of
from catalog.store.queries import Queries
from catalog.store.searchindex import word_rows

T = TypeVar("T")

_queries = Queries("writes")
# The driver encodes the parameters of a statement at once, and blocks the event loop meanwhile.
_TOMBSTONES_AT_ONCE = 2_000


@record
class Write:
    """The rows that an interaction writes or removes.

    Entities and tombstones in `signed` stay unchanged, and get another signature. The audit names
    the `author` of the changes. `trace` is the trace of the changes, unless `traces` has a trace
    for the xid. `authors` has the published authors of copies, by xid.
    """

    interaction: str
    at: datetime
    author: Author
    entities: Sequence[Entity] = ()
    tombstones: Sequence[Tombstone] = ()
    changes: Sequence[Change] = ()
    dropped_documents: Sequence[str] = ()
    revived: Sequence[Origin] = ()
    signed: Sequence[Entity | Tombstone] = ()
    trace: TraceContext | None = None
    traces: Mapping[str, TraceContext] = field(default_factory=dict)
    authors: Mapping[str, PublishedAuthor] = field(default_factory=dict)


@record
class Rows:
    """The rows of some writes as parameters of statements, made before a lock is taken."""

    tombstones: Sequence[Sequence[Sequence[Any]]]
    revived: tuple[list[str], list[str]]
    signed: Sequence[Entity | Tombstone]
    entities: str
    changes: str
    audit: str
    words: str
    unindexed: Sequence[str]
    relisted: list[list[str]]
    documents: Mapping[str, bytes]
    dropped_documents: Sequence[str]


async def write(
    connection: Connection,
    *writes: Write,
    signer: EntitySigner | None = None,
    on_loop: bool = False,
) -> Position:
    """Write the rows of some interactions, in order, as `rows_of` and `write_rows`.

    With `on_loop`, even many rows are made on the event loop: quicker if the loop has work
    meanwhile, with which the thread for long work would compete.
    """
    if on_loop:
        return await write_rows(connection, rows_of(writes, signer))
    count = max(sum(len(each.entities) for each in writes), sum(len(w.tombstones) for w in writes))
    return await write_rows(connection, await aside(count, rows_of, writes, signer))


def rows_of(writes: Sequence[Write], signer: EntitySigner | None) -> Rows:
    """Make the rows of some interactions, in order.

    The signer signs the entities of its authority; further entities keep their signatures.
    """
    tombstones = [tombstone for write in writes for tombstone in write.tombstones]
    digests = {
        (change.authority, change.origin, change.epoch): change.digest
        for write in writes
        for change in write.changes
        if change.action == "deleted"
    }
    # A statement cannot upsert the same row twice, so only the last state of an entity is written.
    entities = list({entity.xid: entity for write in writes for entity in write.entities}.values())
    return Rows(
        tombstones=[
            _tombstone_columns(part, digests, signer)
            for part in _parts(tombstones, _TOMBSTONES_AT_ONCE)
        ],
        revived=columns_of(origin for write in writes for origin in write.revived),
        signed=[each for write in writes for each in write.signed],
        entities=_entity_rows(entities, signer),
        changes=_json([_change_row(write, change) for write in writes for change in write.changes]),
        audit=_json(
            [
                interaction_row(write.author, write.interaction, write.at, write.changes)
                for write in writes
                if write.changes
            ]
        ),
        words=word_rows(entities),
        unindexed=[e.xid for e in entities if e.kind == "resource" and "xref" not in e.attributes],
        relisted=_default_columns(_relisted(entities, writes)),
        documents={e.xid: e.document for e in entities if e.document is not None},
        dropped_documents=[xid for write in writes for xid in write.dropped_documents],
    )


async def write_rows(connection: Connection, rows: Rows) -> Position:
    """Write rows; the caller commits.

    Returns:
        the position of the last change of the rows in the log; without changes, the position of the
            last change that the rows may depend on.
    """
    for columns in rows.tombstones:
        await connection.execute(_queries.bury, *columns)
    if rows.revived[0]:
        await connection.execute(_queries.revive, *rows.revived)
        await connection.execute(_queries.begin_lives, *rows.revived)
    if rows.signed:
        await _sign(connection, rows.signed)
    last = await connection.fetchrow(
        _queries.write, rows.entities, rows.changes, rows.audit, rows.words, rows.unindexed
    )
    if rows.relisted[0]:
        await connection.execute(_queries.relist, *rows.relisted)
    if rows.documents:
        await connection.execute(
            _queries.write_documents, list(rows.documents), list(rows.documents.values())
        )
    if rows.dropped_documents:
        await connection.execute(_queries.drop_documents, rows.dropped_documents)
    return await read_newest(connection) if last is None else Position(last["txid"], last["seq"])


def _json(rows: list[dict[str, Any]]) -> str:
    return orjson.dumps(rows).decode()


def _parts(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (rows[first : first + size] for first in range(0, len(rows), size))


async def _sign(connection: Connection, signed: Sequence[Entity | Tombstone]) -> None:
    for statement, kind in (
        (_queries.sign_entities, Entity),
        (_queries.sign_tombstones, Tombstone),
    ):
        rows = [each for each in signed if isinstance(each, kind)]
        if rows:
            await connection.execute(
                statement,
                [each.authority for each in rows],
                [each.origin for each in rows],
                [each.digest for each in rows],
                [each.signature for each in rows],
                [each.signedby for each in rows],
            )


def _signature_of(
    written: Entity | Tombstone, digest: bytes, signer: EntitySigner | None
) -> tuple[bytes | None, str | None]:
    """The signature and the id of the signing key; the registry, not being replicated, has none."""
    if signer is None or written.authority != signer.authority or written.kind == "registry":
        return written.signature, written.signedby or None
    return signer.sign_copy(digest), signer.id


def _entity_rows(entities: Sequence[Entity], signer: EntitySigner | None) -> str:
    defaults = {e.xid: _default_version(e) for e in entities if e.kind == "resource"}
    return _json([_entity_row(entity, defaults, signer) for entity in entities])


def _entity_row(
    entity: Entity, defaults: Mapping[str, str], signer: EntitySigner | None
) -> dict[str, Any]:
    """A row, with the collection that may list the attributes, and whether they are listed.

    `is_listed` is `None` for a version whose resource has no entry in `defaults`: the database then
    looks at the stored resource.
    """
    collection, _, id = entity.xid.rpartition("/")
    owner = parent_of(entity.xid) if entity.kind == "version" else entity.xid
    listing, _, listing_id = owner.rpartition("/")
    sha256 = entity.document_sha256
    signature, signedby = _signature_of(entity, entity.digest, signer)
    return {
        "xid": entity.xid,
        "collection": collection,
        "id": id,
        "kind": entity.kind,
        "authority": entity.authority,
        "origin": entity.origin,
        "epoch": entity.epoch,
        "attributes": dict(entity.attributes),
        "replaced": entity.replaced and dict(entity.replaced),
        "createdat": entity.createdat,
        "modifiedat": entity.modifiedat,
        "document_sha256": None if sha256 is None else sha256.hex(),
        "digest": entity.digest.hex(),
        "fingerprint": entity.fingerprint,
        "bucket": entity.bucket,
        "listing": listing,
        "listing_id": listing_id.lower(),
        "is_listed": _is_listed(entity, defaults),
        "signature": None if signature is None else signature.hex(),
        "signedby": signedby,
    }


def _is_listed(entity: Entity, defaults: Mapping[str, str]) -> bool | None:
    if entity.kind != "version":
        return entity.kind == "group"
    default = defaults.get(parent_of(entity.xid))
    return None if default is None else entity.xid == default


def _relisted(entities: Sequence[Entity], writes: Sequence[Write]) -> list[Entity]:
    """The resources with an unwritten version that may begin or cease to be listed."""
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


def _tombstone_columns(
    tombstones: Sequence[Tombstone],
    known: Mapping[tuple[str, str, int], bytes],
    signer: EntitySigner | None,
) -> list[list[Any]]:
    digests = [known.get((t.authority, t.origin, t.epoch)) or t.digest for t in tombstones]
    signed = [
        _signature_of(t, digest, signer) for t, digest in zip(tombstones, digests, strict=True)
    ]
    return [
        [t.xid for t in tombstones],
        [t.kind for t in tombstones],
        [t.authority for t in tombstones],
        [t.origin for t in tombstones],
        [t.epoch for t in tombstones],
        digests,
        [bucket(t.authority, t.origin) for t in tombstones],
        [t.deletedat for t in tombstones],
        [signature for signature, _ in signed],
        [id for _, id in signed],
    ]


def _change_row(write: Write, change: Change) -> dict[str, Any]:
    row = {
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
    trace = write.traces.get(change.xid, write.trace) if write.traces else write.trace
    if trace is not None:
        row |= trace.headers()
    author = write.authors.get(change.xid) or write.author.published
    if author is not None:
        row["author"] = author.members()
    return row
