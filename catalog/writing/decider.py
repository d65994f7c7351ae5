"""Decides interactions: reads the content that the rules need, plans, checks, and seals."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from catalog.load.workthread import aside, check_wanted
from catalog.model.configuration import Configuration
from catalog.model.confluentattribute import CONFLUENT, kept_names
from catalog.model.entity import Entity, Origin
from catalog.model.errors import BadFlag, NotFound
from catalog.model.interaction import Delete, GroupUpsert, Interaction, RegistryUpsert
from catalog.model.record import record
from catalog.model.tracecontext import current_trace
from catalog.model.xid import Xid
from catalog.writing.checks import run_checks
from catalog.writing.content import CatalogContent
from catalog.writing.crossreferences import without_repeated
from catalog.writing.documentupdate import compared_documents
from catalog.writing.drafts import Drafts
from catalog.writing.outcome import Outcome, outcome_of
from catalog.writing.resourceplan import ResourcePlan
from catalog.writing.validation import DocumentChecker


@record
class Decider:
    """The state of a catalog on which interactions are decided.

    Args:
        configuration: the configuration in force once the interaction is written, with which the
            interaction was read.
        authority: the catalog's authority, which will own the new entities.
        is_exclusive: the entities that the decision reads cannot change before the write.
        is_referred: cross references to touched resources may exist.
        has_lived: new entities may have existed before and left tombstones.
    """

    content: CatalogContent
    configuration: Configuration
    authority: str
    checker: DocumentChecker
    is_exclusive: bool
    is_referred: bool
    has_lived: bool

    async def decide(
        self, interaction: Interaction, before: Mapping[str, Entity], now: datetime
    ) -> Outcome:
        """Find the outcome of an interaction.

        Args:
            before: the registry, and every touched group, resource and version, except the
                entities below groups to be deleted.

        Raises:
            XRegistryError: the interaction is refused, with every violation found.
            MustBeginAgain: the interaction needs the lock on the whole catalog.
        """
        # Resources to be deleted were read with their versions already.
        groups = [str(delete.xid) for delete in interaction.deletes if delete.xid.kind == "group"]
        below = await self.content.load_subtrees(groups) if groups else []
        stored = {**before, **{row.xid: row for row in below}}
        entities = max(interaction.size, len(stored))
        drafts = await aside(
            entities,
            Drafts,
            self.configuration.model,
            stored,
            authority=self.authority,
            now=now,
            referred=await self._referred(interaction, stored),
            writes_only_changes=interaction.writes_only_changes,
            documents=await self._compared(interaction, stored),
        )
        plan = Plan(drafts, interaction, await self._deleted_versions(interaction, stored))
        await aside(entities, plan.run)
        await run_checks(
            self.content,
            drafts,
            plan.resources,
            self.configuration.capabilities,
            self.checker,
            is_exclusive=self.is_exclusive,
            is_referred=self.is_referred,
        )
        # Read after the checks, so that refused interactions do not pay for the query.
        created = [
            Origin(self.authority, xid)
            for xid, draft in drafts.by_xid.items()
            if self.has_lived and draft.is_new and not draft.is_deleted
        ]
        return await aside(
            entities,
            outcome_of,
            drafts,
            uuid.uuid4().hex,
            interaction.caller.author,
            trace=interaction.trace or current_trace.get(),
            tombstones=await self.content.load_tombstones(created) if created else {},
            left_alone=plan.left_alone,
        )

    async def _referred(
        self, interaction: Interaction, before: Mapping[str, Entity]
    ) -> dict[str, Entity]:
        """The targets of written cross references.

        Of the targets' versions, only default versions and versions to be deleted are read.
        """
        if not any("xref" in entity.attributes for entity in before.values()):
            return {}
        written = {str(upsert.xid) for upsert in interaction.resources}
        doomed = [d.xid for d in interaction.deletes if d.xid.vid or d.epoch is not None]
        written |= {str(xid.resource) for xid in doomed if xid.rid}
        xrefs = {
            xid: xref
            for xid in written
            if (stored := before.get(xid)) is not None and (xref := stored.attributes.get("xref"))
        }
        if not xrefs:
            return {}
        targets = await self.content.load(set(xrefs.values()))
        defaults = ((xid, each.attributes.get("defaultversionid")) for xid, each in targets.items())
        named = ((xrefs.get(str(xid.resource)), xid.vid) for xid in doomed if xid.vid)
        versions = {f"{owner}/versions/{vid}" for owner, vid in (*defaults, *named) if owner}
        return targets | await self.content.load(versions)

    async def _compared(
        self, interaction: Interaction, before: Mapping[str, Entity]
    ) -> dict[str, bytes]:
        """The stored documents that may equal documents of an interaction in a different layout."""
        xids = compared_documents(
            interaction.resources,
            before,
            self.configuration.model,
            with_ids_only=not interaction.writes_only_changes,
        )
        return await self.content.load_documents(xids) if xids else {}

    async def _deleted_versions(
        self, interaction: Interaction, before: Mapping[str, Entity]
    ) -> dict[str, list[range]]:
        """The numbers of deleted versions, for resources that may get a version without an id."""
        resources = [
            str(upsert.xid)
            for upsert in interaction.resources
            if (stored := before.get(str(upsert.xid))) is not None
            and ("xref" in stored.attributes or any(not each.vid for each in upsert.versions))
        ]
        if not resources:
            return {}
        return await self.content.numbers_of_deleted_versions(self.authority, resources)


@dataclass(slots=True)
class Plan:
    """The steps of one interaction, on drafts of the entities that it touches.

    After `run`, `resources` are the resources that were written or lost versions, and
    `left_alone` are the xids of read-only entities that were not written. `deleted_versions` has
    the numbers that were ids of deleted versions, by resource.
    """

    drafts: Drafts
    interaction: Interaction
    deleted_versions: Mapping[str, Sequence[range]]
    resources: list[ResourcePlan] = field(init=False, default_factory=list)
    left_alone: set[str] = field(init=False, default_factory=set)
    _by_xid: dict[Xid, ResourcePlan] = field(init=False, default_factory=dict)

    def run(self) -> None:
        """Take every step; errors become violations of the drafts."""
        self.drafts.violations += self.interaction.violations
        for step in self._steps():
            check_wanted()
            with self.drafts.violations.collecting():
                step()

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
        # Versions of a resource are deleted together, since the last one takes the resource along.
        for resource, deletes in versions.items():
            yield partial(self._delete_versions, resource, deletes)

    def _leaves_alone(self, xid: Xid) -> bool:
        """Whether to leave a read-only entity alone (core/spec.md, "Ignore Flag").

        A request for the read-only entity itself is refused, since no write would be left.
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
            drafts.touch(draft)
            # Violations of a new model are found by the revalidation of every entity.
            drafts.complete(draft, model.own_attributes, model.managed)
            return
        drafts.check_id(draft.xid, "registry", draft.attributes["registryid"], upsert.body)
        with drafts.updating(draft, upsert.body):
            drafts.update(
                draft, upsert.body, model.own_attributes, patch=upsert.patch, managed=model.managed
            )

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
                draft,
                body,
                kind.own_attributes,
                patch=upsert.patch,
                managed=kind.managed | kept_names(xid),
            )
            if upsert.confluent is not None:
                draft.attributes[CONFLUENT] = dict(upsert.confluent)
        drafts.check_decided(draft, kind.narrowed)
        drafts.forget_rules(xid)
        # Raises the error of invalid constraints in the step of the group, even if no resource of
        # the group is written.
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
