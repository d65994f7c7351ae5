"""Runs the checks of an interaction after its steps, in the order of the standard.

Source: core/spec.md, "Resource Processing Algorithm", steps 6, 7, 9 and 10.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.load.workthread import Slices, aside
from catalog.model.capabilities import Capabilities
from catalog.model.constraints import GroupRules
from catalog.model.entity import Entity
from catalog.model.errors import ConstraintFailure, with_violations
from catalog.model.xid import Xid
from catalog.store.locks import MustBeginAgain
from catalog.writing.content import CatalogContent, DraftDocuments
from catalog.writing.drafts import Draft, Drafts
from catalog.writing.resourceplan import ResourcePlan
from catalog.writing.validation import DocumentChecker, Validation


async def run_checks(
    content: CatalogContent,
    drafts: Drafts,
    resources: Collection[ResourcePlan],
    capabilities: Capabilities,
    checker: DocumentChecker,
    *,
    is_exclusive: bool,
    is_referred: bool,
    tries_again: bool = False,
) -> None:
    """Check the written resources beyond single entities, then prune the oldest versions.

    Formats are checked even if the drafts have violations already: each version is checked
    alone, and an error lists every violation.

    Args:
        is_exclusive, is_referred: as for `Decider`.
        tries_again: also check unchanged versions that could not be checked so far.

    Raises:
        XRegistryError: the drafts have violations. The error lists violations of the steps and of
            the first check with violations.
        MustBeginAgain: the interaction needs the lock on the whole catalog.
    """
    documents = DraftDocuments(content)
    validation = Validation(drafts, documents, capabilities, checker, tries_again)
    constraints = ConstraintCheck(content, drafts, is_exclusive, is_referred)
    # A resource that lost its last version is gone with it.
    live = [each for each in resources if drafts.live(each.xid) is not None]
    for check in (validation.check_formats, constraints.run, validation.check_compatibility):
        await check(live)
        _refuse(drafts)
    await aside(len(live), _prune, live, drafts)
    _refuse(drafts)


def _prune(resources: Iterable[ResourcePlan], drafts: Drafts) -> None:
    for resource in resources:
        with drafts.violations.collecting():
            resource.prune()


def _refuse(drafts: Drafts) -> None:
    if drafts.violations:
        raise with_violations(drafts.violations)


@dataclass(slots=True)
class ConstraintCheck:
    """Step 7 of core/spec.md, "Resource Processing Algorithm", for a whole interaction.

    Entities without drafts are checked only if they cannot change before the write.
    """

    content: CatalogContent
    drafts: Drafts
    is_exclusive: bool
    is_referred: bool
    _checked: set[str] = field(init=False, default_factory=set)

    async def run(self, resources: Collection[ResourcePlan]) -> None:
        """Add the constraints that live resources break to the violations of the drafts."""
        self._checked = {str(each.xid) for each in resources}
        slices = Slices()
        for each in resources:
            await slices.breathe()
            rules, target = self.drafts.rules_of(each.xid.group), each.draft.xref
            if rules.concern(each.xid.resources):
                shown = _contents(each.versions) if target is None else await self._shown(target)
                self._check(rules, each.xid, shown)
        if self.is_referred:
            await self._check_sources(resources)
        for draft in [each for each in self.drafts.by_xid.values() if each.is_touched]:
            if draft.xid.kind == "group" and not draft.is_deleted:
                await slices.breathe()
                await self._check_group(draft)

    def _check(
        self, rules: GroupRules, resource: Xid, versions: Mapping[str, Mapping[str, Any]]
    ) -> None:
        if not rules.concern(resource.resources):
            return
        id = f"{self.drafts.model.singular_of(resource)}id"
        broken: dict[tuple[str, str], list[str]] = {}
        for vid, own in versions.items():
            attributes = {**own, id: resource.rid, "versionid": vid}
            for fault in rules.broken_by(attributes, resource.resources):
                broken.setdefault(fault, []).append(vid)
        self.drafts.violations += [
            ConstraintFailure(
                str(resource), path=path, kind=kind, detail=f"Versions: {', '.join(vids)}."
            )
            for (path, kind), vids in broken.items()
        ]

    async def _check_sources(self, resources: Collection[ResourcePlan]) -> None:
        """Check cross references to changed resources against the rules of the referring groups."""
        changed = [str(each.xid) for each in resources if any(d.is_written for d in each.versions)]
        for source in await self.content.load_sources(changed) if changed else ():
            xid = Xid.parse(source.xid)
            draft = self.drafts.by_xid.get(source.xid)
            # The interaction itself has ended the reference.
            if draft is not None and (draft.is_deleted or draft.xref != source.target):
                continue
            self._checked.add(source.xid)
            rules = self._rules_of(source.group)
            if rules.concern(xid.resources):
                self._require_exclusive()
                self._check(rules, xid, _contents(self.drafts.versions_of(source.target)))

    def _rules_of(self, group: Entity) -> GroupRules:
        if group.xid in self.drafts.by_xid:
            return self.drafts.rules_of(group.path)
        kind = self.drafts.model.groups[group.path.groups]
        return GroupRules.of(kind, group.path, group.attributes)

    def _require_exclusive(self) -> None:
        # Without the lock, the entity could change between the check and the commit.
        if not self.is_exclusive:
            raise MustBeginAgain

    async def _check_group(self, draft: Draft) -> None:
        """Check every resource of a group whose constraints changed, or values named by them."""
        if draft.before is None or draft.attributes == draft.before.attributes:
            return
        rules = self.drafts.rules_of(draft.xid)
        kind = self.drafts.model.groups[draft.xid.groups]
        if not rules.differ_from(GroupRules.of(kind, draft.xid, draft.before.attributes)):
            return
        rows = await self.content.load_subtrees([str(draft.xid)])
        versions = _by_resource(rows)
        for row in rows:
            if row.kind != "resource" or row.xid in self._checked:
                continue
            xref = row.attributes.get("xref")
            shown = versions.get(row.xid, {}) if xref is None else await self._shown(xref)
            self._check(rules, row.path, shown)

    async def _shown(self, xref: str) -> dict[str, Mapping[str, Any]]:
        """The versions that a cross reference shows after the interaction."""
        if xref in self.drafts.by_xid:
            return _contents(self.drafts.versions_of(xref))
        self._require_exclusive()
        rows = await self.content.load_subtrees([xref])
        return _by_resource(rows).get(xref, {})


def _contents(versions: Iterable[Draft]) -> dict[str, Mapping[str, Any]]:
    return {draft.xid.vid: draft.attributes for draft in versions}


def _by_resource(rows: Iterable[Entity]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The attributes of versions, by resource and id."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row.kind == "version":
            found.setdefault(str(row.path.resource), {})[row.path.vid] = row.attributes
    return found
