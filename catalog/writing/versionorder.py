"""The versions of a resource in line: who joins it where, and who leaves it first.

Source: core/model.md, "versionmode" and "maxversions". A request may bring a great many
versions at once, so none of this looks at all of them for each of them.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Sequence

from catalog.model.schema import ResourceType
from catalog.model.versions import Lineage, assign_ancestors
from catalog.writing.ancestors import MANUAL, lineage_of
from catalog.writing.draft import Draft

_Key = tuple[object, str, str]


def adopt(versions: Sequence[Draft], orphans: Iterable[Draft]) -> None:
    """Give new versions that named no ancestor one, in the order of their ids: the newest.

    This is for the mode `manual`. A version that descends from one of them is no candidate
    before that one has an ancestor. The first one is a root where there is no candidate at all.
    """
    waiting = sorted(orphans, key=lambda draft: draft.xid.vid.lower())
    line = _Line([lineage_of(draft) for draft in versions], {draft.xid.vid for draft in waiting})
    for draft in waiting:
        draft.attributes["ancestorid"] = line.join(draft.xid.vid)


class _Line:
    """Versions by who follows whom, and those that nobody follows: the newest is at hand.

    Args:
        waiting: the ids of those whose ancestors are to be found.
    """

    def __init__(self, versions: Sequence[Lineage], waiting: Collection[str]) -> None:
        self._keys = {version.vid: _key(version) for version in versions}
        self._children: dict[str, list[str]] = {}
        for version in versions:
            if version.vid not in waiting and version.ancestor != version.vid:
                self._children.setdefault(version.ancestor, []).append(version.vid)
        behind = {leaf for vid in waiting for leaf in self._leaves_of(vid)}
        leaves = self._keys.keys() - self._children.keys() - behind
        self._leaves = sorted(self._keys[vid] for vid in leaves)

    def join(self, vid: str) -> str:
        """The ancestor of a version that was waiting; it has no other than itself if need be."""
        ancestor = self._leaves.pop()[2] if self._leaves else vid
        for leaf in self._leaves_of(vid):
            insort(self._leaves, self._keys[leaf])
        return ancestor

    def _leaves_of(self, vid: str) -> Iterator[str]:
        """What descends from a version, or it itself, and has no descendants."""
        found = [vid]
        while found:
            vid = found.pop()
            children = self._children.get(vid)
            if children is None:
                yield vid
            else:
                found += children


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

    When a root goes, its children become roots. The children of the spared version never do,
    so they go last: one by one, each followed by its descendants, which are roots from then on.
    """
    children: dict[str, list[Lineage]] = {}
    roots: list[_Key] = []
    known = {spared, *(version.vid for version in versions)}
    for version in versions:
        if version.ancestor == version.vid or version.ancestor not in known:
            roots.append(_key(version))
        else:
            children.setdefault(version.ancestor, []).append(version)
    last = sorted(_key(child) for child in children.get(spared or "", ()))
    for line in (roots, *([key] for key in last)):
        heapq.heapify(line)
        while line:
            vid = heapq.heappop(line)[2]
            yield vid
            for child in children.get(vid, ()):
                heapq.heappush(line, _key(child))
