"""Which version of a resource follows which, and which ones have to go.

Source: core/model.md, "versionmode", "singleversionroot" and "maxversions".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import semver

from catalog.model.errors import (
    AncestorCircularReference,
    MalformedId,
    MultipleRoots,
    UnknownId,
)
from catalog.model.schema import ResourceType
from catalog.model.versions import (
    Lineage,
    assign_ancestors,
    circle,
    is_semantic,
    newest,
)
from catalog.model.xid import Xid
from catalog.writing.draft import Draft
from catalog.writing.plan import Plan

ITSELF = "request"
MANUAL = "manual"
MODIFIED = "modifiedat"
SEMVER = "semver"

_NUMBER = re.compile(r"[0-9]{1,15}")


def lineage_of(draft: Draft) -> Lineage:
    return Lineage(
        vid=draft.xid.vid,
        ancestor=draft.attributes.get("ancestorid", draft.xid.vid),
        createdat=draft.createdat,
        modifiedat=draft.modifiedat,
    )


def newest_of(versions: Iterable[Draft], kind: ResourceType) -> str | None:
    """The id of the newest version; `None` where there is none."""
    found = newest([lineage_of(draft) for draft in versions], kind.versionmode)
    return found.vid if found is not None else None


def check_new_id(xid: Xid, kind: ResourceType) -> None:
    """Refuse a version's id that its place in the lineage could not be told from.

    Raises:
        MalformedId: it is no semantic version, and the versions are ordered by these.
    """
    if kind.versionmode == SEMVER and not is_semantic(xid.vid):
        raise MalformedId(
            str(xid), id=xid.vid, error_detail="its versionmode needs semantic versions"
        )


def next_version_id(versions: Sequence[Draft], kind: ResourceType, given: Iterable[range]) -> str:
    """An id for a new version (core/spec.md, "Version IDs").

    It is the lowest number that is not an id already and never was. Where versions are
    ordered by semantic versions, it is one that makes the new version the newest.

    Args:
        given: the numbers that were ids of versions that are deleted.
    """
    taken = [draft.xid.vid for draft in versions]
    if kind.versionmode == SEMVER:
        known = [semver.Version.parse(vid) for vid in taken if is_semantic(vid)]
        return str(max(known).bump_minor()) if known else "1.0.0"
    spans = [range(int(vid), int(vid) + 1) for vid in taken if _NUMBER.fullmatch(vid)]
    number = 1
    for span in sorted((*spans, *given), key=lambda span: span.start):
        if span.start > number:
            break
        number = max(number, span.stop)
    return str(number)


def derive_ancestors(plan: Plan, versions: Sequence[Draft], kind: ResourceType) -> None:
    """Give every version the ancestor that the versionmode gives it.

    A version whose ancestor changes is updated by that. Where the order is that of updates,
    it keeps its time nevertheless: to be put into order must not change the order.
    """
    if kind.versionmode == MANUAL:
        return
    wanted = assign_ancestors([lineage_of(draft) for draft in versions], kind.versionmode)
    for draft in versions:
        if draft.attributes.get("ancestorid") == wanted[draft.xid.vid]:
            continue
        draft.attributes["ancestorid"] = wanted[draft.xid.vid]
        if kind.versionmode == MODIFIED:
            plan.note(draft)
        else:
            plan.touch(draft.xid)


def disown(plan: Plan, versions: Iterable[Draft], gone: set[str]) -> None:
    """Make roots of those whose ancestors are gone; other modes than manual know better."""
    for draft in versions:
        if draft.attributes["ancestorid"] in gone:
            draft.attributes["ancestorid"] = draft.xid.vid
            plan.touch(draft.xid)


def check_ancestors_exist(versions: Sequence[Draft]) -> None:
    """Refuse ancestors that are no versions of the same resource.

    Raises:
        UnknownId
    """
    known = {draft.xid.vid for draft in versions}
    for draft in versions:
        ancestor = draft.attributes.get("ancestorid", draft.xid.vid)
        if ancestor not in known:
            raise UnknownId(str(draft.xid), singular="version", id=str(ancestor))


def check_lineage(resource: Xid, versions: Sequence[Draft], kind: ResourceType) -> None:
    """Refuse circles, and more roots than the type of the resource allows.

    Raises:
        AncestorCircularReference, MultipleRoots
    """
    ancestors = {draft.xid.vid: draft.attributes["ancestorid"] for draft in versions}
    if vids := circle(ancestors):
        raise AncestorCircularReference(str(resource), list=",".join(vids))
    roots = [vid for vid, ancestor in ancestors.items() if vid == ancestor]
    if kind.singleversionroot and len(roots) > 1:
        raise MultipleRoots(str(resource), plural=kind.plural)
