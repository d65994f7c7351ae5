"""The one way in which a client's request changes the catalog: one interaction, one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from catalog.model.change import Change, changes_between
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid
from catalog.registry.checks import Checks
from catalog.registry.configure import Becoming, configure
from catalog.registry.plan import Plan, Planned
from catalog.registry.steps import Steps
from catalog.registry.validation import Checker
from catalog.registry.xref import target_in
from catalog.store import entities as store
from catalog.store.changes import Position
from catalog.store.database import Connection, Database
from catalog.store.entities import MustBeginAgain, Touched, Write

# Beyond so many locks it is cheaper, for everybody, to take the catalog whole.
_MOST_LOCKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an interaction did.

    `position` is where the change log shows it: a reader of the log that has come this
    far has seen everything of it. `overlooked` are read-only entities that it left alone.
    """

    interaction: str
    at: datetime
    position: Position
    before: Mapping[str, Entity]
    after: Mapping[str, Entity | Tombstone]
    changes: list[Change]
    overlooked: frozenset[str] = frozenset()

    def is_new(self, xid: Xid) -> bool:
        return str(xid) not in self.before and isinstance(self.after.get(str(xid)), Entity)


async def apply_interaction(
    database: Database,
    configuration: Configuration,
    interaction: Interaction,
    becoming: Becoming | None = None,
    *,
    checker: Checker,
) -> Outcome:
    """Apply a request whole, or not at all.

    Args:
        configuration: the one in force when the request was read.
        becoming: the configuration that the request asks for, which the interaction was read
            with.
        checker: knows the formats of documents.

    Raises:
        XRegistryError: the request is refused; it carries every violation found.
        ConfigurationChanged: nothing was written; the request is to be read again.
    """
    touched = replace(_touched_by(interaction), revision=configuration.revision)
    whole = replace(touched, catalog_exclusive=True)
    work = _Work(database, configuration, interaction, becoming, checker)
    for attempt in (touched if becoming is None else whole, whole):
        try:
            return await work.apply(attempt)
        except MustBeginAgain:
            continue
    raise AssertionError("nothing can change under a lock on the whole catalog")


class Composer(Protocol):
    """Asks for what depends on more of the catalog than it writes."""

    async def compose(self, connection: Connection) -> Interaction:
        """What to write; nobody else writes anything from now on until it is written."""
        ...

    async def conclude(self, connection: Connection, outcome: Outcome) -> None:
        """Take part in the transaction once everything is written, before it is committed."""
        ...


async def apply_composed(
    database: Database, configuration: Configuration, composer: Composer, *, checker: Checker
) -> Outcome:
    """Apply whole, or not at all, what `composer` finds to be asked for.

    The catalog is locked meanwhile, so this is for what cannot be decided in small parts.

    Raises:
        XRegistryError, ConfigurationChanged: as `apply_interaction`; and whatever `composer`
            raises. Nothing was written.
    """
    whole = Touched(catalog_exclusive=True, revision=configuration.revision)
    async with database.transaction() as connection:
        await store.lock_and_load(connection, whole)
        interaction = await composer.compose(connection)
        work = _Work(database, configuration, interaction, None, checker)
        touched = replace(_touched_by(interaction), catalog_exclusive=True)
        outcome = await work.apply_in(connection, touched)
        await composer.conclude(connection, outcome)
    database.signal.set(outcome.changes)
    return outcome


