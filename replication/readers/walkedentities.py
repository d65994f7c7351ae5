"""Translates the entities of a server of other software into copies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from catalog.model.attributes import PROVENANCE
from catalog.model.documentforms import decode_document, document_bytes, document_names, shape_of
from catalog.model.entity import Entity
from catalog.model.schema import GroupType, ResourceType
from catalog.model.timestamps import parse_time
from catalog.model.xid import Xid

_OF_ALL = frozenset({"self", "shortself", "xid", "epoch", "createdat", "modifiedat", "$schema"})
_OF_META = frozenset({"readonly", "defaultversionurl"})
# The result of a server's validation is not content, and is absent in document view.
_OF_VERSION = frozenset(
    {"versionid", "isdefault"}
    | {"formatvalidated", "formatvalidatedreason"}
    | {"compatibilityvalidated", "compatibilityvalidatedreason"}
)
NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for a time that a server does not show."""


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
    return WalkedEntity(entity=_entity(authority, xid, told, {f"{kind.singular}id", *derived}))


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
        at = group.createdat
        return WalkedEntity(entity=entity_at(authority, xid, 0, {"xref": target}, at, at))
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


def entity_at(
    authority: str,
    xid: Xid,
    epoch: int,
    attributes: Mapping[str, Any],
    createdat: datetime,
    modifiedat: datetime,
) -> Entity:
    """An entity whose authority is its server: the xid is the origin."""
    return Entity(
        xid=str(xid),
        kind=xid.kind,
        authority=authority,
        origin=str(xid),
        epoch=epoch,
        attributes=attributes,
        createdat=createdat,
        modifiedat=modifiedat,
    )


def with_document(entity: Entity, document: bytes) -> Entity:
    """An entity with its document; an empty document counts as none."""
    return replace(entity, document=document or None)


def read_time(value: object, name: str) -> datetime:
    """The time that a server shows under a name.

    Raises:
        ValueError: the reason why the value is no time.
    """
    if not isinstance(value, str):
        raise ValueError(f'it has no "{name}"')
    try:
        return parse_time(value)
    except ValueError as error:
        raise ValueError(f'its "{name}" is no time: {error}') from error


def _entity(authority: str, xid: Xid, told: Mapping[str, Any], without: set[str]) -> Entity:
    left, origin, epoch = _OF_ALL | without, told.get("origin"), told.get("epoch")
    # A replica in a Concord catalog shows its own authority and origin.
    if "authority" in told and isinstance(origin, str) and origin.endswith(str(xid)):
        left |= PROVENANCE
    if type(epoch) is not int or epoch < 0:
        raise ValueError("it has no epoch")
    attributes = {k: v for k, v in told.items() if k not in left and v is not None}
    createdat = read_time(told.get("createdat"), "createdat")
    modifiedat = read_time(told.get("modifiedat"), "modifiedat")
    return entity_at(authority, xid, epoch, attributes, createdat, modifiedat)


def _check_identity(told: Mapping[str, Any], singular: str, id: str, xid: str) -> None:
    for name, expected in ((f"{singular}id", id), ("xid", xid)):
        if told.get(name, expected) != expected:
            raise ValueError(f'its "{name}" is {str(told[name])[:64]!r}, not {expected!r}')


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value
