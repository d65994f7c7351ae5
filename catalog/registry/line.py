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
    spared = [draft for draft in versions if draft.xid.vid != default]
    return _oldest_first(spared, kind)[:excess]


def _oldest_first(versions: Sequence[Draft], kind: ResourceType) -> list[Draft]:
    by_id = {draft.xid.vid: draft for draft in versions}
    lineages = [lineage_of(draft) for draft in versions]
    if kind.versionmode == MANUAL:
        return [by_id[vid] for vid in _as_roots_go(lineages)]
    return [by_id[vid] for vid in assign_ancestors(lineages, kind.versionmode)]


def _as_roots_go(versions: Sequence[Lineage]) -> Iterator[str]:
    """The ids of versions in the order in which they are the oldest root.

    With a root its descendants become roots; what descends from none of these comes last.
    """
    children: dict[str, list[Lineage]] = {}
    for version in versions:
        if version.ancestor != version.vid:
            children.setdefault(version.ancestor, []).append(version)
    roots = [_key(version) for version in versions if version.ancestor == version.vid]
    heapq.heapify(roots)
    gone: set[str] = set()
    while len(gone) < len(versions):
        if not roots:
            roots = sorted(_key(version) for version in versions if version.vid not in gone)
        vid = heapq.heappop(roots)[2]
        if vid not in gone:
            gone.add(vid)
            yield vid
            for child in children.get(vid, ()):
                heapq.heappush(roots, _key(child))
