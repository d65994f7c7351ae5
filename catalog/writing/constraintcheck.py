"""Checks what groups demand of the versions of their resources, also of those they only show.

Source: core/model.md, "groups.<STRING>.constraints".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from catalog.model.entity import Entity
from catalog.model.errors import ConstraintFailure
from catalog.model.xid import Xid
from catalog.store.locks import MustBeginAgain
from catalog.writing.content import CatalogContent
from catalog.writing.draft import Draft
from catalog.writing.grouprules import GroupRules
from catalog.writing.plan import Plan
from catalog.writing.resourceplan import ResourcePlan


class ConstraintCheck:
    """Step 7 of core/spec.md, "Resource Processing Algorithm", for a whole interaction.

    Args:
        is_exclusive: whether nobody else can change anything meanwhile. What reaches beyond
            the groups in the plan is checked only then.
        is_referred: whether there may be cross references to what is written.
    """

    def __init__(
        self, holdings: CatalogContent, plan: Plan, *, is_exclusive: bool, is_referred: bool
    ) -> None:
        self.holdings = holdings
        self.plan = plan
        self.is_exclusive = is_exclusive
        self.is_referred = is_referred
        self._checked: set[str] = set()

    async def run(self, resources: Collection[ResourcePlan]) -> None:
        """Add what breaks a constraint to the violations of the plan.

        Raises:
            MustBeginAgain: come again with the catalog locked as a whole.
        """
        self._checked = {str(each.xid) for each in resources}
        live = [each for each in resources if self.plan.live(each.xid) is not None]
        for each in live:
            rules, target = self.plan.rules_of(each.xid.group), each.draft.xref
            if rules.concern(each.xid.resources):
                shown = _contents(each.versions) if target is None else await self._shown(target)
                self._check(rules, each.xid, shown)
        changed = [str(each.xid) for each in live if any(d.is_written for d in each.versions)]
        if changed and self.is_referred:
            await self._check_sources(changed)
        for draft in list(self.plan.drafts.values()):
            if draft.xid.kind == "group" and draft.is_touched and not draft.is_deleted:
                await self._check_group(draft)

    def _versions_at(self, xref: str) -> list[Draft]:
        return self.plan.versions_of(Xid.parse(xref))

    def _check(
        self, rules: GroupRules, resource: Xid, versions: Mapping[str, Mapping[str, Any]]
    ) -> None:
        if not rules.concern(resource.resources):
            return
        id = f"{self.plan.model.singular_of(resource)}id"
        broken: dict[tuple[str, str], list[str]] = {}
        for vid, own in versions.items():
            attributes = {**own, id: resource.rid, "versionid": vid}
            for fault in rules.broken_by(attributes, resource.resources):
                broken.setdefault(fault, []).append(vid)
        self.plan.violations += [
            ConstraintFailure(
                str(resource), path=path, kind=kind, detail=f"Versions: {', '.join(vids)}."
            )
            for (path, kind), vids in broken.items()
        ]

    async def _check_sources(self, changed: Collection[str]) -> None:
        """Groups also restrict what they show by cross reference."""
        for source in await self.holdings.load_sources(changed):
            xid = Xid.parse(source.xid)
            planned = self.plan.drafts.get(source.xid)
            if planned is not None and (planned.is_deleted or planned.xref != source.target):
                continue
            self._checked.add(source.xid)
            rules = self._rules_of(source.group)
            if rules.concern(xid.resources):
                self._require_exclusive()
                self._check(rules, xid, _contents(self._versions_at(source.target)))

    def _rules_of(self, group: Entity) -> GroupRules:
        if group.xid in self.plan.drafts:
            return self.plan.rules_of(group.path)
        kind = self.plan.model.groups[group.path.groups]
        return GroupRules.of(kind, group.path, group.attributes)

    def _require_exclusive(self) -> None:
        if not self.is_exclusive:
            raise MustBeginAgain

    async def _check_group(self, draft: Draft) -> None:
        """All resources of a group whose own constraints, or what they refer to, changed."""
        if draft.before is None or draft.attributes == draft.before.attributes:
            return
        rules = self.plan.rules_of(draft.xid)
        kind = self.plan.model.groups[draft.xid.groups]
        if not rules.differ_from(GroupRules.of(kind, draft.xid, draft.before.attributes)):
            return
        rows = await self.holdings.load_subtrees([str(draft.xid)])
        versions = _by_resource(rows)
        for row in rows:
            if row.kind != "resource" or row.xid in self._checked:
                continue
            xref = row.attributes.get("xref")
            shown = versions.get(row.xid, {}) if xref is None else await self._shown(xref)
            self._check(rules, row.path, shown)

    async def _shown(self, xref: str) -> dict[str, Mapping[str, Any]]:
        """What a cross reference shows, as this interaction leaves it."""
        if xref in self.plan.drafts:
            return _contents(self._versions_at(xref))
        self._require_exclusive()
        rows = await self.holdings.load_subtrees([xref])
        return _by_resource(rows).get(xref, {})


def _contents(versions: Iterable[Draft]) -> dict[str, Mapping[str, Any]]:
    return {draft.xid.vid: draft.attributes for draft in versions}


def _by_resource(rows: Iterable[Entity]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The attributes of versions by their ids, by the resources that they are of."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row.kind == "version":
            found.setdefault(str(row.path.resource), {})[row.path.vid] = row.attributes
    return found
