"""The desired state that several documents describe, and contradictions between documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.client import JsonObject
from catalog.model.digest import canonical

# Attributes that a node computes from the place and the children of an entity.
_COMPUTED = frozenset({"self", "shortself"})
_COMPUTED_SUFFIXES = ("url", "count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two documents give an attribute of one entity different values."""

    xid: str
    attribute: str
    files: tuple[str, str]


@dataclass(slots=True)
class DesiredState:
    """The groups of the documents, by type and id.

    Args:
        model: the model of the node from `GET /model`, which names the collections.
    """

    model: Mapping[str, Any]
    groups: dict[str, dict[str, JsonObject]] = field(default_factory=dict)
    contradictions: list[Contradiction] = field(default_factory=list)
    # The first file with a value, by xid and attribute.
    _files: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, file: str, groups: Mapping[str, Mapping[str, Any]]) -> None:
        """Merge a document into the state, and record contradictions to earlier documents."""
        for plural, members in groups.items():
            for gid, body in members.items():
                self._add_group(file, plural, gid, body)

    def _add_group(self, file: str, plural: str, gid: str, body: Any) -> None:
        collections, xid = self._collections(plural), f"/{plural}/{gid}"
        group = self._member(file, xid, self.groups.setdefault(plural, {}), gid, body)
        for name, value in body.items() if group is not None else ():
            if name in collections and isinstance(value, dict):
                resources = group.setdefault(name, {})
                for rid, resource in value.items():
                    self._add_resource(file, f"{xid}/{name}/{rid}", resources, rid, resource)
            elif not _is_computed(name, collections):
                self._set(file, xid, group, name, value)

    def _add_resource(
        self, file: str, xid: str, resources: JsonObject, rid: str, body: Any
    ) -> None:
        resource = self._member(file, xid, resources, rid, body)
        for name, value in body.items() if resource is not None else ():
            if name == "meta" and isinstance(value, dict):
                self._add_own(file, f"{xid}/meta", resource.setdefault(name, {}), value)
            elif name == "versions" and isinstance(value, dict):
                versions = resource.setdefault(name, {})
                for vid, version in value.items():
                    at = f"{xid}/versions/{vid}"
                    if (target := self._member(file, at, versions, vid, version)) is not None:
                        self._add_own(file, at, target, version)
            else:
                self._add_own(file, xid, resource, {name: value})

    def _member(self, file: str, xid: str, owner: JsonObject, id: str, body: Any) -> Any:
        """The object to merge an entity into; `None` if the entity in the document is no object."""
        if isinstance(body, dict):
            return owner.setdefault(id, {})
        self._set(file, xid, owner, id, body)
        return None

    def _add_own(self, file: str, xid: str, target: JsonObject, body: Mapping[str, Any]) -> None:
        for name, value in body.items():
            if name not in _COMPUTED:
                self._set(file, xid, target, name, value)

    def _set(self, file: str, xid: str, target: JsonObject, name: str, value: Any) -> None:
        earlier = self._files.setdefault((xid, name), file)
        if name in target and not _is_same(target[name], value):
            self.contradictions.append(
                Contradiction(xid=xid, attribute=name, files=(earlier, file))
            )
        target[name] = value

    def _collections(self, plural: str) -> Mapping[str, Any]:
        resources: Mapping[str, Any] = self.model["groups"].get(plural, {}).get("resources", {})
        return resources

    def xids(self) -> Iterator[str]:
        """The xids of the entities of the documents, including listed versions."""
        for plural, members in self.groups.items():
            collections = self._collections(plural)
            for gid, group in members.items():
                yield f"/{plural}/{gid}"
                for name in (name for name in group if name in collections):
                    for rid, resource in group[name].items():
                        yield from _xids_in(f"/{plural}/{gid}/{name}/{rid}", resource)


def _xids_in(xid: str, resource: Mapping[str, Any]) -> Iterator[str]:
    yield xid
    versions = {*(resource.get("versions") or ()), resource.get("versionid")} - {None}
    if resource.get("versions"):
        yield from sorted(f"{xid}/versions/{vid}" for vid in versions)


def _is_computed(name: str, collections: Iterable[str]) -> bool:
    return name in _COMPUTED or any(
        name == f"{plural}{suffix}" for plural in collections for suffix in _COMPUTED_SUFFIXES
    )


def _is_same(one: Any, other: Any) -> bool:
    try:
        return canonical(one) == canonical(other)
    except ValueError:
        return bool(one == other)
