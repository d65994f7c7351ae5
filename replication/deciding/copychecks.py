"""Checks copies from remote catalogs before a node compares the copies with stored entities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson

from catalog.model.attributes import MAX_ENTITY_BYTES, PROVENANCE, find_type_fault
from catalog.model.entity import Entity, Tombstone
from catalog.model.errors import MalformedXref
from catalog.model.schema import STRICT_NAME, Attribute, GroupType, Model
from catalog.model.xid import Xid, is_valid_id
from catalog.writing.crossreferences import check_xref

Copy = Entity | Tombstone

# The database stores epochs as bigint, so the limit leaves room for the epoch to rise.
_MOST_EPOCH = 2**62
_MOST_AUTHORITY = 1024
_MOST_SHOWN = 500
_SPOILT = "its digest does not match its content"
_ID, _FLAG, _TEXT = "an id", "a boolean", "a string"
# Attributes that a server computes and stores, with the types.
_STORED_OF_VERSION = {
    "ancestorid": _ID,
    "formatvalidated": _FLAG,
    "formatvalidatedreason": _TEXT,
    "compatibilityvalidated": _FLAG,
    "compatibilityvalidatedreason": _TEXT,
}
_STORED_OF_RESOURCE = {"defaultversionid": _ID, "defaultversionsticky": _FLAG}
_ALWAYS_THERE = frozenset({"ancestorid", *_STORED_OF_RESOURCE})
# The limit of an authority applies to attributes from clients, so a copy may exceed the limit by
# the size of computed attributes.
_MOST_COMPUTED_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedCopy:
    """A copy that cannot be applied, with the readable parts of the identity."""

    authority: str
    origin: str
    xid: str
    epoch: int
    reason: str

    @classmethod
    def of(
        cls, authority: object, origin: object, reason: str, *, xid: object = None, epoch: Any = 0
    ) -> Self:
        """A malformed copy from a remote catalog, whose values may be of any type and size.

        Conflicts are stored, so texts are shortened, and NUL, which PostgreSQL cannot store, is
        removed. The xid is the origin unless given.
        """
        known = origin if xid is None else xid
        return cls(
            authority=_short(authority),
            origin=_short(origin),
            xid=_short(known),
            epoch=min(max(epoch, 0), _MOST_EPOCH) if type(epoch) is int else 0,
            reason=_short(reason),
        )


def _short(value: object) -> str:
    return value[:_MOST_SHOWN].replace("\0", "") if isinstance(value, str) else ""


Incoming = Entity | Tombstone | MalformedCopy


class CheckedCopies(list[Incoming]):
    """Received copies, each checked on arrival; `checked` are the results."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.checked: list[Incoming] = []

    def take(self, copy: Incoming) -> None:
        self.append(copy)
        self.checked.append(_check(copy, self.model))


def check_copies(copies: Iterable[Incoming], model: Model) -> list[Incoming]:
    """Check copies; return a `MalformedCopy` in place of each invalid copy.

    Copies that were checked against the same model on arrival are not checked again.
    """
    if isinstance(copies, CheckedCopies) and copies.model is model:
        return copies.checked
    return [_check(copy, model) for copy in copies]


def _check(copy: Incoming, model: Model) -> Incoming:
    if isinstance(copy, MalformedCopy) or not (fault := why_invalid(copy, model)):
        return copy
    return MalformedCopy.of(copy.authority, copy.origin, fault, xid=copy.xid, epoch=copy.epoch)


def why_invalid(copy: Copy, model: Model) -> str:
    """The reason why a copy is invalid, regardless of stored entities; empty for a valid copy.

    Copies come from remote catalogs, so no part of a copy is trusted.
    """
    try:
        path = Xid.parse(copy.xid)
    except ValueError:
        return "its xid is not the path of an entity"
    if copy.xid != copy.origin:
        return "its xid is not the one that it has at its authority"
    if copy.kind != path.kind or path.kind == "registry":
        return f"it is not a {copy.kind}"
    if not 0 <= copy.epoch <= _MOST_EPOCH:
        return "its epoch is out of range"
    if not 0 < len(copy.authority) <= _MOST_AUTHORITY or "\0" in copy.authority:
        return "its authority is not a URI of reasonable length"
    if not isinstance(copy, Entity):
        return ""
    # The digest is checked first, since the content for the remaining checks may be damaged.
    return _fault_of(copy, path, model) if copy.is_intact() else _SPOILT


def _fault_of(entity: Entity, path: Xid, model: Model) -> str:
    """The reason why an entity could not be shown, or would look like a different entity."""
    group = model.group_type(path.groups)
    if group is None or (path.resources and path.resources not in group.resources):
        return f"the model here has no type for {path.groups}/{path.resources}".rstrip("/")
    if len(orjson.dumps(entity.attributes)) > MAX_ENTITY_BYTES + _MOST_COMPUTED_BYTES:
        return f"it has more than {MAX_ENTITY_BYTES} bytes of metadata"
    if path.kind == "resource" and "xref" in entity.attributes:
        return _fault_of_reference(entity, path, model)
    settable, managed, stored = _definitions(group, path)
    for name in entity.attributes:
        if name in stored or (name in settable and name != "*"):
            continue
        if name in managed or name in PROVENANCE or not STRICT_NAME.fullmatch(name):
            return f'it has an attribute of its own named "{name[:64]}"'
    for name, type_ in stored.items():
        value = entity.attributes.get(name)
        if name in _ALWAYS_THERE if value is None else not _has_type(type_, value):
            return f'its "{name}" is not {type_}'
    fault = find_type_fault(entity.attributes, settable, stored)
    return fault and f"it has an attribute of another type than here, {fault}"


def _fault_of_reference(entity: Entity, path: Xid, model: Model) -> str:
    try:
        check_xref(model, path, entity.attributes["xref"])
    except MalformedXref as error:
        return str(error)
    return "" if len(entity.attributes) == 1 else "it has attributes beside its cross reference"


def _has_type(type_: str, value: object) -> bool:
    if type_ == _FLAG:
        return type(value) is bool
    return isinstance(value, str) and (type_ != _ID or is_valid_id(value))


def _definitions(
    group: GroupType, path: Xid
) -> tuple[Mapping[str, Attribute], frozenset[str], Mapping[str, str]]:
    """The attributes set by clients, the computed attributes, and the types of stored ones."""
    if path.kind == "group":
        return group.own_attributes, group.managed, {}
    kind = group.resources[path.resources]
    if path.kind == "version":
        return kind.version_attributes, kind.managed, _STORED_OF_VERSION
    return kind.meta_attributes, kind.meta_managed, _STORED_OF_RESOURCE
