"""Applies an interaction to drafts, step by step: pure, no I/O.

The steps for resources are those of `catalog.writing.resourceplan`; checks that look beyond
single entities, or into documents, come after all steps (`catalog.writing.checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from catalog.load.longwork import check_wanted
from catalog.model.attributes import check_attributes
from catalog.model.errors import BadFlag, NotFound, XRegistryError
from catalog.model.interaction import Delete, GroupUpsert, Interaction, RegistryUpsert
from catalog.model.xid import Xid
from catalog.writing.crossreferences import without_repeated
from catalog.writing.drafts import Draft, Drafts
from catalog.writing.resourceplan import ResourcePlan


class Plan:
    """The steps of one interaction.

    After `run`, `resources` are those that were written or lost versions, and `left_alone` are
    the xids of read-only entities that were not written.

    Args:
        drafts: of all that the interaction touches, as stored.
        deleted_versions: the numbers that were ids of deleted versions, by resource.
    """

    def __init__(
        self,
        drafts: Drafts,
        interaction: Interaction,
        deleted_versions: Mapping[str, Sequence[range]],
    ) -> None:
        self.drafts = drafts
        self.interaction = interaction
        self.deleted_versions = deleted_versions
        self.resources: list[ResourcePlan] = []
        self.left_alone: set[str] = set()
        self._by_xid: dict[Xid, ResourcePlan] = {}

    def run(self) -> None:
        """Take every step; errors become violations of the drafts."""
        self.drafts.violations += self.interaction.violations
        for step in self._steps():
            check_wanted()
            try:
                step()
            except XRegistryError as violation:
                self.drafts.violations.append(violation)

    def _steps(self) -> Iterator[Callable[[], object]]:
        interaction = self.interaction
        if interaction.registry is not None:
            yield partial(self._upsert_registry, interaction.registry)
        for group in interaction.groups:
            if group.body is None or not self._leaves_alone(group.xid):
                yield partial(self._upsert_group, group)
        for upsert in without_repeated(interaction.resources, self.drafts.model):
            if not self._leaves_alone(upsert.xid):
                yield partial(self._resource(upsert.xid).upsert, upsert)
        versions: dict[Xid, list[Delete]] = {}
        for delete in interaction.deletes:
            if self._leaves_alone(delete.xid):
                continue
            if delete.xid.vid:
                versions.setdefault(delete.xid.resource, []).append(delete)
            else:
                yield partial(self.drafts.delete, delete)
        for resource, deletes in versions.items():
            yield partial(self._delete_versions, resource, deletes)

    def _leaves_alone(self, xid: Xid) -> bool:
        """Whether to leave a read-only entity alone (core/spec.md, "Ignore Flag").

        Raises:
            BadFlag: nothing would be left of the request.
        """
        if "readonly" not in self.interaction.ignore:
            return False
        kept = xid.resource if xid.rid else xid
        if not self.drafts.is_replica(kept):
            return False
        at = self.interaction.at
        if (at.resource if at.rid else at) == kept:
            raise BadFlag(self.interaction.path, flag="ignore")
        self.left_alone.add(str(xid))
        return True

    def _upsert_registry(self, upsert: RegistryUpsert) -> None:
        drafts = self.drafts
        draft, model = drafts.by_xid["/"], drafts.model
        if upsert.body is None:
            self._complete_registry(draft)
            return
        drafts.check_id(draft.xid, "registry", draft.attributes["registryid"], upsert.body)
        with drafts.updating(draft, upsert.body):
            drafts.update(
                draft, upsert.body, model.own_attributes, patch=upsert.patch, managed=model.managed
            )

    def _complete_registry(self, draft: Draft) -> None:
        """Add the default values of a new model; violations are found by the revalidation."""
        model = self.drafts.model
        self.drafts.touch(draft)
        own = {k: v for k, v in draft.attributes.items() if k in model.managed}
        given = {k: v for k, v in draft.attributes.items() if k not in own}
        checked, violations = check_attributes(
            given, model.own_attributes, subject="/", model=model
        )
        if not violations:
            draft.attributes = checked | own

    def _upsert_group(self, upsert: GroupUpsert) -> None:
        drafts, xid = self.drafts, upsert.xid
        kind = drafts.model.groups[xid.groups]
        draft = drafts.live(xid)
        if draft is not None and upsert.body is None:
            return
        if draft is None and upsert.must_exist:
            raise NotFound(str(xid))
        if draft is None:
            draft = drafts.create(xid)
        draft.least_epoch = max(draft.least_epoch, upsert.least_epoch)
        body = upsert.body or {}
        drafts.check_id(xid, kind.singular, xid.gid, body)
        with drafts.updating(draft, body):
            drafts.update(
                draft, body, kind.own_attributes, patch=upsert.patch, managed=kind.managed
            )
        drafts.check_decided(draft, kind.narrowed)
        drafts.forget_rules(xid)
        drafts.rules_of(xid)

    def _resource(self, xid: Xid) -> ResourcePlan:
        numbers = self.deleted_versions.get(str(xid), ())
        resource = ResourcePlan(self.drafts, xid, numbers, self.interaction.default)
        self.resources.append(resource)
        self._by_xid[xid] = resource
        return resource

    def _delete_versions(self, resource: Xid, deletes: list[Delete]) -> None:
        if self.drafts.live(resource) is not None:
            written = self._by_xid.get(resource)
            (written or self._resource(resource)).delete_versions(deletes)
        elif any(delete.must_exist for delete in deletes):
            raise NotFound(str(deletes[0].xid))
