"""Takes the steps of an interaction on a plan, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from catalog.model.errors import BadFlag, NotFound, XRegistryError
from catalog.model.interaction import Delete, Interaction
from catalog.model.xid import Xid
from catalog.writing.plan import Plan
from catalog.writing.repeatedxrefs import without_repeated
from catalog.writing.resourceplan import ResourcePlan


class Steps:
    """What an interaction does, step by step.

    Args:
        plan: a fresh one.
        numbers: by resource, those that were ids of deleted versions.

    After `run`, `resources` are those that were written, or that lost versions;
    `overlooked` are the xids of what was left alone since it is read-only.
    """

    def __init__(
        self, plan: Plan, interaction: Interaction, numbers: Mapping[str, Sequence[range]]
    ) -> None:
        self.plan = plan
        self.interaction = interaction
        self.numbers = numbers
        self.resources: list[ResourcePlan] = []
        self._by_xid: dict[Xid, ResourcePlan] = {}
        self.overlooked: set[str] = set()

    def run(self) -> None:
        """Take every step; what is wrong with each becomes a violation of the plan."""
        self.plan.violations += self.interaction.violations
        for step in self._steps():
            try:
                step()
            except XRegistryError as violation:
                self.plan.violations.append(violation)

    def _steps(self) -> Iterator[Callable[[], object]]:
        interaction = self.interaction
        if interaction.registry is not None:
            yield partial(self.plan.upsert_registry, interaction.registry)
        for group in interaction.groups:
            if group.body is None or not self._overlooks(group.xid):
                yield partial(self.plan.upsert_group, group)
        for upsert in without_repeated(interaction.resources, self.plan.model):
            if not self._overlooks(upsert.xid):
                yield partial(self._resource(upsert.xid).upsert, upsert)
        versions: dict[Xid, list[Delete]] = {}
        for delete in interaction.deletes:
            if self._overlooks(delete.xid):
                continue
            if delete.xid.vid:
                versions.setdefault(delete.xid.resource, []).append(delete)
            else:
                yield partial(self.plan.delete, delete)
        for resource, deletes in versions.items():
            yield partial(self._delete_versions, resource, deletes)

    def _resource(self, xid: Xid) -> ResourcePlan:
        numbers = self.numbers.get(str(xid), ())
        resource = ResourcePlan(self.plan, xid, numbers, self.interaction.default)
        self.resources.append(resource)
        self._by_xid[xid] = resource
        return resource

    def _delete_versions(self, resource: Xid, deletes: list[Delete]) -> None:
        if self.plan.live(resource) is not None:
            written = self._by_xid.get(resource)
            (written or self._resource(resource)).delete_versions(deletes)
        elif any(delete.must_exist for delete in deletes):
            raise NotFound(str(deletes[0].xid))

    def _overlooks(self, xid: Xid) -> bool:
        """Whether to leave a read-only entity alone (core/spec.md, "Ignore Flag").

        Raises:
            BadFlag: nothing would be left of the request.
        """
        kept = xid.resource if xid.rid else xid
        if "readonly" not in self.interaction.ignore or not self.plan.is_replica(kept):
            return False
        at = self.interaction.at
        if (at.resource if at.rid else at) == kept:
            raise BadFlag(self.interaction.path, flag="ignore")
        self.overlooked.add(str(xid))
        return True
