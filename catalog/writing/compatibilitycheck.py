"""Checks the versions of a resource against their ancestors.

Source: core/spec.md, "compatibility Attribute" and "compatibilityvalidated Attribute". A
version is compared with ancestors only, in the directions of the rule; descendants are compared
with the version when the descendants are checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from catalog.formats.checker import Check, Direction, comparison
from catalog.load.longwork import Slices
from catalog.model.capabilities import Capabilities
from catalog.model.errors import CompatibilityUnknown, CompatibilityViolation
from catalog.writing.content import DraftDocuments
from catalog.writing.drafts import Draft, Drafts
from catalog.writing.formatcheck import (
    COMPATIBILITY,
    FORMAT,
    DocumentChecker,
    is_open,
    note,
)
from catalog.writing.resourceplan import ResourcePlan

DIRECTIONS: Mapping[str, tuple[Direction, ...]] = {
    "backward": ("backward",),
    "forward": ("forward",),
    "full": ("backward", "forward"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    older: Draft
    newer: Draft
    direction: Direction

    @property
    def is_possible(self) -> bool:
        return _family(self.older) == _family(self.newer)

    def __str__(self) -> str:
        return f"{self.newer.xid.vid} ({self.direction}, with {self.older.xid.vid})"


@dataclass(frozen=True, slots=True)
class CompatibilityCheck:
    """Step 9 of core/spec.md, "Resource Processing Algorithm", for a whole interaction."""

    drafts: Drafts
    documents: DraftDocuments
    capabilities: Capabilities
    checker: DocumentChecker
    tries_again: bool

    async def run(self, resources: Collection[ResourcePlan]) -> None:
        """Note compatible versions, and add incompatible versions to the drafts' violations."""
        slices = Slices()
        for resource in resources:
            await slices.breathe()
            if resource.draft.xref is None:
                await self._run(resource)

    async def _run(self, resource: ResourcePlan) -> None:
        rule = resource.draft.attributes.get("compatibility")
        wanted = rule.lower() if rule is not None and resource.kind.validatecompatibility else ""
        if not wanted:
            for draft in resource.versions:
                note(self.drafts, draft, COMPATIBILITY, None)
            return
        due: list[_Comparison] = []
        checked: list[Draft] = []
        ancestry = _Ancestry(resource, transitive=wanted.endswith("_transitive"))
        drafts = resource.versions if self.tries_again else []
        again = {d.xid.vid for d in drafts if is_open(self.drafts, d, COMPATIBILITY)}
        for draft in ancestry.concerned(again):
            if "format" not in draft.attributes:
                note(self.drafts, draft, COMPATIBILITY, None)
            elif reason := self._obstacle(draft, ancestry, wanted):
                self._give_up(resource, draft, wanted, reason)
            else:
                due += [
                    _Comparison(older=older, newer=draft, direction=direction)
                    for older in ancestry.unchecked_of(draft)
                    for direction in DIRECTIONS[wanted.removesuffix("_transitive")]
                ]
                checked.append(draft)
        faults = await self._compare(due)
        if faults:
            self.drafts.violations.append(
                CompatibilityViolation(str(resource.xid), compat=str(rule), detail=" ".join(faults))
            )
        for draft in checked:
            note(self.drafts, draft, COMPATIBILITY, "")

    def _obstacle(self, draft: Draft, ancestry: _Ancestry, rule: str) -> str:
        """The reason why a version cannot be compared; empty if a comparison is possible."""
        if not draft.attributes.get(FORMAT):
            return "Its format was not checked"
        format = draft.attributes["format"]
        if rule not in self.capabilities.rules_for(format):
            return f'This server does not check "{rule}" for the format "{format}"'
        for older in ancestry.of(draft):
            if not older.attributes.get(FORMAT):
                return f"It descends from {older.xid.vid}, whose format was not checked"
        return ""

    def _give_up(self, resource: ResourcePlan, draft: Draft, rule: str, reason: str) -> None:
        if resource.kind.strictvalidation:
            self.drafts.violations.append(
                CompatibilityUnknown(
                    str(resource.xid), compat=rule, format=draft.attributes["format"], detail=reason
                )
            )
        else:
            note(self.drafts, draft, COMPATIBILITY, reason)

    async def _compare(self, due: list[_Comparison]) -> list[str]:
        """Compare versions; return a sentence for each fault."""
        faults = [f"{one}: the formats differ." for one in due if not one.is_possible]
        due = [one for one in due if one.is_possible]
        await self.documents.load(draft for one in due for draft in (one.older, one.newer))
        answers = await self.checker.answers([self._check_of(one) for one in due])
        return faults + [
            f"{one}: {fault}." for one, fault in zip(due, answers, strict=True) if fault
        ]

    def _check_of(self, one: _Comparison) -> Check:
        older, newer = self.documents.of(one.older), self.documents.of(one.newer)
        return comparison(one.newer.attributes["format"], older, newer, one.direction)


