"""What the model says of the type of an entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog.model.errors import NotFound
from catalog.model.xid import Xid


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityType:
    """What the model says of an entity's type."""

    singular: str
    children: Mapping[str, Any]
    attributes: Mapping[str, Any]
    has_document: bool = False

    def address_of(self, xid: Xid | str) -> str:
        """The path of the attributes of an entity, where the path itself may be a document."""
        return f"{xid}$details" if self.has_document else str(xid)


def type_of(model: Mapping[str, Any], xid: Xid) -> EntityType:
    """The type of an entity.

    Raises:
        NotFound: the model has no such type.
    """
    group = model.get("groups", {}).get(xid.groups)
    if group is None:
        raise NotFound(str(xid))
    if not xid.rid:
        children = group.get("resources", {})
        return EntityType(
            singular=group["singular"], children=children, attributes=group.get("attributes", {})
        )
    resource = group.get("resources", {}).get(xid.resources)
    if resource is None:
        raise NotFound(str(xid))
    return EntityType(
        singular=resource["singular"],
        children={},
        attributes={**resource.get("resourceattributes", {}), **resource.get("attributes", {})},
        has_document=resource.get("hasdocument", True),
    )
