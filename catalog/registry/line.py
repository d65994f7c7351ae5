"""The versions of a resource in line: who joins it where, and who leaves it first.

Source: core/model.md, "versionmode" and "maxversions". A request may bring a great many
versions at once, so none of this looks at all of them for each of them.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence

from catalog.model.errors import BadRequest
from catalog.model.schema import ResourceType
from catalog.model.versions import Lineage, assign_ancestors
from catalog.registry.draft import Draft
from catalog.registry.lineage import MANUAL, lineage_of

_MOST_NAMED = 1000
_Key = tuple[object, str, str]


def adopt(versions: Sequence[Draft], orphans: Sequence[Draft]) -> None:
    """Give new versions that named no ancestor one, in the order of their ids: the newest.

    This is for the mode `manual`. Versions that came along and named one of them as their
    ancestor cannot be its own.

    Raises:
        BadRequest: there are too many of those.
    """
    waiting = sorted(orphans, key=lambda draft: draft.xid.vid.lower())
    new = {draft.xid.vid for draft in waiting}
    line = _Line([lineage_of(draft) for draft in versions if draft.xid.vid not in new])
    if waiting and len(line.named(new)) > _MOST_NAMED:
        raise BadRequest(
            str(waiting[0].xid.resource),
            error_detail=f"more than {_MOST_NAMED} versions are ancestors, and name none",
        )
    for draft in waiting:
        draft.attributes["ancestorid"] = line.newest_for(draft.xid.vid) or draft.xid.vid
        line.add(lineage_of(draft))


class _Line:
    """Versions by who follows whom; the newest of those that nobody follows is at hand."""

    def __init__(self, versions: Iterable[Lineage]) -> None:
        known = list(versions)
        self._children: dict[str, list[str]] = {}
        for version in known:
            if version.ancestor != version.vid:
                self._children.setdefault(version.ancestor, []).append(version.vid)
        self._leaves = sorted(_key(each) for each in known if each.vid not in self._children)

    def named(self, vids: set[str]) -> set[str]:
        return vids & self._children.keys()

    def newest_for(self, vid: str) -> str | None:
        """The last created leaf that does not descend from a version that is yet to come."""
        below = {*self._below(vid)}
        found = (leaf for _, _, leaf in reversed(self._leaves) if leaf not in below)
        return next(found, None)

    def add(self, version: Lineage) -> None:
        if version.ancestor != version.vid:
            self._children.setdefault(version.ancestor, []).append(version.vid)
            self._leaves = self._without(version.ancestor)
        if version.vid not in self._children:
            insort(self._leaves, _key(version))

    def _without(self, vid: str) -> list[_Key]:
        if self._leaves and self._leaves[-1][2] == vid:
            self._leaves.pop()
            return self._leaves
        return [leaf for leaf in self._leaves if leaf[2] != vid]

    def _below(self, vid: str) -> Iterator[str]:
        waiting, seen = [vid], {vid}
        while waiting:
            for child in self._children.get(waiting.pop(), ()):
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
                    yield child


def _key(version: Lineage) -> _Key:
    return version.createdat, version.vid.lower(), version.vid


def beyond_limit(versions: Sequence[Draft], default: str, kind: ResourceType) -> list[Draft]:
    """The versions to delete where there are more than `maxversions`: the oldest ones.

    The default one is spared, unless only one can stay: then what was there before goes
    before what is new (core/model.md, "maxversions").
    """
    excess = len(versions) - kind.maxversions if kind.maxversions else 0
    if excess <= 0:
        return []
    if kind.maxversions == 1:
        held = [draft for draft in versions if not draft.is_new]
        new = [draft for draft in versions if draft.is_new]
        return [*_oldest_first(held, kind), *_oldest_first(new, kind)][:excess]
    others = [draft for draft in versions if draft.xid.vid != default]
    return _oldest_first(others, kind, spared=default)[:excess]


def _oldest_first(
    versions: Sequence[Draft], kind: ResourceType, *, spared: str | None = None
) -> list[Draft]:
    by_id = {draft.xid.vid: draft for draft in versions}
    lineages = [lineage_of(draft) for draft in versions]
    if kind.versionmode == MANUAL:
        return [by_id[vid] for vid in _as_roots_go(lineages, spared)]
    return [by_id[vid] for vid in assign_ancestors(lineages, kind.versionmode)]


def _as_roots_go(versions: Sequence[Lineage], spared: str | None) -> Iterator[str]:
    """The ids of versions in the order in which they are the oldest root.

    With a root its descendants become roots. Those of the version that is spared never do, so
    they come last, in their own line.
    """
    children: dict[str, list[Lineage]] = {}
    roots: list[_Key] = []
    known = {spared, *(version.vid for version in versions)}
    for version in versions:
        if version.ancestor == version.vid or version.ancestor not in known:
            roots.append(_key(version))
        else:
            children.setdefault(version.ancestor, []).append(version)
    last = [_key(child) for child in children.get(spared or "", ())]
    for line in (roots, last):
        heapq.heapify(line)
        while line:
            vid = heapq.heappop(line)[2]
            yield vid
            for child in children.get(vid, ()):
                heapq.heappush(line, _key(child))
