"""The names and paths of edition 0.4, and what a path or a reference of a client addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from aiohttp import web

from catalog.model.errors import NotFound
from catalog.model.schema import GroupType, Model, ResourceType
from catalog.model.xid import Xid, is_valid_id

REGISTRY04_ROOT = "/registry/0.4"
EDITION = "0.4-wip"
CLOUDEVENTS_ENVELOPE = "CloudEvents/1.0"

Json: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["endpoint", "definitionGroup", "schemaGroup", "definition", "schema"]
# The native names of these protocols have no version.
_UNVERSIONED_PROTOCOLS = frozenset({"HTTP", "KAFKA", "NATS"})
_PROTOCOLS = {"AMQP": "AMQP/1.0", "MQTT": "MQTT/5.0"}
_PROTOCOLS |= {name: name for name in ("AMQP/1.0", "MQTT/5.0", "MQTT/3.1.1")}
_ENVELOPES = {"CLOUDEVENTS": CLOUDEVENTS_ENVELOPE, "CLOUDEVENTS/1.0": CLOUDEVENTS_ENVELOPE}
# Some examples of the specification omit the last letter of a plural.
_PATH = re.compile(
    r"/(?P<groups>endpoints?|definitionGroups?|schemaGroups?)/(?P<gid>[^/]+)"
    r"(?:/(?P<resources>definitions?|schemas?)/(?P<rid>[^/]+)(?:/versions/(?P<vid>[^/]+))?)?"
)


@dataclass(frozen=True, slots=True)
class Collection:
    """The plural and the singular name of a type in Registry 0.4, and the native plural name.

    The singular name is the kind by which Registry 0.4 calls an entity of the type.
    """

    plural: str
    singular: Kind
    native: str


_ENDPOINTS = Collection("endpoints", "endpoint", "endpoints")
_DEFINITION_GROUPS = Collection("definitionGroups", "definitionGroup", "messagegroups")
_SCHEMA_GROUPS = Collection("schemaGroups", "schemaGroup", "schemagroups")
_DEFINITIONS = Collection("definitions", "definition", "messages")
_SCHEMAS = Collection("schemas", "schema", "schemas")

# The types of groups, each with the type of the groups' resources.
GROUP_TYPES: Mapping[str, tuple[Collection, Collection]] = {
    "endpoints": (_ENDPOINTS, _DEFINITIONS),
    "definitionGroups": (_DEFINITION_GROUPS, _DEFINITIONS),
    "schemaGroups": (_SCHEMA_GROUPS, _SCHEMAS),
}
_BY_NATIVE = {group.native: (group, resource) for group, resource in GROUP_TYPES.values()}


def path_of(xid: Xid) -> str:
    """The path of an entity below the dialect's root; edition 0.4 must have the type."""
    group, resource = _BY_NATIVE[xid.groups]
    path = f"/{group.plural}/{xid.gid}"
    if xid.rid:
        path += f"/{resource.plural}/{xid.rid}"
    return f"{path}/versions/{xid.vid}" if xid.vid else path


def has_names(xid: Xid) -> bool:
    """Whether edition 0.4 has the types of an entity."""
    names = _BY_NATIVE.get(xid.groups)
    return names is not None and xid.resources in ("", names[1].native)


def native_protocol(name: str) -> str:
    """The standard's name for a protocol; the name of an unknown protocol does not change."""
    upper = name.upper()
    family = upper.partition("/")[0]
    return _PROTOCOLS.get(upper) or (family if family in _UNVERSIONED_PROTOCOLS else name)


def native_envelope(format: str) -> str | None:
    """The standard's name for an envelope format; `None` for the format of a protocol."""
    if format.upper().partition("/")[0] != "CLOUDEVENTS":
        return None
    return _ENVELOPES.get(format.upper(), format)


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


@dataclass(frozen=True, slots=True)
class References:
    """Translates references to the registry; other references do not change.

    `bases` are the URLs of the node, without a trailing slash.
    """

    bases: tuple[str, ...] = ()

    def native(self, text: str, held: Iterable[Any] = ()) -> str:
        """The native form of a reference.

        Args:
            held: the present native references; a reference with the same meaning stays.
        """
        for before in held:
            if isinstance(before, str) and self.own(before) == text:
                return before
        # A JSON pointer writes ~ as ~0 (RFC 6901, section 3); ids have no slash to escape.
        if text.startswith("#/"):
            return _native_path(text[1:].replace("~0", "~")) or text
        for base in self.bases:
            if text.startswith(f"{base}{REGISTRY04_ROOT}/"):
                path = _native_path(text.removeprefix(base + REGISTRY04_ROOT))
                return base + path if path else text
        return text

    def own(self, text: str) -> str:
        """A reference in the form of edition 0.4."""
        pointed = text[1:].replace("~0", "~") if text.startswith("#/") else text
        if path := _own_path(pointed):
            return "#" + path.replace("~", "~0")
        for base in self.bases:
            if text.startswith(f"{base}/") and (path := _own_path(text.removeprefix(base))):
                return base + REGISTRY04_ROOT + path
        return text


def _native_path(path: str) -> str:
    """The native path of an entity; empty if the path leads to no entity."""
    found = _PATH.fullmatch(path)
    if found is None:
        return ""
    group, resource = GROUP_TYPES[found["groups"].removesuffix("s") + "s"]
    parts = ["", group.native, found["gid"]]
    if found["rid"]:
        if found["resources"].removesuffix("s") != resource.singular:
            return ""
        parts += [resource.native, found["rid"]]
    if found["vid"]:
        parts += ["versions", found["vid"]]
    native = "/".join(parts)
    return native if _entity(native) else ""


def _own_path(path: str) -> str:
    """The path of an entity by the names of edition 0.4; empty without such names."""
    xid = _entity(path)
    return path_of(xid) if xid is not None and has_names(xid) else ""


def _entity(path: str) -> Xid | None:
    try:
        xid = Xid.parse(path)
    except ValueError:
        return None
    return xid if xid.gid else None
