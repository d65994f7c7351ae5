"""The entities that a document declares, and the JSON pointers of the entities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.messages.message import pointer
from catalog.model.schema import Model
from catalog.model.xid import Xid, is_valid_id


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredEntities:
    """The entities of one document.

    Args:
        file: the name of the document.
        groups: the collections of groups, by plural.
        pointers: the JSON pointers of the entities, by xid.
        bodies: the entities, by xid.
    """

    file: str
    groups: Mapping[str, Any]
    pointers: Mapping[str, str] = field(default_factory=dict)
    bodies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, file: str, groups: Mapping[str, Any], model: Model) -> DeclaredEntities:
        """Read the entities of a document by a model; entities without a valid id are ignored."""
        found = {str(xid): (at, body) for xid, at, body in _entities(groups, model)}
        return cls(
            file=file,
            groups=groups,
            pointers={xid: at for xid, (at, _) in found.items()},
            bodies={xid: body for xid, (_, body) in found.items()},
        )

    def pointer_to(self, subject: str) -> str:
        """The pointer of an entity or else of the nearest declared entity above; or empty."""
        xid, suffix = subject.partition("$")[0], ""
        if xid.endswith("/meta"):
            xid, suffix = xid.removesuffix("/meta"), "/meta"
        while xid and xid not in self.pointers:
            xid = xid.rpartition("/")[0]
        return self.pointers.get(xid, "") + suffix

    def is_readonly(self, xid: Xid) -> bool:
        """Whether a resource, or every resource of a group, is marked as read-only."""
        owner = str(xid.resource if xid.rid else xid)
        metas = [
            body.get("meta")
            for each, body in self.bodies.items()
            if (each == owner or each.startswith(f"{owner}/"))
            and Xid.parse(each).kind == "resource"
        ]
        return bool(metas) and all(
            isinstance(meta, dict) and meta.get("readonly") is True for meta in metas
        )

    def own_of(self, xid: str, model: Model) -> dict[str, Any]:
        """The attributes of a group without the resources, or the attributes of a resource."""
        kind = model.group_type(Xid.parse(xid).groups)
        inside = {*kind.resources} if kind is not None else set()
        return {k: v for k, v in self.bodies[xid].items() if k not in inside}


def _entities(
    groups: Mapping[str, Any], model: Model
) -> Iterator[tuple[Xid, str, Mapping[str, Any]]]:
    for plural, kind in model.groups.items():
        for gid, group in _members(groups, plural):
            if not is_valid_id(gid):
                continue
            xid = Xid(plural, gid)
            yield xid, pointer(plural, gid), group
            for resources in kind.resources:
                for rid, resource in _members(group, resources):
                    yield from _resource(xid.child(resources, rid), resource)


def _resource(
    xid: Xid, resource: Mapping[str, Any]
) -> Iterator[tuple[Xid, str, Mapping[str, Any]]]:
    if not is_valid_id(xid.rid):
        return
    at = pointer(xid.groups, xid.gid, xid.resources, xid.rid)
    yield xid, at, resource
    for vid, version in _members(resource, "versions"):
        if is_valid_id(vid):
            yield xid.version(vid), at + pointer("versions", vid), version


def _members(owner: Mapping[str, Any], plural: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    members = owner.get(plural)
    for id, member in members.items() if isinstance(members, dict) else ():
        if isinstance(member, dict):
            yield id, member


def entity_of(subject: str) -> Xid | None:
    """The entity that an error is about; `None` for the registry or an invalid xid."""
    try:
        xid = Xid.parse(subject.partition("$")[0].removesuffix("/meta"))
    except ValueError:
        return None
    return xid if xid.gid else None
