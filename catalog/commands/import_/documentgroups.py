"""The groups of a document, reduced to the parts that a node accepts."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.client import Violation
from catalog.documents.losses import default_version
from catalog.documents.rewriter import OLDER, RC4_ATTRIBUTES, escaped
from catalog.lint.declaredentities import entity_of
from catalog.model.dotpath import Key, read_path
from catalog.model.xid import Xid

_LARGEST = 2**53 - 1
Members = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """An attribute that the node refused, and that moved to the extension `older`.

    `pointer` is the former JSON pointer of the attribute in the groups.
    """

    pointer: str
    reason: str


class DocumentGroups:
    """A copy of a document's groups.

    Args:
        groups: the groups by plural, in the form of the body of `POST /`.
        model: the model of the node, as `GET /model` returns it.
    """

    def __init__(self, groups: Mapping[str, Any], model: Mapping[str, Any]) -> None:
        self.members: Members = copy.deepcopy(dict(groups))
        types = model.get("groups") or {}
        self._kinds = {plural: [*(kind.get("resources") or {})] for plural, kind in types.items()}

    def counts(self) -> dict[str, int]:
        """The number of groups and resources of each type."""
        counted: Counter[str] = Counter()
        for plural, members in self.members.items():
            counted[plural] += len(members)
            for kind in self._kinds.get(plural, ()):
                found = sum(len(group.get(kind) or {}) for group in members.values())
                counted.update({kind: found} if found else {})
        return dict(counted)

    def are_replicas(self, subject: str) -> bool:
        """Whether the document shows a resource, or every resource of a group, as read-only."""
        xid = entity_of(subject)
        if xid is None:
            return False
        group = self._group(xid)
        kinds = [xid.resources] if xid.rid else self._kinds.get(xid.groups, [])
        found = [
            (resource.get("meta") or {}).get("readonly") is True
            for kind in kinds
            for id, resource in (group.get(kind) or {}).items()
            if xid.rid in ("", id)
        ]
        return bool(found) and all(found)

    def remove(self, violations: Iterable[Violation]) -> list[str]:
        """Remove the subjects of violations, and return the xids of the removed entities."""
        removed = [self._remove(violation.subject) for violation in violations]
        return [xid for xid in dict.fromkeys(removed) if xid]

    def set_aside(self, violations: Iterable[Violation]) -> list[SetAside]:
        """Move the attributes that violations name to extensions; return the moved attributes."""
        return [moved for each in violations if (moved := self._move(each)) is not None]

    def _group(self, xid: Xid) -> Members:
        group = (self.members.get(xid.groups) or {}).get(xid.gid)
        return group if isinstance(group, dict) else {}

    def _remove(self, subject: str) -> str:
        """Remove an entity, or the resource of an only version; return the xid, empty if none."""
        xid = entity_of(subject)
        if xid is None:
            return ""
        if not xid.rid:
            found = self.members.get(xid.groups) or {}
            return str(xid) if found.pop(xid.gid, None) is not None else ""
        resources = self._group(xid).get(xid.resources) or {}
        versions = (resources.get(xid.rid) or {}).get("versions") or {}
        if xid.vid and xid.vid in versions and len(versions) > 1:
            del versions[xid.vid]
            return str(xid)
        return str(xid.resource) if resources.pop(xid.rid, None) is not None else ""

    def _move(self, violation: Violation) -> SetAside | None:
        xid = entity_of(violation.subject)
        path = _path(str(violation.args.get("name", "")))
        if xid is None or not path or path[0] in (OLDER, RC4_ATTRIBUTES):
            return None
        steps, entity, owner = self._entity(xid)
        if violation.subject.endswith("/meta"):
            path = ["meta", *path]
        if not _move(entity, path, owner):
            return None
        pointer = "".join(f"/{escaped(step)}" for step in (*steps, *path))
        return SetAside(pointer=pointer, reason=violation.title)

    def _entity(self, xid: Xid) -> tuple[list[str], Members, Members]:
        """The steps to an entity, the entity, and the object that gets the extension `older`."""
        steps, entity = [xid.groups, xid.gid], self._group(xid)
        if not xid.rid:
            return steps, entity, entity
        steps += [xid.resources, xid.rid]
        entity = (entity.get(xid.resources) or {}).get(xid.rid) or {}
        versions = entity.get("versions") or {}
        if xid.vid in versions:
            version = versions[xid.vid]
            return [*steps, "versions", xid.vid], version, version
        if not versions:
            return steps, entity, entity
        stated = (entity.get("meta") or {}).get("defaultversionid")
        return steps, entity, versions[default_version(versions, stated)]


def _path(name: str) -> list[str]:
    """The names on the path to an attribute; for an item of an array, the path to the array."""
    try:
        steps, end = read_path(name)
    except ValueError:
        return []
    names: list[str] = []
    for step in steps:
        if not isinstance(step, Key):
            return names
        names.append(step.name)
    return names if end == len(name) else []


def _move(entity: Members, path: list[str], owner: Members) -> bool:
    """Move an attribute to the extension of `owner`; return whether the attribute moved."""
    *outer, name = path
    holder: Any = entity
    for step in outer:
        holder = holder.get(step) if isinstance(holder, dict) else None
    if not isinstance(holder, dict) or name not in holder:
        return False
    extension: Any = owner.setdefault(OLDER, {})
    for step in outer:
        extension = extension.setdefault(step, {}) if isinstance(extension, dict) else None
    if not isinstance(extension, dict) or name in extension:
        return False
    extension[name] = _portable(holder.pop(name))
    return True


def _portable(value: Any) -> Any:
    """Return a value with integers beyond the exact range of a double as text."""
    if isinstance(value, dict):
        return {name: _portable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_portable(item) for item in value]
    is_large = isinstance(value, int) and abs(value) > _LARGEST
    return str(value) if is_large else value
