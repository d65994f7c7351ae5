"""What edition 0.4 calls things: its collections, and the paths of what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.model.xid import Xid

REGISTRY04_ROOT = "/registry/0.4"
EDITION = "0.4-wip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A type of groups or of resources: its names in edition 0.4, and its native plural."""

    plural: str
    singular: str
    native: str


_DEFINITIONS = Collection(plural="definitions", singular="definition", native="messages")
_SCHEMAS = Collection(plural="schemas", singular="schema", native="schemas")

# Each type of groups with its one type of resources.
GROUP_TYPES: Mapping[str, tuple[Collection, Collection]] = {
    group.plural: (group, resource)
    for group, resource in (
        (Collection(plural="endpoints", singular="endpoint", native="endpoints"), _DEFINITIONS),
        (
            Collection(
                plural="definitionGroups", singular="definitionGroup", native="messagegroups"
            ),
            _DEFINITIONS,
        ),
        (
            Collection(plural="schemaGroups", singular="schemaGroup", native="schemagroups"),
            _SCHEMAS,
        ),
    )
}
_BY_NATIVE = {group.native: (group, resource) for group, resource in GROUP_TYPES.values()}


def collections_of(native: str) -> tuple[Collection, Collection]:
    """The names for a native type of groups, one of those in `GROUPS`."""
    return _BY_NATIVE[native]


def path_of(xid: Xid) -> str:
    """The path of an entity below the dialect's root, in the names of edition 0.4."""
    group, resource = collections_of(xid.groups)
    path = f"/{group.plural}/{xid.gid}"
    if xid.rid:
        path += f"/{resource.plural}/{xid.rid}"
    return f"{path}/versions/{xid.vid}" if xid.vid else path


def has_names(xid: Xid) -> bool:
    """Whether edition 0.4 knows the types of what is at a path."""
    names = _BY_NATIVE.get(xid.groups)
    return names is not None and xid.resources in ("", names[1].native)