@dataclass(frozen=True, slots=True)
class _Work:
    database: Database
    configuration: Configuration
    interaction: Interaction
    becoming: Becoming | None
    checker: Checker

    async def apply(self, touched: Touched) -> Outcome:
        """One attempt, under the locks that it names."""
        async with self.database.transaction() as connection:
            outcome = await self.apply_in(connection, touched)
        self.database.signal.set(outcome.changes)
        return outcome

    async def apply_in(self, connection: Connection, touched: Touched) -> Outcome:
        """The same inside a transaction, which the caller commits and announces."""
        id, now = uuid.uuid4().hex, datetime.now(UTC)
        locked = await store.lock_and_load(connection, touched)
        before = locked.entities | await _load_below(connection, self.interaction)
        plan = await self._plan(connection, before, now)
        steps = await self._take_steps(connection, plan, before)
        checks = self._checks(connection, plan)
        await checks.run(
            steps.resources,
            is_exclusive=touched.catalog_exclusive,
            is_referred=locked.is_referred,
        )
        tombstones = await _earlier_lives(connection, plan) if locked.has_lived else {}
        planned = plan.finish(tombstones)
        changes = self._changes(plan, before, planned)
        position = await store.write(
            connection,
            Write(
                interaction=id,
                at=now,
                entities=[e for e in planned.after.values() if isinstance(e, Entity)],
                tombstones=[t for t in planned.after.values() if isinstance(t, Tombstone)],
                changes=changes,
                dropped_documents=planned.dropped_documents,
                revived=list(tombstones),
            ),
        )
        if self.becoming is not None:
            await configure(
                connection,
                self.configuration,
                self.becoming,
                checker=self.checker,
                interaction=id,
                now=now,
            )
        return Outcome(
            interaction=id,
            at=now,
            position=position,
            before=before,
            after=planned.after,
            changes=changes,
            overlooked=frozenset(steps.overlooked),
        )

    def _changes(self, plan: Plan, before: Mapping[str, Entity], planned: Planned) -> list[Change]:
        changes = changes_between({**plan.referred, **before}, planned.after, plan.model)
        if self.becoming is None:
            return changes
        return self.becoming.noted_in(changes, self.configuration)

    @property
    def _configuration_after(self) -> Configuration:
        return self.configuration if self.becoming is None else self.becoming.configuration

    async def _plan(
        self, connection: Connection, before: Mapping[str, Entity], now: datetime
    ) -> Plan:
        return Plan(
            self._configuration_after.model,
            before,
            authority=self.database.node.authority,
            now=now,
            referred=await _load_referred(connection, self.interaction, before),
        )

    async def _take_steps(
        self, connection: Connection, plan: Plan, before: Mapping[str, Entity]
    ) -> Steps:
        numbers = await _load_numbers(connection, plan.authority, self.interaction, before)
        steps = Steps(plan, self.interaction, numbers)
        steps.run()
        return steps

    def _checks(self, connection: Connection, plan: Plan) -> Checks:
        return Checks(connection, plan, self._configuration_after.capabilities, self.checker)


def _touched_by(interaction: Interaction) -> Touched:
    written = [upsert.xid for upsert in interaction.resources]
    targets = [xid for upsert in interaction.resources if (xid := target_in(upsert.meta))]
    deleted = [delete.xid for delete in interaction.deletes]
    groups = {str(upsert.xid) for upsert in interaction.groups}
    groups |= {str(xid.group) for xid in (*deleted, *targets)}
    resources = {str(xid.resource) for xid in (*written, *deleted, *targets) if xid.rid}
    return Touched(
        groups=frozenset(groups),
        resources=frozenset(resources),
        registry_exclusive=interaction.registry is not None
        or any(xid.kind == "group" for xid in deleted),
        groups_exclusive=any(upsert.body is not None for upsert in interaction.groups)
        or bool(deleted),
        catalog_exclusive=len(groups) + len(resources) > _MOST_LOCKS,
    )


async def _load_below(connection: Connection, interaction: Interaction) -> dict[str, Entity]:
    """Everything below the groups that will be deleted (resources bring their versions)."""
    groups = [str(delete.xid) for delete in interaction.deletes if delete.xid.kind == "group"]
    rows = await store.load_subtrees(connection, groups) if groups else []
    return {row.xid: row for row in rows}


async def _load_referred(
    connection: Connection, interaction: Interaction, before: Mapping[str, Entity]
) -> dict[str, Entity]:
    """What those resources show that are cross references now and will be written."""
    written = (before.get(str(upsert.xid)) for upsert in interaction.resources)
    xrefs = {xref for each in written if each is not None and (xref := each.attributes.get("xref"))}
    if not xrefs:
        return {}
    targets = await store.load(connection, xrefs)
    defaults = [
        f"{xid}/versions/{target.attributes.get('defaultversionid')}"
        for xid, target in targets.items()
    ]
    return targets | await store.load(connection, defaults)


async def _load_numbers(
    connection: Connection, authority: str, interaction: Interaction, before: Mapping[str, Entity]
) -> dict[str, list[range]]:
    """The numbers of deleted versions, of the resources that may get one with a new number."""
    resources = [
        str(upsert.xid)
        for upsert in interaction.resources
        if (held := before.get(str(upsert.xid))) is not None
        and ("xref" in held.attributes or any(not each.vid for each in upsert.versions))
    ]
    return await store.numbers_of_deleted_versions(connection, authority, resources)


async def _earlier_lives(connection: Connection, plan: Plan) -> dict[Origin, Tombstone]:
    created = plan.created()
    return await store.load_tombstones(connection, created) if created else {}
