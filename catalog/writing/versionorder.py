"""The order of a resource's versions: ancestors, new ids, and the order of pruning.

Source: core/model.md, "versionmode", "singleversionroot" and "maxversions". A request may bring
thousands of versions at once, so no function of the module compares every pair of versions.
"""

from __future__ import annotations

import heapq
import re
from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import semver

from catalog.model import errors
from catalog.model.interaction import NEWEST, THE_NEW_ONE, Body
from catalog.model.schema import ResourceType
from catalog.model.versions import Lineage, assign_ancestors, circle, is_semantic, newest
from catalog.model.xid import Xid
from catalog.writing.drafts import Draft, Drafts

ITSELF = "request"
MANUAL = "manual"
MODIFIED = "modifiedat"
SEMVER = "semver"

_NUMBER = re.compile(r"[0-9]{1,15}")
_Key = tuple[object, str, str]


def lineage_of(draft: Draft) -> Lineage:
    return Lineage(
        vid=draft.xid.vid,
        ancestor=draft.attributes.get("ancestorid", draft.xid.vid),
        createdat=draft.createdat,
        modifiedat=draft.modifiedat,
    )


def newest_of(versions: Iterable[Draft], kind: ResourceType) -> str | None:
    """The id of the newest version; `None` if the resource has no versions."""
    found = newest([lineage_of(draft) for draft in versions], kind.versionmode)
    return found.vid if found is not None else None


def check_new_id(xid: Xid, kind: ResourceType) -> None:
    """Refuse an id that gives a version no place among semantic versions."""
    if kind.versionmode == SEMVER and not is_semantic(xid.vid):
        raise errors.MalformedId(
            str(xid), id=xid.vid, error_detail="its versionmode needs semantic versions"
        )


def next_version_id(versions: Sequence[Draft], kind: ResourceType, deleted: Iterable[range]) -> str:
    """An id for a new version (core/spec.md, "Version IDs").

    The id is the lowest number that is not an id and never was (`deleted`). If versions are ordered
    as semantic versions, the id makes the new version the newest.
    """
    taken = [draft.xid.vid for draft in versions]
    if kind.versionmode == SEMVER:
        numbers = [semver.Version.parse(vid) for vid in taken if is_semantic(vid)]
        return str(max(numbers).bump_minor()) if numbers else "1.0.0"
    spans = [range(int(vid), int(vid) + 1) for vid in taken if _NUMBER.fullmatch(vid)]
    number = 1
    for span in sorted((*spans, *deleted), key=lambda span: span.start):
        if span.start > number:
            break
        number = max(number, span.stop)
    return str(number)


def derive_ancestors(drafts: Drafts, versions: Sequence[Draft], kind: ResourceType) -> None:
    """Give every version the ancestor that the versionmode assigns.

    A version whose ancestor changes counts as updated. If updates decide the order, the version
    keeps `modifiedat` nevertheless, lest the order changes again.
    """
    if kind.versionmode == MANUAL:
        return
    assigned = assign_ancestors([lineage_of(draft) for draft in versions], kind.versionmode)
    for draft in versions:
        if draft.attributes.get("ancestorid") == assigned[draft.xid.vid]:
            continue
        draft.attributes["ancestorid"] = assigned[draft.xid.vid]
        if kind.versionmode == MODIFIED:
            drafts.note(draft)
        else:
            drafts.touch(draft)


def disown(drafts: Drafts, versions: Iterable[Draft], gone: set[str]) -> None:
    """Make roots of versions with deleted ancestors; for the mode `manual` only."""
    for draft in versions:
        if draft.attributes["ancestorid"] in gone:
            draft.attributes["ancestorid"] = draft.xid.vid
            drafts.touch(draft)


def check_ancestors_exist(versions: Sequence[Draft]) -> None:
    """Refuse ancestors other than versions of the same resource."""
    vids = {draft.xid.vid for draft in versions}
    for draft in versions:
        ancestor = draft.attributes.get("ancestorid", draft.xid.vid)
        if ancestor not in vids:
            raise errors.UnknownId(str(draft.xid), singular="version", id=str(ancestor))


def check_lineage(resource: Xid, versions: Sequence[Draft], kind: ResourceType) -> None:
    """Refuse circles, and more roots than the resource's type allows."""
    ancestors = {draft.xid.vid: draft.attributes["ancestorid"] for draft in versions}
    if vids := circle(ancestors):
        raise errors.AncestorCircularReference(str(resource), list=",".join(vids))
    roots = [vid for vid, ancestor in ancestors.items() if vid == ancestor]
    if kind.singleversionroot and len(roots) > 1:
        raise errors.MultipleRoots(str(resource), plural=kind.plural)


def adopt(versions: Sequence[Draft], orphans: Iterable[Draft]) -> None:
    """Make the newest version the ancestor of new versions without one, in the order of the ids.

    For the mode `manual`. A version that descends from an orphan is no candidate until the orphan
    has an ancestor. Without a candidate, the first orphan is a root.
    """
    waiting = sorted(orphans, key=lambda draft: draft.xid.vid.lower())
    leaves = _Leaves(
        [lineage_of(draft) for draft in versions], {draft.xid.vid for draft in waiting}
    )
    for draft in waiting:
        draft.attributes["ancestorid"] = leaves.join(draft.xid.vid)


