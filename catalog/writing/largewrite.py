"""A large interaction: planned and checked at a snapshot, without locks, then written under locks.

No client waits during planning. If entities that the plan depends on have changed by the time the
locks are held, the plan is adapted in simple cases; otherwise nothing is written and the
interaction is planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from catalog.load.longwork import aside
from catalog.model.caller import EVERYTHING, Caller
from catalog.model.change import Change, changes_between
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.errors import XRegistryError
from catalog.model.interaction import Interaction
from catalog.model.schema import Model
from catalog.model.tracecontext import current_trace
from catalog.model.xid import depth, group_path, resource_of
from catalog.store.authoritykeys import OwnSigners
from catalog.store.connections import seen_by
from catalog.store.crossreferences import CrossReference
from catalog.store.database import Connection, Node
from catalog.store.locks import (
    MustBeginAgain,
    PlannedAt,
    Touched,
    load_touched,
    lock_planned,
    read_planned_at,
)
from catalog.store.logpositions import LogCursor
from catalog.store.writes import Rows, rows_of, write_rows
from catalog.writing.content import StoredContent
from catalog.writing.decider import Decider
from catalog.writing.documentchecks import KnownResults
from catalog.writing.outcome import Outcome
from catalog.writing.permission import check_interaction, seen_among
from catalog.writing.transaction import (
    CLOSED_TO_CLIENTS,
    Composed,
    Composer,
    Condition,
    touched_by,
)


def rebased(
    outcome: Outcome,
    interaction: Interaction,
    changed: AbstractSet[str],
    current: Mapping[str, Entity],
    model: Model,
) -> Outcome:
    """Adapt an outcome to the current state of entities that changed after the plan.

    Two kinds of changes can be followed: changes of entities within a group that the interaction
    deletes, and changes of epoch and time of a parent that the interaction updates only because
    children are created or deleted.

    Args:
        changed: the xids of the registry, groups and resources that changed, including
            resources with changed versions.
        current: the changed entities with the versions of the resources, as far as they exist.

    Raises:
        MustBeginAgain: the interaction has to be planned again.
    """
    doomed = {
        str(delete.xid)
        for delete in interaction.deletes
        if delete.xid.kind == "group" and delete.epoch is None
    }
    parents = {xid for xid in changed if group_path(xid) not in doomed}
    stale = changed - parents
    for xid in parents:
        _check_parent(outcome, interaction, xid, current.get(xid))
    entities = {
        xid: _parent(after, current[xid])
        for xid in parents
        if isinstance(after := outcome.after.get(xid), Entity)
    }
    # A group to be deleted is gone already, so the planned tombstones would be wrong.
    if any(xid in doomed and xid not in current for xid in stale):
        raise MustBeginAgain
    found = {xid: entity for xid, entity in current.items() if resource_of(xid) in stale}
    if any(entity.authority != outcome.before["/"].authority for entity in found.values()):
        raise MustBeginAgain
    tombstones = {xid: _tombstone(entity, outcome) for xid, entity in found.items()}
    kept = {xid: each for xid, each in outcome.after.items() if resource_of(xid) not in stale}
    before = {xid: each for xid, each in outcome.before.items() if resource_of(xid) not in stale}
    return replace(
        outcome,
        entities=[entities.get(entity.xid, entity) for entity in outcome.entities],
        tombstones=[
            *(each for each in outcome.tombstones if each.xid in kept),
            *tombstones.values(),
        ],
        changes=sorted(
            [
                *(
                    replace(c, epoch=entities[c.xid].epoch, digest=entities[c.xid].digest)
                    if c.xid in entities
                    else c
                    for c in outcome.changes
                    if c.xid in kept
                ),
                *_deletions(found, tombstones, model),
            ],
            key=lambda change: (depth(change.xid), change.xid),
        ),
        before={**before, **found, **{xid: current[xid] for xid in parents}},
        after={**kept, **entities, **tombstones},
    )


def _check_parent(outcome: Outcome, interaction: Interaction, xid: str, now: Entity | None) -> None:
    before = outcome.before.get(xid)
    after = outcome.after.get(xid, before)
    is_named = (xid == "/" and interaction.registry is not None) or any(
        str(group.xid) == xid and group.body is not None for group in interaction.groups
    )
    if (
        is_named
        or now is None
        or before is None
        or now.kind not in ("registry", "group")
        or not isinstance(after, Entity)
        or now.authority != before.authority
        or not now.attributes == before.attributes == after.attributes
    ):
        raise MustBeginAgain


def _parent(after: Entity, now: Entity) -> Entity:
    modifiedat = max(after.modifiedat, now.modifiedat)
    return replace(after, epoch=now.epoch + 1, modifiedat=modifiedat).sealed()


def _tombstone(entity: Entity, outcome: Outcome) -> Tombstone:
    return Tombstone(
        xid=entity.xid,
        kind=entity.kind,
        authority=entity.authority,
        origin=entity.origin,
        epoch=entity.epoch + 1,
        deletedat=outcome.at,
    )


def _deletions(
    found: Mapping[str, Entity], tombstones: Mapping[str, Tombstone], model: Model
) -> Iterable[Change]:
    """The changes of the deleted entities, without changes of the parents."""
    return (c for c in changes_between(found, tombstones, model) if c.xid in tombstones)


# A database has room for some thousand locks. Beyond the limit, the whole catalog is locked.
_MOST_GROUPS = 1000


@dataclass(slots=True)
class _NotedContent:
    """The content of a database, with a note of the entities that were read.

    `read` has the xids of groups and resources, `read_whole` the xids of groups whose whole content
    was read.
    """

    stored: StoredContent
    read: set[str] = field(default_factory=set)
    read_whole: set[str] = field(default_factory=set)

    def note(self, xids: Iterable[str]) -> None:
        for xid in xids:
            self.read |= {group_path(xid), resource_of(xid)}

    async def load(self, xids: Iterable[str]) -> dict[str, Entity]:
        wanted = list(xids)
        self.note(wanted)
        return await self.stored.load(wanted)

    async def load_subtrees(self, xids: Iterable[str]) -> list[Entity]:
        roots = list(xids)
        self.note(roots)
        self.read_whole |= {xid for xid in roots if xid == group_path(xid)}
        return await self.stored.load_subtrees(roots)

    async def load_documents(self, xids: Iterable[str]) -> dict[str, bytes]:
        wanted = list(xids)
        self.note(wanted)
        return await self.stored.load_documents(wanted)

    async def load_sources(self, targets: Iterable[str]) -> list[CrossReference]:
        sources = await self.stored.load_sources(targets)
        self.note(source.xid for source in sources)
        return sources

    async def load_tombstones(self, origins: Iterable[Origin]) -> dict[Origin, Tombstone]:
        return await self.stored.load_tombstones(origins)

    async def numbers_of_deleted_versions(
        self, authority: str, resources: Sequence[str]
    ) -> dict[str, list[range]]:
        return await self.stored.numbers_of_deleted_versions(authority, resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """The write of a large interaction, as planned at a snapshot.

    The plan holds while the entities that the plan depends on do not change.

    `read`, `read_whole` and `absent` are as for `lock_planned`.
    """

    interaction: Interaction
    outcome: Outcome
    rows: Rows
    locks: Touched
    snapshot: PlannedAt
    read: frozenset[str]
    read_whole: frozenset[str]
    absent: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeWrite:
    """The two transactions of one interaction; the first transaction only reads.

    Args:
        caller: the caller whose view of the catalog the composer reads.
        configuration: the configuration with which the interaction was read.
        signers: the signers with the keys of the node's authority.
        condition: may refuse the interaction; called in both transactions.
    """

    node: Node
    caller: Caller
    configuration: Configuration
    signers: OwnSigners
    composer: Composer
    condition: Condition | None = None

    async def plan(self, connection: Connection, results: KnownResults) -> PlannedWrite:
        """Compose, decide and check the interaction at the connection's snapshot.

        Args:
            results: the known results of checks of documents.

        Raises:
            ConfigurationChanged, CatalogRecovering, HandoverUnderWay: as `lock_and_load`.
            ChecksDue: documents have to be checked first.
            XRegistryError: the interaction is refused.
        """
        revision = self.configuration.revision
        known = replace(self._locks(), revision=revision, refused_at=CLOSED_TO_CLIENTS)
        snapshot = await read_planned_at(connection, known)
        async with seen_by(connection, self.caller):
            interaction = await self.composer.compose(connection)
        await check_interaction(connection, interaction)
        touched = known | await aside(interaction.size, touched_by, interaction, revision)
        # The union of locks does not carry `refused_at`.
        touched = replace(touched, refused_at=CLOSED_TO_CLIENTS)
        await self._check_condition(connection, interaction)
        stored = await load_touched(connection, touched)
        absent = touched.groups - stored.keys()
        visible = interaction.caller.sees
        if visible is not EVERYTHING:
            # A cross reference to an entity hidden from the client must look like a reference to
            # an entity that does not exist.
            stored = await seen_among(connection, visible, stored)
        content = _NotedContent(StoredContent(connection, interaction.caller))
        outcome = await self._decide(interaction, content, stored, results)
        signer = await self.signers.get(connection, snapshot.signing_key)
        if "/" in outcome.after:
            # The registry's epoch rises from the stored epoch, so the plan depends on the registry.
            content.read.add("/")
        return PlannedWrite(
            interaction=interaction,
            outcome=outcome,
            rows=await aside(_size(outcome), rows_of, [outcome], signer),
            locks=_locks_for(touched, content.read, outcome, absent),
            snapshot=snapshot,
            read=touched.groups | touched.resources | content.read,
            read_whole=frozenset(content.read_whole),
            absent=absent,
        )

    def _locks(self) -> Touched:
        composer = self.composer
        return composer.touched if isinstance(composer, Composed) else composer.locks()

    async def _decide(
        self,
        interaction: Interaction,
        content: _NotedContent,
        stored: dict[str, Entity],
        results: KnownResults,
    ) -> Outcome:
        decider = Decider(
            content=content,
            configuration=self.configuration,
            authority=self.node.authority,
            checker=results,
            # Holds without a lock on the whole catalog: every read is noted, and `write` begins
            # again if the entities have changed.
            is_exclusive=True,
            is_referred=True,
            has_lived=True,
        )
        try:
            outcome = await decider.decide(interaction, stored, datetime.now(UTC))
        except XRegistryError:
            # A document without a known result counted as good, so the violations may be
            # incomplete; the checks come first.
            results.raise_due()
            raise
        results.raise_due()
        trace = current_trace.get()
        return outcome if trace is None else replace(outcome, trace=trace)

    async def write(self, connection: Connection, plan: PlannedWrite) -> Outcome:
        """Lock the groups of the plan, and write; the caller commits.

        Raises:
            MustBeginAgain: the plan cannot be adapted to changes since the snapshot.
            ConfigurationChanged, CatalogRecovering, HandoverUnderWay: as `lock_and_load`.
            XRegistryError: the condition refuses the interaction, or the client may no longer
                write the entities.
        """
        changed = await lock_planned(
            connection,
            plan.locks,
            plan.snapshot,
            read=plan.read,
            read_whole=plan.read_whole,
            absent=plan.absent,
        )
        outcome, rows = plan.outcome, plan.rows
        if changed:
            outcome = await self._rebase(plan, changed)
            signer = await self.signers.get(connection, plan.snapshot.signing_key)
            rows = await aside(_size(outcome), rows_of, [outcome], signer)
        # Checked again under locks, since rights may have been revoked after the plan.
        await check_interaction(connection, plan.interaction)
        await self._check_condition(connection, plan.interaction)
        async with seen_by(connection, self.caller):
            await self.composer.confirm(connection)
        position = await write_rows(connection, rows)
        outcome = replace(outcome, cursor=LogCursor.at(self.node.instance, position))
        async with seen_by(connection, self.caller):
            await self.composer.conclude(connection, outcome)
        return outcome

    async def _rebase(self, plan: PlannedWrite, changed: Mapping[str, Entity | None]) -> Outcome:
        current = {xid: entity for xid, entity in changed.items() if entity is not None}
        owners = {resource_of(xid) for xid in changed}
        model = self.configuration.model
        count = _size(plan.outcome)
        return await aside(count, rebased, plan.outcome, plan.interaction, owners, current, model)

    async def _check_condition(self, connection: Connection, interaction: Interaction) -> None:
        if self.condition is not None:
            async with seen_by(connection, interaction.caller):
                await self.condition(connection)


def _locks_for(
    touched: Touched, read: Iterable[str], outcome: Outcome, absent: frozenset[str]
) -> Touched:
    """The locks of the written groups and of the groups that were read."""
    groups = (touched.groups | {group_path(xid) for xid in read}) - {"/"}
    return replace(
        touched,
        groups=groups,
        resources=frozenset(),
        registry_exclusive="/" in outcome.after,
        catalog_exclusive=len(groups - absent) > _MOST_GROUPS,
    )


def _size(outcome: Outcome) -> int:
    return max(len(outcome.entities), len(outcome.tombstones))
