"""Plans interactions on what a catalog holds: every step and every check, but no writing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from catalog.model.configuration import Configuration
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.interaction import Interaction
from catalog.writing.checks import Checks
from catalog.writing.content import CatalogContent
from catalog.writing.equaldocuments import compared_documents
from catalog.writing.formatcheck import DocumentChecker
from catalog.writing.plan import Plan, Planned
from catalog.writing.steps import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What an interaction is going to do, since nothing speaks against it.

    `before` is what it touches, as it is, and `referred` what cross references among that
    show. `tombstones` are those of what lives again; `overlooked` are the xids of what was
    left alone since it is read-only.
    """

    before: Mapping[str, Entity]
    referred: Mapping[str, Entity]
    planned: Planned
    tombstones: Mapping[Origin, Tombstone]
    overlooked: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """By which rules interactions are planned.

    Args:
        holdings: what is there.
        configuration: the one that an interaction was read with.
        authority: that of the catalog, which is to own what is new.
        checker: knows the formats of documents.
        is_exclusive: whether nobody else can change anything meanwhile.
        is_referred: whether there may be cross references to what is written.
        has_lived: whether anything that is new may have lived before.
    """

    holdings: CatalogContent
    configuration: Configuration
    authority: str
    checker: DocumentChecker
    is_exclusive: bool
    is_referred: bool
    has_lived: bool

    async def decide(
        self, interaction: Interaction, before: Mapping[str, Entity], now: datetime
    ) -> Decided:
        """What an interaction leads to.

        Args:
            before: the registry, and every group, resource and version that is touched, save
                what is below groups that will be deleted.
            now: its time.

        Raises:
            XRegistryError: it is refused, with every violation found.
            MustBeginAgain: it has to be alone, with the catalog locked as a whole.
        """
        held = {**before, **await self._below(interaction)}
        plan = Plan(
            self.configuration.model,
            held,
            authority=self.authority,
            now=now,
            referred=await self._referred(interaction, held),
            writes_only_changes=interaction.writes_only_changes,
            documents=await self._compared(interaction, held),
        )
        steps = Steps(plan, interaction, await self._numbers(interaction, held))
        steps.run()
        checks = Checks(self.holdings, plan, self.configuration.capabilities, self.checker)
        await checks.run(
            steps.resources, is_exclusive=self.is_exclusive, is_referred=self.is_referred
        )
        tombstones = await self._earlier_lives(plan)
        return Decided(
            before=held,
            referred=plan.referred,
            planned=plan.finish(tombstones),
            tombstones=tombstones,
            overlooked=frozenset(steps.overlooked),
        )

    async def _below(self, interaction: Interaction) -> dict[str, Entity]:
        """Everything below the groups that will be deleted (resources bring their versions)."""
        groups = [str(delete.xid) for delete in interaction.deletes if delete.xid.kind == "group"]
        rows = await self.holdings.load_subtrees(groups) if groups else []
        return {row.xid: row for row in rows}

    async def _referred(
        self, interaction: Interaction, before: Mapping[str, Entity]
    ) -> dict[str, Entity]:
        """What those resources show that are cross references and will be written.

        Of their versions these are the default ones, and those that are to be deleted.
        """
        written = {str(upsert.xid) for upsert in interaction.resources}
        doomed = [d.xid for d in interaction.deletes if d.xid.vid or d.epoch is not None]
        written |= {str(xid.resource) for xid in doomed if xid.rid}
        xrefs = {
            xid: xref
            for xid in written
            if (held := before.get(xid)) is not None and (xref := held.attributes.get("xref"))
        }
        if not xrefs:
            return {}
        targets = await self.holdings.load(set(xrefs.values()))
        defaults = ((xid, each.attributes.get("defaultversionid")) for xid, each in targets.items())
        named = ((xrefs.get(str(xid.resource)), xid.vid) for xid in doomed if xid.vid)
        versions = {f"{owner}/versions/{vid}" for owner, vid in (*defaults, *named) if owner}
        return targets | await self.holdings.load(versions)

    async def _compared(
        self, interaction: Interaction, before: Mapping[str, Entity]
    ) -> dict[str, bytes]:
        """The documents that an interaction may have in another layout only."""
        if not interaction.writes_only_changes:
            return {}
        xids = compared_documents(interaction.resources, before, self.configuration.model)
        return await self.holdings.load_documents(xids) if xids else {}

    async def _numbers(
        self, interaction: Interaction, before: Mapping[str, Entity]
    ) -> dict[str, list[range]]:
        """The numbers of deleted versions, of what may get a version with a new number."""
        resources = [
            str(upsert.xid)
            for upsert in interaction.resources
            if (held := before.get(str(upsert.xid))) is not None
            and ("xref" in held.attributes or any(not each.vid for each in upsert.versions))
        ]
        if not resources:
            return {}
        return await self.holdings.numbers_of_deleted_versions(self.authority, resources)

    async def _earlier_lives(self, plan: Plan) -> dict[Origin, Tombstone]:
        created = plan.created() if self.has_lived else []
        return await self.holdings.load_tombstones(created) if created else {}
