"""The desired state that several documents describe, and their contradictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.model.digest import canonical

Json = dict[str, Any]

# What a catalog shows of a place and its children; every node has its own.
_OF_ITS_PLACE = frozenset({"self", "shortself"})
_MADE_UP = ("url", "count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Two documents say different things of an attribute of one entity."""

    xid: str
    attribute: str
    files: tuple[str, str]


@dataclass(slots=True)
class DesiredState:
    """The groups of all documents, by type and id.

    Args:
        model: the node's, as `GET /model` shows it: says what is a collection.
    """

    model: Mapping[str, Any]
    groups: dict[str, dict[str, Json]] = field(default_factory=dict)
    contradictions: list[Contradiction] = field(default_factory=list)
    # Which file said what: by xid and attribute.
    _said: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, file: str, groups: Mapping[str, Mapping[str, Any]]) -> None:
        """Take in what a document has; what it says otherwise than others is noted."""
        for plural, members in groups.items():
            known = self.groups.setdefault(plural, {})
            for gid, body in members.items():
                self._add_group(file, plural, gid, known, body)

    def _add_group(
        self, file: str, plural: str, gid: str, known: dict[str, Json], body: Any
    ) -> None:
        collections = self.model["groups"].get(plural, {}).get("resources", {})
        xid = f"/{plural}/{gid}"
        if not isinstance(body, dict):
            self._set(file, xid, known, gid, body)
            return
        group = known.setdefault(gid, {})
        for name, value in body.items():
            if name in collections and isinstance(value, dict):
                members = group.setdefault(name, {})
                for rid, resource in value.items():
                    self._add_resource(file, f"{xid}/{name}/{rid}", members, rid, resource)
            elif not _is_made_up(name, collections):
                self._set(file, xid, group, name, value)

    def _add_resource(self, file: str, xid: str, members: Json, rid: str, body: Any) -> None:
        if not isinstance(body, dict):
            self._set(file, xid, members, rid, body)
            return
        resource = members.setdefault(rid, {})
        for name, value in body.items():
            if name == "meta" and isinstance(value, dict):
                self._add_own(file, f"{xid}/meta", resource.setdefault(name, {}), value)
            elif name == "versions" and isinstance(value, dict):
                versions = resource.setdefault(name, {})
                for vid, version in value.items():
                    at = f"{xid}/versions/{vid}"
                    if isinstance(version, dict):
                        self._add_own(file, at, versions.setdefault(vid, {}), version)
                    else:
                        self._set(file, at, versions, vid, version)
            else:
                self._add_own(file, xid, resource, {name: value})

    def _add_own(self, file: str, xid: str, known: Json, body: Mapping[str, Any]) -> None:
        for name, value in body.items():
            if name not in _OF_ITS_PLACE:
                self._set(file, xid, known, name, value)

    def _set(self, file: str, xid: str, known: Json, name: str, value: Any) -> None:
        earlier = self._said.setdefault((xid, name), file)
        if name in known and not _is_same(known[name], value):
            self.contradictions.append(
                Contradiction(xid=xid, attribute=name, files=(earlier, file))
            )
        known[name] = value

    def xids(self) -> Iterator[str]:
        """Every entity that the documents have; versions are those that they list."""
        for plural, members in self.groups.items():
            collections = self.model["groups"].get(plural, {}).get("resources", {})
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


def _is_made_up(name: str, collections: Iterable[str]) -> bool:
    return name in _OF_ITS_PLACE or any(
        name == f"{plural}{suffix}" for plural in collections for suffix in _MADE_UP
    )


def _is_same(one: Any, other: Any) -> bool:
    try:
        return canonical(one) == canonical(other)
    except ValueError:
        return bool(one == other)
