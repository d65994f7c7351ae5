"""The write of one interaction in transactions of its own, locked first or planned first.

A large interaction is planned and checked at a snapshot, without locks, and then written under
locks, so that no client waits during planning. If entities that the plan depends on have changed by
the time the locks are held, the plan is adapted if only the epochs of parents rose; otherwise
nothing is written and the interaction is planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from catalog.load.workthread import aside
from catalog.model.caller import EVERYTHING
from catalog.model.concorderrors import HandoverUnderWay
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity
from catalog.model.errors import XRegistryError
from catalog.model.interaction import Interaction
from catalog.model.xid import group_path
from catalog.store.authoritykeys import OwnSigners
from catalog.store.changes import LogCursor
from catalog.store.connections import seen_by
from catalog.store.database import Connection, Database
from catalog.store.locks import (
    MustBeginAgain,
    PlannedAt,
    Touched,
    load_touched,
    lock_planned,
    read_planned_at,
)
from catalog.store.writes import Rows, rows_of, write_rows
from catalog.writing.content import StoredContent
from catalog.writing.decider import Decider
from catalog.writing.documentchecks import KnownResults, RequestChecks
from catalog.writing.outcome import Outcome
from catalog.writing.writescope import check_interaction, check_writes, seen_among
from catalog.writing.writetransaction import (
    CLOSED_TO_CLIENTS,
    Composer,
    Condition,
    Reconfiguration,
    WriteTransaction,
    touched_by,
)

# Attempts under locks. The last attempt locks the whole catalog.
_MOST_ATTEMPTS = 3
# Plans without locks. If entities keep changing while a large interaction is planned, the
# interaction is decided under locks instead.
_MOST_PLANS = 3
# A database has room for some thousand locks. Beyond the limit, the whole catalog is locked.
_MOST_GROUPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """The write of a large interaction, as planned at a snapshot.

    The plan holds while the entities that the plan depends on do not change: `read`, `read_whole`
    and `absent` are as for `lock_planned`.
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
class SeparateWrite:
    """The attempts to apply one interaction, each in transactions of its own.

    Documents are checked between transactions: if documents are still to be checked, the
    transaction is rolled back, and run again once the results are known.
    """

    database: Database
    signers: OwnSigners
    checks: RequestChecks
    configuration: Configuration
    composer: Composer
    condition: Condition | None
    reconfiguration: Reconfiguration | None = None
    is_dry: bool = False

    async def apply(self) -> Outcome:
        """Apply the interaction, or with `is_dry` only decide and check it.

        Raises:
            XRegistryError, ConfigurationChanged: as `Writer.apply`.
        """
        is_planned = self.reconfiguration is None and (self.is_dry or self.composer.is_large)
        # The attempts below 0 are plans; a write that was planned in vain is locked like any other.
        for attempt in range(-_MOST_PLANS if is_planned else 0, _MOST_ATTEMPTS):
            is_last = attempt == _MOST_ATTEMPTS - 1
            lock_and_write = partial(self._lock_and_write, is_last=is_last)
            try:
                result = await self.checks.complete(
                    self._plan_and_write if attempt < 0 else lock_and_write
                )
            except MustBeginAgain:
                continue
            except HandoverUnderWay as error:
                await self._keep_unseen(error.arguments["group"])
                raise
            if not self.is_dry:
                self.database.signal.set(result.changes)
            return result
        raise AssertionError("nothing changes under a lock on the whole catalog")

    async def _keep_unseen(self, group: str) -> None:
        """Refuse a client without the right to write to a group that is being handed over.

        The lock fails before the rights are checked, and its error would reveal the handover.
        """
        if (scope := self.database.caller.writes) is not EVERYTHING:
            async with self.database.transaction() as connection:
                await check_writes(connection, scope, [group])

    async def _plan_and_write(self, results: KnownResults) -> Outcome:
        async with self.database.overview() as connection:
            plan = await self._plan(connection, results)
        if self.is_dry:
            return plan.outcome
        async with self.database.transaction(is_noted=False) as connection:
            return await self._write_planned(connection, plan)

    async def _lock_and_write(self, results: KnownResults, *, is_last: bool) -> Outcome:
        touched = replace(self.composer.locks(), revision=self.configuration.revision)
        if is_last:
            touched = replace(touched, catalog_exclusive=True)
        async with self.database.transaction(is_noted=False) as connection:
            transaction = WriteTransaction(
                connection=connection,
                database=self.database,
                configuration=self.configuration,
                results=results,
                signers=self.signers,
                reconfiguration=self.reconfiguration,
            )
            [result] = await transaction.run([self.composer], touched, condition=self.condition)
            if not isinstance(result, Outcome):
                raise result
            return result

    async def _plan(self, connection: Connection, results: KnownResults) -> PlannedWrite:
        """Compose, decide and check the interaction at the connection's snapshot.

        Raises:
            ConfigurationChanged, CatalogRecovering, HandoverUnderWay: as `lock_and_load`.
            ChecksDue: documents have to be checked first.
            XRegistryError: the interaction is refused.
        """
        revision = self.configuration.revision
        known = replace(self.composer.locks(), revision=revision, refused_at=CLOSED_TO_CLIENTS)
        snapshot = await read_planned_at(connection, known)
        async with seen_by(connection, self.database.caller):
            interaction = await self.composer.compose(connection)
        await check_interaction(connection, interaction)
        touched = known | await aside(interaction.size, touched_by, interaction, revision)
        # The union of locks does not carry `refused_at`.
        touched = replace(touched, refused_at=CLOSED_TO_CLIENTS)
        await self._check_condition(connection, interaction)
        stored = await load_touched(connection, touched)
        # Before hidden entities are left out: a hidden group exists, and has to be locked.
        absent = touched.groups - stored.keys()
        stored = await seen_among(connection, interaction.caller.sees, stored)
        content = StoredContent(connection, interaction.caller)
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

    async def _decide(
        self,
        interaction: Interaction,
        content: StoredContent,
        stored: dict[str, Entity],
        results: KnownResults,
    ) -> Outcome:
        decider = Decider(
            content=content,
            configuration=self.configuration,
            authority=self.database.node.authority,
            checker=results,
            # Holds without a lock on the whole catalog: every read is noted, and `_write_planned`
            # begins again if the entities have changed.
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
        return outcome

    async def _write_planned(self, connection: Connection, plan: PlannedWrite) -> Outcome:
        """Lock the groups of the plan, and write; the caller commits.

        Raises:
            MustBeginAgain: the plan cannot be adapted to changes since the snapshot.
            ConfigurationChanged, CatalogRecovering, HandoverUnderWay: as `lock_and_load`.
            XRegistryError: the condition refuses the interaction, or the client may no longer
                write the entities.
        """
        # The locks come first: a change that was committed before is found, and none can follow.
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
            current = {xid: entity for xid, entity in changed.items() if entity is not None}
            if any(xid not in current or xid != group_path(xid) for xid in changed):
                raise MustBeginAgain
            outcome = await aside(_size(outcome), rebased, outcome, plan.interaction, current)
            signer = await self.signers.get(connection, plan.snapshot.signing_key)
            rows = await aside(_size(outcome), rows_of, [outcome], signer)
        # Checked again under locks, since rights may have been revoked after the plan.
        await check_interaction(connection, plan.interaction)
        await self._check_condition(connection, plan.interaction)
        async with seen_by(connection, self.database.caller):
            await self.composer.confirm(connection)
        position = await write_rows(connection, rows)
        outcome = replace(outcome, cursor=LogCursor.at(self.database.node.instance, position))
        async with seen_by(connection, self.database.caller):
            await self.composer.conclude(connection, outcome)
        return outcome

    async def _check_condition(self, connection: Connection, interaction: Interaction) -> None:
        if self.condition is not None:
            async with seen_by(connection, interaction.caller):
                await self.condition(connection)


def rebased(outcome: Outcome, interaction: Interaction, current: Mapping[str, Entity]) -> Outcome:
    """Adapt an outcome to the current state of parents that changed after the plan.

    Only new epochs and times can be followed, of parents that the interaction updates only because
    children are created or deleted: otherwise every other writer of a group, or creator of a group,
    would spoil the plan.

    Args:
        current: the registry and the groups that changed, by xid.

    Raises:
        MustBeginAgain: the interaction has to be planned again.
    """
    written: dict[str, Entity] = {}
    for xid, now in current.items():
        before = outcome.before.get(xid)
        after = outcome.after.get(xid, before)
        is_named = (xid == "/" and interaction.registry is not None) or any(
            str(group.xid) == xid and group.body is not None for group in interaction.groups
        )
        if (
            is_named
            or before is None
            or not isinstance(after, Entity)
            or now.authority != before.authority
            or not now.attributes == before.attributes == after.attributes
        ):
            raise MustBeginAgain
        if xid in outcome.after:
            modifiedat = max(after.modifiedat, now.modifiedat)
            written[xid] = replace(after, epoch=now.epoch + 1, modifiedat=modifiedat).sealed()
    return replace(
        outcome,
        entities=[written.get(entity.xid, entity) for entity in outcome.entities],
        changes=[
            replace(change, epoch=written[change.xid].epoch, digest=written[change.xid].digest)
            if change.xid in written
            else change
            for change in outcome.changes
        ],
        before={**outcome.before, **current},
        after={**outcome.after, **written},
    )


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
