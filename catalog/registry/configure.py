"""Puts a configuration in force, once every entity complies with its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from catalog.model.attributes import check_attributes
from catalog.model.capabilities import Capabilities
from catalog.model.change import Change, changes_between
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.errors import (
    HasDocumentViolation,
    ModelComplianceError,
    SetDefaultVersionStickyFalse,
    UnknownGroupType,
    UnknownResourceType,
    XRegistryError,
)
from catalog.model.schema import GroupType, Model, ResourceType
from catalog.registry.checks import Checks
from catalog.registry.compliance import review_group, review_resource
from catalog.registry.plan import Plan
from catalog.registry.resources import ResourcePlan
from catalog.registry.validation import Checker
from catalog.store import configuration as store
from catalog.store import entities
from catalog.store.configuration import Stored
from catalog.store.database import Connection
from catalog.store.entities import Write

_MOST_VIOLATIONS = 1000

# core/model.md has errors of their own for these ("hasdocument", "maxversions").
_NAMED = (HasDocumentViolation, SetDefaultVersionStickyFalse)


@dataclass(frozen=True, slots=True, kw_only=True)
class Becoming:
    """The configuration that a request asks for.

    `offered` are the most capabilities that this server can have, `authority` is this node's.
    """

    configuration: Configuration
    offered: Capabilities
    authority: str

    def noted_in(self, changes: Sequence[Change], before: Configuration) -> list[Change]:
        """The changes of an interaction; the registry's names what is configured anew."""
        names = self.configuration.differences(before)
        return [
            replace(change, changed=tuple(sorted({*change.changed, *names})))
            if change.kind == "registry"
            else change
            for change in changes
        ]


async def configure(
    connection: Connection,
    before: Configuration,
    becoming: Becoming,
    *,
    checker: Checker,
    interaction: str,
    now: datetime,
) -> None:
    """Put a configuration in force, after all else that the interaction has written.

    The caller holds the whole catalog. Only types whose definition differs are looked at.

    Args:
        checker: knows the formats of documents.
        interaction: its id.
        now: its time.

    Raises:
        ModelComplianceError: with what does not comply, up to a number.
    """
    sweep = _Sweep(connection, becoming, checker, interaction, now)
    await sweep.run(before.model, becoming.configuration.model)
    after, able = becoming.configuration, becoming.configuration.capabilities
    await store.save(
        connection,
        Stored(
            modelsource=after.model.source,
            resolved=after.resolved,
            capabilities=None if able == becoming.offered.initially else able.as_json(),
            revision=after.revision,
        ),
    )


@dataclass(slots=True)
class _Sweep:
    """One walk through the entities of all types that differ."""

    connection: Connection
    becoming: Becoming
    checker: Checker
    interaction: str
    now: datetime
    violations: list[XRegistryError] = field(default_factory=list)

    async def run(self, old: Model, new: Model) -> None:
        """Groups come first, as resources have to comply with what these demand."""
        await self._registry(old, new)
        await self._vanished(old, new)
        self._refuse()
        kept = [(old.groups[name], new.groups[name]) for name in old.groups if name in new.groups]
        for group, after in kept:
            if group.own_attributes != after.own_attributes or _constraints_differ(group, after):
                await self._groups(after)
        for group, after in kept:
            for name, kind in group.resources.items():
                if name in after.resources and _differs(group, kind, after, after.resources[name]):
                    await self._resources(after, after.resources[name])
        self._refuse()

    def _refuse(self) -> None:
        if not self.violations:
            return
        named = [each for each in self.violations if isinstance(each, _NAMED)]
        error = named[0] if named else ModelComplianceError("/model")
        error.detail = "Nothing was changed. Change what is listed, or the model."
        error.violations = tuple(self.violations[:_MOST_VIOLATIONS])
        raise error

    @property
    def _is_full(self) -> bool:
        return len(self.violations) >= _MOST_VIOLATIONS

    async def _registry(self, old: Model, new: Model) -> None:
        """The interaction itself has given it its default values."""
        if old.own_attributes == new.own_attributes:
            return
        [registry] = (await entities.load(self.connection, ["/"])).values()
        own = {k: v for k, v in registry.attributes.items() if k not in new.managed}
        _, found = check_attributes(own, new.own_attributes, subject="/", model=new)
        self.violations += found

    async def _vanished(self, old: Model, new: Model) -> None:
        for groups, group in old.groups.items():
            if groups not in new.groups:
                async for batch in store.groups_of_type(self.connection, groups):
                    self.violations += [UnknownGroupType(e.xid, name=groups) for e in batch]
                    if self._is_full:
                        return
                continue
            for resources in group.resources.keys() - new.groups[groups].resources.keys():
                async for batch in store.resources_of_type(self.connection, groups, resources):
                    self.violations += [
                        UnknownResourceType(e.xid, group=groups, name=resources) for e in batch
                    ]
                    if self._is_full:
                        return

    async def _groups(self, kind: GroupType) -> None:
        async for batch in store.groups_of_type(self.connection, kind.plural):
            plan = self._plan({group.xid: group for group in batch})
            for group in batch:
                review_group(plan, plan.drafts[group.xid], kind)
            await self._finish(plan, [])
            if self._is_full:
                return

    async def _resources(self, group: GroupType, kind: ResourceType) -> None:
        async for batch in store.resources_of_type(self.connection, group.plural, kind.plural):
            plan = self._plan(await self._held(batch))
            resources = [ResourcePlan(plan, resource.path) for resource in batch]
            for resource in resources:
                review_resource(resource)
            await self._finish(plan, resources)
            if self._is_full:
                return

    async def _held(self, batch: Sequence[Entity]) -> dict[str, Entity]:
        """Resources with their groups and versions, and those of what they refer to."""
        groups = {str(resource.path.group) for resource in batch}
        wanted = {resource.xid for resource in batch}
        wanted |= {xref for each in batch if (xref := each.attributes.get("xref"))}
        rows = await entities.load_subtrees(self.connection, wanted)
        return await entities.load(self.connection, groups) | {row.xid: row for row in rows}

    def _plan(self, before: Mapping[str, Entity]) -> Plan:
        return Plan(
            self.becoming.configuration.model,
            before,
            authority=self.becoming.authority,
            now=self.now,
        )

    async def _finish(self, plan: Plan, resources: Sequence[ResourcePlan]) -> None:
        """Note the violations; while there are none, write what was brought into line."""
        able = self.becoming.configuration.capabilities
        checks = Checks(self.connection, plan, able, self.checker)
        try:
            await checks.run(resources, is_exclusive=True, is_referred=True)
        except XRegistryError as error:
            self.violations += error.violations or [error]
        if self.violations:
            return
        planned = plan.finish({})
        before = {xid: d.before for xid, d in plan.drafts.items() if d.before is not None}
        if not planned.after:
            return
        await entities.write(
            self.connection,
            Write(
                interaction=self.interaction,
                at=self.now,
                entities=[e for e in planned.after.values() if isinstance(e, Entity)],
                changes=changes_between(before, planned.after, plan.model),
                dropped_documents=planned.dropped_documents,
            ),
        )


def _constraints_differ(group: GroupType, after: GroupType) -> bool:
    return group.constraints != after.constraints


def _differs(
    group: GroupType, kind: ResourceType, group_after: GroupType, kind_after: ResourceType
) -> bool:
    return _constraints_differ(group, group_after) or replace(kind, about={}) != replace(
        kind_after, about={}
    )
