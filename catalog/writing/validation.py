"""Validates the documents of versions: against formats, and for compatibility with ancestors.

Source: core/spec.md, "formatvalidated Attribute", "compatibility Attribute" and
"compatibilityvalidated Attribute"; core/model.md, "validateformat", "validatecompatibility" and
"strictvalidation". Only changed versions are checked, since valid versions stay valid. After a
change of the configuration, versions that could not be checked before are tried again. A version is
compared with ancestors only, in the directions of the rule; descendants are compared with the
version when the descendants are checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from catalog.formats.checker import Check, Direction, comparison, validation
from catalog.load.workthread import Slices
from catalog.model import errors
from catalog.model.capabilities import Capabilities
from catalog.model.confluentattribute import schema_id_of
from catalog.model.schema import ResourceType
from catalog.writing.content import DraftDocuments
from catalog.writing.drafts import Draft, Drafts
from catalog.writing.resourceplan import ResourcePlan

FORMAT = "formatvalidated"
COMPATIBILITY = "compatibilityvalidated"
_UNKNOWN = 'This server does not check the format "{}"'
_EXTERNAL = "The document is stored elsewhere"
_ERASED = "Its content was erased"


class DocumentChecker(Protocol):
    """Answers checks of documents, from known results or by running the checks."""

    async def answers(self, checks: Sequence[Check]) -> Sequence[str]:
        """The fault found by each check, or ""."""
        ...


def note(drafts: Drafts, draft: Draft, name: str, reason: str | None) -> None:
    """Note the result of a check, `FORMAT` or `COMPATIBILITY`, in the attributes of a version.

    Args:
        reason: why the version could not be checked; "" for a valid version, `None` for a version
            that is not checked.
    """
    names = (name, f"{name}reason")
    if reason is None and draft.attributes.keys().isdisjoint(names):
        return
    noted: dict[str, bool | str] = {} if reason is None else {name: not reason}
    if reason:
        noted[f"{name}reason"] = reason
    if noted != {key: draft.attributes[key] for key in names if key in draft.attributes}:
        kept = {key: value for key, value in draft.attributes.items() if key not in names}
        draft.attributes = kept | noted
        drafts.note(draft)


def is_open(drafts: Drafts, draft: Draft, name: str) -> bool:
    """Whether a check of an entity of the node's authority could not be made so far."""
    return draft.attributes.get(name) is False and not drafts.is_replica(draft.xid)


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
class Validation:
    """Steps 6 and 9 of core/spec.md, "Resource Processing Algorithm", for a whole interaction."""

    drafts: Drafts
    documents: DraftDocuments
    capabilities: Capabilities
    checker: DocumentChecker
    tries_again: bool

    async def check_formats(self, resources: Collection[ResourcePlan]) -> None:
        """Step 6: note valid versions, and add invalid versions to the drafts' violations."""
        due: list[Draft] = []
        slices = Slices()
        for resource in resources:
            await slices.breathe()
            for draft in resource.versions:
                if self._is_due(draft, resource.kind):
                    due += [draft] * self._can_be_checked(draft, resource.kind)
        if not due:
            return
        await self.documents.load(due)
        answers = await self.checker.answers(
            [validation(d.attributes["format"], self.documents.of(d)) for d in due]
        )
        for draft, fault in zip(due, answers, strict=True):
            if fault:
                format = draft.attributes["format"]
                self.drafts.violations.append(
                    errors.FormatViolation(str(draft.xid), format=format, detail=fault)
                )
            else:
                note(self.drafts, draft, FORMAT, "")

    def _is_due(self, draft: Draft, kind: ResourceType) -> bool:
        if schema_id_of(draft.attributes) is not None:
            # The dialect has checked the text together with its references.
            note(self.drafts, draft, FORMAT, "")
            return False
        is_noted, has_format = FORMAT in draft.attributes, "format" in draft.attributes
        is_wanted = kind.validateformat and has_format
        if is_wanted and is_noted:
            is_due = self.tries_again and is_open(self.drafts, draft, FORMAT)
            return is_due or draft.has_new_content(kind)
        if is_noted and not is_wanted:
            note(self.drafts, draft, FORMAT, None)
        return is_wanted

    def _can_be_checked(self, draft: Draft, kind: ResourceType) -> bool:
        """Whether a version can be checked; if not, note the reason, or add a violation."""
        if _is_erased(draft, kind) and not kind.strictvalidation:
            note(self.drafts, draft, FORMAT, _ERASED)
            return False
        format = draft.attributes["format"]
        error: errors.XRegistryError
        if not self.capabilities.validates(format):
            error, reason = (
                errors.FormatUnknown(str(draft.xid), format=format),
                _UNKNOWN.format(format),
            )
        elif f"{kind.singular}url" in draft.attributes and kind.hasdocument:
            error, reason = errors.FormatExternal(str(draft.xid)), _EXTERNAL
        else:
            return True
        if kind.strictvalidation:
            self.drafts.violations.append(error)
        else:
            note(self.drafts, draft, FORMAT, reason)
        return False

    async def check_compatibility(self, resources: Collection[ResourcePlan]) -> None:
        """Step 9: note compatible versions, and add incompatible ones to the drafts' violations."""
        slices = Slices()
        for resource in resources:
            await slices.breathe()
            if resource.draft.xref is None:
                await self._check_compatibility(resource)

    async def _check_compatibility(self, resource: ResourcePlan) -> None:
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
                errors.CompatibilityViolation(
                    str(resource.xid), compat=str(rule), detail=" ".join(faults)
                )
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
                errors.CompatibilityUnknown(
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


def _is_erased(draft: Draft, kind: ResourceType) -> bool:
    """Whether a request erased the content of a version, and no content was written since."""
    if draft.content_sha256 is not None or f"{kind.singular}url" in draft.attributes:
        return False
    return draft.is_erased or draft.attributes.get(f"{FORMAT}reason") == _ERASED


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
        # A result stays true of the ancestors that it was found with, while neither text changes.
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
