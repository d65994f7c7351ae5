"""Decides interactions: reads the content that the rules need, plans, checks, and seals."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime

from catalog.load.longwork import aside
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.interaction import Interaction
from catalog.model.record import record
from catalog.writing.checks import run_checks
from catalog.writing.content import CatalogContent
from catalog.writing.documentupdate import compared_documents
from catalog.writing.drafts import Drafts
from catalog.writing.formatcheck import DocumentChecker
from catalog.writing.outcome import Outcome, created_origins, outcome_of
from catalog.writing.plan import Plan


@record
class Decider:
    """The state of a catalog that interactions are decided on.

    Args:
        content: of the catalog.
        configuration: in force once the interaction is written; it was read with this one.
        authority: the catalog's, which will own all that is new.
        checker: knows the formats of documents.
        is_exclusive: nobody else can write anything meanwhile.
        is_referred: there may be cross references to touched resources.
        has_lived: new entities may have lived before.
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
            before: the registry, and every group, resource and version that is touched, except
                what is below groups to be deleted.
            now: the interaction's time.

        Raises:
            XRegistryError: it is refused, with every violation found.
            MustBeginAgain: it needs the lock on the whole catalog.
        """
        stored = {**before, **await self._below(interaction)}
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
        created = await aside(entities, created_origins, drafts) if self.has_lived else []
        return await aside(
            entities,
            outcome_of,
            drafts,
            uuid.uuid4().hex,
            interaction.caller.author,
            tombstones=await self.content.load_tombstones(created) if created else {},
            left_alone=plan.left_alone,
        )

    async def _below(self, interaction: Interaction) -> dict[str, Entity]:
        """Everything below the groups to be deleted; resources were read with their versions."""
        groups = [str(delete.xid) for delete in interaction.deletes if delete.xid.kind == "group"]
        rows = await self.content.load_subtrees(groups) if groups else []
        return {row.xid: row for row in rows}

    async def _referred(
        self, interaction: Interaction, before: Mapping[str, Entity]
    ) -> dict[str, Entity]:
        """The targets of written cross references.

        Of their versions, only the default ones and those to be deleted are read.
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
        """The stored documents that may equal those of an interaction in another layout."""
        if not interaction.writes_only_changes:
            return {}
        xids = compared_documents(interaction.resources, before, self.configuration.model)
        return await self.content.load_documents(xids) if xids else {}

    async def _deleted_versions(
        self, interaction: Interaction, before: Mapping[str, Entity]
    ) -> dict[str, list[range]]:
        """The numbers of deleted versions, of resources that may get a version without an id."""
        resources = [
            str(upsert.xid)
            for upsert in interaction.resources
            if (stored := before.get(str(upsert.xid))) is not None
            and ("xref" in stored.attributes or any(not each.vid for each in upsert.versions))
        ]
        if not resources:
            return {}
        return await self.content.numbers_of_deleted_versions(self.authority, resources)