class _Ancestry:
    """The versions to compare each version with: the direct ancestor, or `transitive` every one."""

    def __init__(self, resource: ResourcePlan, *, transitive: bool) -> None:
        drafts = resource.versions
        self.transitive = transitive
        self.versions = {draft.xid.vid: draft for draft in drafts}
        self._now = {draft.xid.vid: draft.attributes["ancestorid"] for draft in drafts}
        self._before = {
            draft.xid.vid: draft.before.attributes.get("ancestorid", draft.xid.vid)
            for draft in drafts
            if draft.before is not None
        }
        self._new = {d.xid.vid for d in drafts if d.has_new_content(resource.kind)}
        meta, old = resource.draft, resource.draft.before
        old_rule = old.attributes.get("compatibility") if old is not None else None
        self._is_new_rule = meta.attributes.get("compatibility") != old_rule

    def concerned(self, again: Collection[str]) -> list[Draft]:
        """The versions in `again`, and the versions that changed or have changed ancestors."""
        if self._is_new_rule:
            return [*self.versions.values()]
        changed = {vid for vid in self.versions if self._is_changed(vid)}
        return (
            []
            if not (changed or again)
            else [
                draft
                for vid, draft in self.versions.items()
                if vid in again or not changed.isdisjoint((vid, *self._ancestors(vid, self._now)))
            ]
        )

    def _is_changed(self, vid: str) -> bool:
        draft = self.versions[vid]
        before = draft.before.attributes if draft.before is not None else {}
        return (
            vid in self._new
            or self._now[vid] != self._before.get(vid)
            or before.get(FORMAT) != draft.attributes.get(FORMAT)
            or COMPATIBILITY not in draft.attributes
        )

    def of(self, draft: Draft) -> list[Draft]:
        """The ancestors with a format that a version is compared with, nearest first."""
        ancestors = (self.versions[vid] for vid in self._ancestors(draft.xid.vid, self._now))
        return [each for each in ancestors if "format" in each.attributes]

    def unchecked_of(self, draft: Draft) -> Iterator[Draft]:
        """The versions of `of` without an earlier result that the version is compatible."""
        vid = draft.xid.vid
        is_unchecked = (
            self._is_new_rule or vid in self._new or not draft.attributes.get(COMPATIBILITY)
        )
        checked = set() if is_unchecked else {*self._ancestors(vid, self._before)} - self._new
        return (older for older in self.of(draft) if older.xid.vid not in checked)

    def _ancestors(self, vid: str, ancestors: Mapping[str, str]) -> list[str]:
        found: list[str] = []
        parent = ancestors.get(vid, vid)
        while parent != vid and parent in ancestors and len(found) < len(ancestors):
            found.append(parent)
            if not self.transitive:
                break
            vid, parent = parent, ancestors[parent]
        return found


def _family(draft: Draft) -> str:
    return str(draft.attributes["format"]).partition("/")[0].lower()
