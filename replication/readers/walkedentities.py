"""Translates the entities of a server of other software into copies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from catalog.client import JsonObject
from catalog.model.attributes import PROVENANCE
from catalog.model.digest import canonical
from catalog.model.documentforms import decode_document, document_bytes, document_names, shape_of
from catalog.model.entity import Entity, Tombstone
from catalog.model.schema import GroupType, ResourceType
from catalog.model.timestamps import parse_time
from catalog.model.xid import Xid
from replication.deciding.provenance import MOST_LEAP

_OF_ALL = frozenset({"self", "shortself", "xid", "epoch", "createdat", "modifiedat", "$schema"})
_OF_META = frozenset({"readonly", "defaultversionurl"})
# The result of a server's validation is not content, and is absent in document view.
_OF_VERSION = frozenset(
    {"versionid", "isdefault"}
    | {"formatvalidated", "formatvalidatedreason"}
    | {"compatibilityvalidated", "compatibilityvalidatedreason"}
)


# Stands for a time that the server does not show.
_UNTOLD = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedEntity:
    """An entity as its server shows it, without a digest.

    The epoch is the epoch of the server, or 0 if the server shows none. `lacks_document` says that
    the entity may have a document whose exact bytes the server did not show; `lacks_times` says
    that the server shows no times.
    """

    entity: Entity
    lacks_document: bool = False
    lacks_times: bool = False


def read_group(
    authority: str, kind: GroupType, xid: Xid, body: Any, collections: Iterable[str]
) -> WalkedEntity:
    """A group.

    Args:
        collections: the plural names of the group's resources at the server.

    Raises:
        ValueError: the reason why the body is no group.
    """
    told = _object(body)
    _check_identity(told, kind.singular, xid.gid, str(xid))
    derived = {f"{each}{end}" for each in collections for end in ("", "url", "count")}
    return WalkedEntity(
        entity=_entity(authority, xid, told, {f"{kind.singular}id", *derived}),
    )


def read_resource(
    authority: str, kind: ResourceType, xid: Xid, meta: Any, group: Entity
) -> WalkedEntity:
    """A resource, from its meta entity. A cross reference has the times of its `group`.

    Raises:
        ValueError: the reason why the body is no resource.
    """
    told = _object(meta)
    _check_identity(told, kind.singular, xid.rid, f"{xid}/meta")
    if (target := told.get("xref")) is not None:
        return WalkedEntity(
            entity=Entity(
                xid=str(xid),
                kind="resource",
                authority=authority,
                origin=str(xid),
                epoch=0,
                attributes={"xref": target},
                createdat=group.createdat,
                modifiedat=group.createdat,
            )
        )
    entity = _entity(authority, xid, told, {f"{kind.singular}id", *_OF_META})
    chosen = {"defaultversionsticky": False, **entity.attributes}
    return WalkedEntity(entity=replace(entity, attributes=chosen))


def read_version(authority: str, kind: ResourceType, xid: Xid, body: Any) -> WalkedEntity:
    """A version.

    Raises:
        ValueError: the reason why the body is no version.
    """
    told = _object(body)
    _check_identity(told, kind.singular, xid.rid, str(xid))
    _check_identity(told, "version", xid.vid, str(xid))
    value, encoded, url = document_names(kind)
    documents = {value, encoded} if kind.hasdocument else set()
    entity = _entity(authority, xid, told, {f"{kind.singular}id", *documents, *_OF_VERSION})
    entity = replace(entity, attributes={"ancestorid": xid.vid, **entity.attributes})
    if not kind.hasdocument or url in entity.attributes:
        return WalkedEntity(entity=entity)
    contenttype = entity.attributes.get("contenttype")
    if told.get(encoded) is not None:
        return WalkedEntity(entity=with_document(entity, decode_document(told[encoded])))
    # Metadata has the value of a JSON document, not the exact text.
    is_text = isinstance(contenttype, str) and shape_of(kind, contenttype) == "string"
    if is_text and isinstance(told.get(value), str):
        document = document_bytes(kind, str(contenttype), told[value])
        return WalkedEntity(entity=with_document(entity, document))
    return WalkedEntity(entity=entity, lacks_document=True)


def entity_of(
    authority: str,
    xid: Xid,
    attributes: JsonObject,
    *,
    epoch: int = 0,
    createdat: str | None = None,
    modifiedat: str | None = None,
) -> WalkedEntity:
    """An entity of a server without xids; `attributes` are in the form of xRegistry 1.0.

    Raises:
        ValueError: a time is malformed.
    """
    created = _UNTOLD if createdat is None else _time({"createdat": createdat}, "createdat")
    modified = created if modifiedat is None else _time({"modifiedat": modifiedat}, "modifiedat")
    entity = Entity(
        xid=str(xid),
        kind=xid.kind,
        authority=authority,
        origin=str(xid),
        epoch=epoch,
        attributes={name: value for name, value in attributes.items() if value is not None},
        createdat=created,
        modifiedat=modified,
    )
    return WalkedEntity(entity=entity, lacks_times=createdat is None)


def resource_of(
    authority: str, xid: Xid, versions: Sequence[WalkedEntity], meta: JsonObject
) -> WalkedEntity:
    """A resource of a server that shows only versions: the last version is the default version.

    Args:
        versions: the versions, at least one.
        meta: further attributes of the meta entity.
    """
    entity = Entity(
        xid=str(xid),
        kind=xid.kind,
        authority=authority,
        origin=str(xid),
        epoch=0,
        attributes={
            **meta,
            "defaultversionid": versions[-1].entity.path.vid,
            "defaultversionsticky": False,
        },
        createdat=min(each.entity.createdat for each in versions),
        modifiedat=max(each.entity.modifiedat for each in versions),
    )
    return WalkedEntity(entity=entity, lacks_times=any(each.lacks_times for each in versions))


def with_document(entity: Entity, document: bytes) -> Entity:
    """An entity with its document; an empty document counts as none."""
    return replace(entity, document=document or None)


def is_same_content(entity: Entity, held: Entity) -> bool:
    """Whether an entity equals the held entity, except for the document and the epoch."""
    return (
        not held.damage
        and entity.createdat == held.createdat
        and entity.modifiedat == held.modifiedat
        and canonical(entity.attributes) == canonical(held.attributes)
    )


def sealed_copy(entity: Entity, held: Entity | Tombstone | None) -> Entity:
    """The copy of a server's entity, given the held copy of the same origin.

    The copy keeps the epoch of the server if the epoch is above the held epoch, by `MOST_LEAP` at
    most. Otherwise the server has begun to count anew, as after a restore or when an entity was
    deleted and created again: then a copy that differs gets the held epoch plus 1, and an equal
    copy keeps the held epoch. So catalogs that follow this node see only rising epochs, and this
    node has the content of the server.

    Raises:
        ValueError: the entity has numbers without a canonical form.
    """
    here = 0 if held is None else held.epoch
    if here < entity.epoch <= here + MOST_LEAP:
        return entity.sealed()
    if isinstance(held, Entity) and not held.damage:
        copy = replace(entity, epoch=here).sealed()
        if copy.digest == held.digest:
            return copy
    return replace(entity, epoch=here + 1).sealed()


def _entity(authority: str, xid: Xid, told: Mapping[str, Any], without: set[str]) -> Entity:
    left = _OF_ALL | without
    if _is_provenance(told, xid):
        left |= PROVENANCE
    return Entity(
        xid=str(xid),
        kind=xid.kind,
        authority=authority,
        origin=str(xid),
        epoch=_epoch(told),
        attributes={k: v for k, v in told.items() if k not in left and v is not None},
        createdat=_time(told, "createdat"),
        modifiedat=_time(told, "modifiedat"),
    )


def _is_provenance(told: Mapping[str, Any], xid: Xid) -> bool:
    """Whether `authority` and `origin` mark an entity as a replica, as in a Concord catalog."""
    origin = told.get("origin")
    return "authority" in told and isinstance(origin, str) and origin.endswith(str(xid))


def _check_identity(told: Mapping[str, Any], singular: str, id: str, xid: str) -> None:
    for name, expected in ((f"{singular}id", id), ("xid", xid)):
        if told.get(name, expected) != expected:
            raise ValueError(f'its "{name}" is {str(told[name])[:64]!r}, not {expected!r}')


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value


def _epoch(told: Mapping[str, Any]) -> int:
    epoch = told.get("epoch")
    if type(epoch) is not int or epoch < 0:
        raise ValueError("it has no epoch")
    return epoch


def _time(told: Mapping[str, Any], name: str) -> datetime:
    value = told.get(name)
    if not isinstance(value, str):
        raise ValueError(f'it has no "{name}"')
    try:
        return parse_time(value)
    except ValueError as error:
        raise ValueError(f'its "{name}" is no time: {error}') from error
