"""Checks the versions of a resource against those they descend from.

Source: core/spec.md, "compatibility Attribute" and "compatibilityvalidated Attribute". A
version answers for the comparisons with its ancestors, in both directions: what newer
versions are compatible with, they see to themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from catalog.model.capabilities import Capabilities
from catalog.model.errors import CompatibilityUnknown, CompatibilityViolation
from catalog.writing.draft import Draft
from catalog.writing.draftdocuments import DraftDocuments, has_new_content
from catalog.writing.formatcheck import (
    COMPATIBILITY,
    FORMAT,
    Direction,
    DocumentChecker,
    gather,
    is_open,
    note,
)
from catalog.writing.plan import Plan
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
        formats = (each.attributes["format"] for each in (self.older, self.newer))
        return len({_family(format) for format in formats}) == 1

    def __str__(self) -> str:
        return f"{self.newer.xid.vid} ({self.direction}, with {self.older.xid.vid})"


@dataclass(frozen=True, slots=True)
class CompatibilityCheck:
    """Step 9 of core/spec.md, "Resource Processing Algorithm", for a whole interaction."""

    plan: Plan
    contents: DraftDocuments
    capabilities: Capabilities
    checker: DocumentChecker
    tries_again: bool

    async def run(self, resources: Collection[ResourcePlan]) -> None:
        """Note what is compatible; what is not becomes a violation of the plan."""
        for resource in resources:
            if resource.draft.xref is None:
                await self._run(resource)

    async def _run(self, resource: ResourcePlan) -> None:
        rule = resource.draft.attributes.get("compatibility")
        wanted = rule.lower() if rule is not None and resource.kind.validatecompatibility else ""
        if not wanted:
            for draft in resource.versions:
                note(self.plan, draft, COMPATIBILITY, None)
            return
        due: list[_Comparison] = []
        checked: list[Draft] = []
        lines = _Lines(resource, transitive=wanted.endswith("_transitive"))
        for draft in lines.concerned(self._open_in(resource)):
            if "format" not in draft.attributes:
                note(self.plan, draft, COMPATIBILITY, None)
            elif reason := self._obstacle(draft, lines, wanted):
                self._give_up(resource, draft, wanted, reason)
            else:
                due += _comparisons(draft, lines, wanted)
                checked.append(draft)
        faults = await self._compare(due)
        if faults:
            self.plan.violations.append(
                CompatibilityViolation(str(resource.xid), compat=str(rule), detail=" ".join(faults))
            )
        for draft in checked:
            note(self.plan, draft, COMPATIBILITY, "")

    def _open_in(self, resource: ResourcePlan) -> set[str]:
        """The ids of the versions that are to be tried again."""
        drafts = resource.versions if self.tries_again else []
        return {draft.xid.vid for draft in drafts if is_open(self.plan, draft, COMPATIBILITY)}

    def _obstacle(self, draft: Draft, lines: _Lines, rule: str) -> str:
        """Why a version cannot be compared at all; empty if it can."""
        if not draft.attributes.get(FORMAT):
            return "Its format was not checked"
        format = draft.attributes["format"]
        if rule not in self.capabilities.rules_for(format):
            return f'This server does not check "{rule}" for the format "{format}"'
        for older in lines.of(draft):
            if not older.attributes.get(FORMAT):
                return f"It descends from {older.xid.vid}, whose format was not checked"
        return ""

    def _give_up(self, resource: ResourcePlan, draft: Draft, rule: str, reason: str) -> None:
        if resource.kind.strictvalidation:
            self.plan.violations.append(
                CompatibilityUnknown(
                    str(resource.xid), compat=rule, format=draft.attributes["format"], detail=reason
                )
            )
        else:
            note(self.plan, draft, COMPATIBILITY, reason)

    async def _compare(self, due: list[_Comparison]) -> list[str]:
        """What is wrong, a sentence for each comparison that shows it."""
        faults = [f"{one}: the formats differ." for one in due if not one.is_possible]
        due = [one for one in due if one.is_possible]
        await self.contents.load(draft for one in due for draft in (one.older, one.newer))
        answers = await gather(
            [
                self.checker.compare(
                    one.newer.attributes["format"],
                    self.contents.of(one.older),
                    self.contents.of(one.newer),
                    one.direction,
                )
                for one in due
            ]
        )
        return faults + [
            f"{one}: {fault}." for one, fault in zip(due, answers, strict=True) if fault
        ]


class _Lines:
    """Which versions each one is compared with: its ancestor, or all of its ancestors."""

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
        self._new = {d.xid.vid for d in drafts if has_new_content(d, resource.kind)}
        meta, old = resource.draft, resource.draft.before
        old_rule = old.attributes.get("compatibility") if old is not None else None
        self._is_new_rule = meta.attributes.get("compatibility") != old_rule

    def concerned(self, again: Collection[str]) -> list[Draft]:
        """The versions that anything changed for, be it in what they descend from, and `again`."""
        if self._is_new_rule:
            return [*self.versions.values()]
        changed = {vid for vid in self.versions if self._is_changed(vid)}
        if not changed and not again:
            return []
        return [
            draft
            for vid, draft in self.versions.items()
            if vid in again or not changed.isdisjoint((vid, *self._line(vid, self._now)))
        ]

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
        """Those with a format among what a version is compared with, the nearest first."""
        line = self._line(draft.xid.vid, self._now)
        return [self.versions[vid] for vid in line if "format" in self.versions[vid].attributes]

    def news_of(self, draft: Draft) -> Iterator[Draft]:
        """Those among them that it was not found compatible with before."""
        vid = draft.xid.vid
        is_news = self._is_new_rule or vid in self._new or not draft.attributes.get(COMPATIBILITY)
        known = set() if is_news else {*self._line(vid, self._before)} - self._new
        return (older for older in self.of(draft) if older.xid.vid not in known)

    def _line(self, vid: str, ancestors: Mapping[str, str]) -> list[str]:
        line: list[str] = []
        parent = ancestors.get(vid, vid)
        while parent != vid and parent in ancestors and len(line) < len(ancestors):
            line.append(parent)
            if not self.transitive:
                break
            vid, parent = parent, ancestors[parent]
        return line


def _comparisons(draft: Draft, lines: _Lines, rule: str) -> list[_Comparison]:
    directions = DIRECTIONS[rule.removesuffix("_transitive")]
    return [
        _Comparison(older=older, newer=draft, direction=direction)
        for older in lines.news_of(draft)
        for direction in directions
    ]


def _family(format: str) -> str:
    return format.partition("/")[0].lower()