class _Leaves:
    """The versions without descendants, newest last; `waiting` has the ids without an ancestor."""

    def __init__(self, versions: Sequence[Lineage], waiting: Collection[str]) -> None:
        self._keys = {version.vid: _key(version) for version in versions}
        self._children: dict[str, list[str]] = {}
        for version in versions:
            if version.vid not in waiting and version.ancestor != version.vid:
                self._children.setdefault(version.ancestor, []).append(version.vid)
        behind = {leaf for vid in waiting for leaf in self._below(vid)}
        leaves = self._keys.keys() - self._children.keys() - behind
        self._sorted = sorted(self._keys[vid] for vid in leaves)

    def join(self, vid: str) -> str:
        """Take the ancestor for a waiting version; without a candidate, the version itself."""
        # The newest leaf becomes an ancestor, and so a leaf no longer. In its place come the leaves
        # below `vid`, which were no candidates while `vid` could have become their descendant.
        ancestor = self._sorted.pop()[2] if self._sorted else vid
        for leaf in self._below(vid):
            insort(self._sorted, self._keys[leaf])
        return ancestor

    def _below(self, vid: str) -> Iterator[str]:
        """The leaves that descend from a version, or the version itself."""
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
    """The oldest versions beyond `maxversions`, to be deleted.

    The default version is spared, unless `maxversions` is 1: then stored versions are deleted
    before new versions (core/model.md, "maxversions").
    """
    excess = len(versions) - kind.maxversions if kind.maxversions else 0
    if excess <= 0:
        return []
    if kind.maxversions == 1:
        stored = [draft for draft in versions if not draft.is_new]
        new = [draft for draft in versions if draft.is_new]
        return [*_oldest_first(stored, kind), *_oldest_first(new, kind)][:excess]
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
    """The ids of versions in the order in which each becomes the oldest root.

    When a root is deleted, the children become roots. Children of the spared version never become
    roots, so they are deleted last: child by child, each followed by the descendants, which are
    roots from then on.
    """
    children: dict[str, list[Lineage]] = {}
    roots: list[_Key] = []
    vids = {spared, *(version.vid for version in versions)}
    for version in versions:
        if version.ancestor == version.vid or version.ancestor not in vids:
            roots.append(_key(version))
        else:
            children.setdefault(version.ancestor, []).append(version)
    last = sorted(_key(child) for child in children.get(spared or "", ()))
    for heap in (roots, *([key] for key in last)):
        heapq.heapify(heap)
        while heap:
            vid = heapq.heappop(heap)[2]
            yield vid
            for child in children.get(vid, ()):
                heapq.heappush(heap, _key(child))


ID = "defaultversionid"
STICKY = "defaultversionsticky"


def initial_stickiness(kind: ResourceType) -> bool:
    """The default stickiness: the default value in the model, or else false."""
    definition = kind.metaattributes.get(STICKY)
    return bool(definition.default) if definition is not None else False


def choose_default(draft: Draft, meta: Body, kind: ResourceType, *, patch: bool) -> None:
    """Apply the choice of a default version in a write of a resource's meta."""
    attributes = draft.attributes
    chosen, sticky = meta.get(ID), meta.get(STICKY)
    if chosen is not None and not isinstance(chosen, str):
        raise errors.InvalidAttribute(
            f"{draft.xid}/meta", name=ID, error_detail="it needs to be a string"
        )
    was_sticky = attributes[STICKY]
    if not patch or STICKY in meta:
        _stick(draft, kind, sticky)
    elif ID in meta:
        _stick(draft, kind, chosen is not None)
    if chosen is not None and attributes[STICKY]:
        attributes[ID] = chosen
    elif sticky is True and not (patch and was_sticky and ID not in meta):
        attributes.pop(ID, None)


def _stick(draft: Draft, kind: ResourceType, sticky: Any) -> None:
    if sticky is None:
        sticky = initial_stickiness(kind)
    elif not isinstance(sticky, bool):
        raise errors.InvalidAttribute(
            f"{draft.xid}/meta", name=STICKY, error_detail="it needs to be a boolean"
        )
    draft.attributes[STICKY] = sticky


def force_default(draft: Draft, wanted: str, written: Sequence[Draft], kind: ResourceType) -> None:
    """Apply the `setdefaultversionid` flag, which overrides the meta of the request.

    `written` are the versions in the request: the flag `request` is for a new one among them.
    """
    if wanted == NEWEST:
        _stick(draft, kind, False)
        return
    if wanted == THE_NEW_ONE:
        new = [version.xid.vid for version in written if version.is_new]
        if not new:
            raise errors.DefaultVersionIdRequest(str(draft.xid))
        wanted = new[0]
    _stick(draft, kind, True)
    draft.attributes[ID] = wanted


def forget_default(draft: Draft, kind: ResourceType) -> None:
    """Undo the choice of a deleted version, so that the newest version is the default again."""
    draft.attributes[STICKY] = initial_stickiness(kind)
    draft.attributes.pop(ID, None)


def settle_default(draft: Draft, versions: Sequence[Draft], kind: ResourceType) -> None:
    """Find the default version, once every version has the final state.

    Refuses a sticky choice where the type keeps a single version, and a choice that is missing.
    """
    attributes = draft.attributes
    if attributes[STICKY] and kind.maxversions == 1:
        raise errors.SetDefaultVersionStickyFalse(str(draft.xid))
    if not attributes[STICKY] or ID not in attributes:
        vid = newest_of(versions, kind)
        if vid is None:
            raise errors.MissingVersions(str(draft.xid))
        attributes[ID] = vid
    if not any(version.xid.vid == attributes[ID] for version in versions):
        raise errors.UnknownId(str(draft.xid), singular="version", id=attributes[ID])


def has_moved(draft: Draft) -> bool:
    """Whether the default version or the stickiness has changed."""
    before: Mapping[str, Any] = draft.before.attributes if draft.before else {}
    return any(before.get(name) != draft.attributes.get(name) for name in (ID, STICKY))
