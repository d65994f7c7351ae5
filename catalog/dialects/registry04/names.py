"""What edition 0.4 calls things: its collections, and references to what is in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from catalog.model.xid import Xid

PREFIX = "/registry/0.4"
SPECVERSION = "0.4-wip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A type of groups or of resources: its names in edition 0.4, and its native plural."""

    plural: str
    singular: str
    native: str


_DEFINITIONS = Collection(plural="definitions", singular="definition", native="messages")
_SCHEMAS = Collection(plural="schemas", singular="schema", native="schemas")

# Each type of groups with its one type of resources.
GROUPS: Mapping[str, tuple[Collection, Collection]] = {
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
_BY_NATIVE = {group.native: (group, resource) for group, resource in GROUPS.values()}
# The seed itself leaves out the plural's last letter now and then.
_POINTER = re.compile(
    r"#/(?P<groups>endpoints?|definitionGroups?|schemaGroups?)/(?P<gid>[^/]+)"
    r"(?:/(?P<resources>definitions?|schemas?)/(?P<rid>[^/]+)(?:/versions/(?P<vid>[^/]+))?)?"
)


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


def native_reference(text: str) -> str:
    """A pointer to an entity of the same registry as an xid; any other reference as it is."""
    found = _POINTER.fullmatch(text)
    if found is None:
        return text
    group, resource = GROUPS[found["groups"].removesuffix("s") + "s"]
    parts = ["", group.native, _unescaped(found["gid"])]
    if found["rid"]:
        if found["resources"].removesuffix("s") != resource.singular:
            return text
        parts += [resource.native, _unescaped(found["rid"])]
    if found["vid"]:
        parts += ["versions", _unescaped(found["vid"])]
    path = "/".join(parts)
    return path if _is_entity(path) else text


def own_reference(text: str) -> str:
    """An xid as a pointer into the registry; any other reference as it is."""
    if not _is_entity(text):
        return text
    xid = Xid.parse(text)
    return "#" + path_of(xid).replace("~", "~0") if xid.groups in _BY_NATIVE else text


def _unescaped(id: str) -> str:
    return id.replace("~0", "~")


def _is_entity(path: str) -> bool:
    try:
        return Xid.parse(path).kind != "registry"
    except ValueError:
        return False
