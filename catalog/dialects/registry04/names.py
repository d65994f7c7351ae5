"""The names of edition 0.4: of collections, paths, message formats and protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from catalog.model.xid import Xid

REGISTRY04_ROOT = "/registry/0.4"
EDITION = "0.4-wip"
CLOUDEVENTS_ENVELOPE = "CloudEvents/1.0"

Json: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["endpoint", "definitionGroup", "schemaGroup", "definition", "schema"]


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

# The native names of these protocols have no version.
_UNVERSIONED_PROTOCOLS = frozenset({"HTTP", "KAFKA", "NATS"})
_PROTOCOLS = {"AMQP": "AMQP/1.0", "MQTT": "MQTT/5.0"}
_PROTOCOLS |= {name: name for name in ("AMQP/1.0", "MQTT/5.0", "MQTT/3.1.1")}
_ENVELOPES = {"CLOUDEVENTS": CLOUDEVENTS_ENVELOPE, "CLOUDEVENTS/1.0": CLOUDEVENTS_ENVELOPE}


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
