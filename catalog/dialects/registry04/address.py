"""The entity or collection that a request's path addresses, in native terms."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from catalog.dialects.registry04.names import GROUP_TYPES, Collection
from catalog.model.errors import NotFound
from catalog.model.schema import GroupType, Model, ResourceType
from catalog.model.xid import Xid, is_valid_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Types:
    """A type of groups and the type of the groups' resources, by name and in the model."""

    group: Collection
    resource: Collection
    group_type: GroupType
    resource_type: ResourceType

    @property
    def has_document(self) -> bool:
        """Whether a resource is a document with metadata, rather than metadata alone."""
        return self.resource_type.hasdocument

    @property
    def uri(self) -> str:
        """The attribute with the URI of a document that is stored elsewhere."""
        return f"{self.resource.singular}URI"


def types_in(model: Model) -> list[Types]:
    """The types of edition 0.4 that the model has."""
    found = (_types(model, plural) for plural in GROUP_TYPES)
    return [types for types in found if types is not None]


def address_of(request: web.Request, model: Model) -> tuple[Types, Xid]:
    """The entity that the path of a request addresses, or the owner of the collection.

    Raises:
        NotFound: edition 0.4 or the model lacks the type, or an id is not valid.
    """
    found = request.match_info
    types = _types(model, found["groups"])
    if types is None or found.get("resources", types.resource.plural) != types.resource.plural:
        raise NotFound(request.path, detail="This registry has no such type.")
    gid, rid, vid = (found.get(name, "") for name in ("gid", "rid", "vid"))
    if not all(is_valid_id(id) for id in (gid, rid, vid) if id):
        raise NotFound(request.path)
    groups, resources = types.group.native if gid else "", types.resource.native if rid else ""
    return types, Xid(groups, gid, resources, rid, vid)


def _types(model: Model, plural: str) -> Types | None:
    if plural not in GROUP_TYPES:
        return None
    group, resource = GROUP_TYPES[plural]
    group_type = model.group_type(group.native)
    resource_type = model.resource_type(group.native, resource.native)
    if group_type is None or resource_type is None:
        return None
    return Types(group=group, resource=resource, group_type=group_type, resource_type=resource_type)
