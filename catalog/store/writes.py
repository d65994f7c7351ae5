"""Writes the results of interactions: entities, documents, tombstones and changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

import orjson

from catalog.entitysignature import EntitySigner
from catalog.longwork import aside
from catalog.model.author import Author, author
from catalog.model.change import Change
from catalog.model.digest import bucket
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.tracecontext import TraceContext
from catalog.model.xid import collection_of, parent_of
from catalog.store.auditnotes import interaction_row
from catalog.store.changes import Position, read_newest
from catalog.store.database import Connection
from catalog.store.entities import columns_of
from catalog.store.queries import Queries

P = ParamSpec("P")
T = TypeVar("T")

_queries = Queries("writes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The rows that one interaction writes or removes.

    `signed` stay as they are, and get another signature. The audit names the `author` of the
    changes. `trace` is theirs, unless `traces` has another one for an xid.
    """

    interaction: str
    at: datetime
    entities: Sequence[Entity] = ()
    tombstones: Sequence[Tombstone] = ()
    changes: Sequence[Change] = ()
    dropped_documents: Sequence[str] = ()
    revived: Sequence[Origin] = ()
    signed: Sequence[Entity | Tombstone] = ()
    author: Author | None = field(default_factory=author.get)
    trace: TraceContext | None = None
    traces: Mapping[str, TraceContext] = field(default_factory=dict)


async def write(
    connection: Connection,
    *writes: Write,
    signer: EntitySigner | None = None,
    on_loop: bool = False,
) -> Position:
    """Write the rows of some interactions, in their order; the caller commits.

    Args:
        signer: signs those of its authority. Others have the signatures that they came with.
        on_loop: make many rows on the event loop, too. That is quicker where the loop has work of
            its own meanwhile, with which the thread for long work would compete.

    Returns:
        the position of their last change in the log, or where they have none, that of the last
        change that they may depend on.
    """
    call = _at_once if on_loop else aside
    if tombstones := [tombstone for write in writes for tombstone in write.tombstones]:
        columns = await call(len(tombstones), _tombstone_columns, tombstones, signer)
        await connection.execute(_queries.bury, *columns)
    if revived := [origin for write in writes for origin in write.revived]:
        origins = columns_of(revived)
        await connection.execute(_queries.revive, *origins)
        await connection.execute(_queries.begin_lives, *origins)
    if signed := [each for write in writes for each in write.signed]:
        await _sign(connection, signed)
    entities = list({entity.xid: entity for write in writes for entity in write.entities}.values())
    count = len(entities)
    rows = await call(count, _entity_rows, entities, signer)
    changes = await call(count, _change_rows, writes)
    last = await connection.fetchrow(_queries.write, rows, changes, _audit_rows(writes))
    if resources := await call(count, _relisted, entities, writes):
        await connection.execute(_queries.relist, *_default_columns(resources))
    if documents := {e.xid: e.document for e in entities if e.document is not None}:
        await connection.execute(
            _queries.write_documents, list(documents), list(documents.values())
        )
    if dropped := [xid for write in writes for xid in write.dropped_documents]:
        await connection.execute(_queries.drop_documents, dropped)
    return await read_newest(connection) if last is None else Position(last["txid"], last["seq"])


async def _at_once(_: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)


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
    """The signature and the id of its key; the registry, which is not replicated, has none."""
    if signer is None or written.authority != signer.authority or written.kind == "registry":
        return written.signature, written.signedby or None
    return signer.sign_copy(digest), signer.id


def _entity_rows(entities: Sequence[Entity], signer: EntitySigner | None) -> str:
    defaults = {e.xid: _default_version(e) for e in entities if e.kind == "resource"}
    return orjson.dumps([_entity_row(entity, defaults, signer) for entity in entities]).decode()


def _entity_row(
    entity: Entity, defaults: Mapping[str, str], signer: EntitySigner | None
) -> dict[str, Any]:
    """A row, with the collection that its attributes are listed in, and whether they are.

    `is_listed` is `None`, for the database to look at the stored resource, of versions whose
    resource has none in `defaults`.
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


def _tombstone_columns(
    tombstones: Sequence[Tombstone], signer: EntitySigner | None
) -> list[list[Any]]:
    digests = [t.digest for t in tombstones]
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


def _change_rows(writes: Sequence[Write]) -> str:
    return orjson.dumps(
        [_change_row(write, change) for write in writes for change in write.changes]
    ).decode()


def _audit_rows(writes: Sequence[Write]) -> str:
    return orjson.dumps(
        [
            interaction_row(write.author, write.interaction, write.at, write.changes)
            for write in writes
            if write.changes
        ]
    ).decode()


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
    return row if trace is None else {**row, **trace.headers()}
