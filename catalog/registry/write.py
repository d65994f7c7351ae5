"""The one way in which a client's request changes the catalog: one interaction, one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from catalog.model.change import Change, changes_between
from catalog.model.configuration import Configuration
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.errors import NotFound, XRegistryError, with_violations
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid
from catalog.registry.plan import Plan
from catalog.registry.resources import ResourcePlan
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
    far has seen everything of it.
    """

    interaction: str
    at: datetime
    position: Position
    before: Mapping[str, Entity]
    after: Mapping[str, Entity | Tombstone]
    changes: list[Change]

    def is_new(self, xid: Xid) -> bool:
        return str(xid) not in self.before and isinstance(self.after.get(str(xid)), Entity)


async def apply_interaction(
    database: Database, configuration: Configuration, interaction: Interaction
) -> Outcome:
    """Apply a request whole, or not at all.

    Raises:
        XRegistryError: the request is refused; it carries every violation found.
    """
    touched = _touched_by(interaction)
    for attempt in (touched, replace(touched, catalog_exclusive=True)):
        try:
            return await _apply_once(database, configuration, interaction, attempt)
        except MustBeginAgain:
            continue
    raise AssertionError("nothing can change under a lock on the whole catalog")


async def _apply_once(
    database: Database, configuration: Configuration, interaction: Interaction, touched: Touched
) -> Outcome:
    model = configuration.model
    id, now = uuid.uuid4().hex, datetime.now(UTC)
    async with database.transaction() as connection:
        before = await store.lock_and_load(connection, touched)
        before |= await _load_below(connection, interaction)
        plan = Plan(model, before, authority=database.node.authority, now=now)
        numbers = await store.last_version_numbers(
            connection, database.node.authority, _resources_to_number(interaction)
        )
        _run(plan, interaction, numbers)
        tombstones = await _earlier_lives(connection, plan)
        planned = plan.finish(tombstones)
        changes = changes_between(before, planned.after, model)
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
    database.signal.set()
    return Outcome(
        interaction=id,
        at=now,
        position=position,
        before=before,
        after=planned.after,
        changes=changes,
    )


def _touched_by(interaction: Interaction) -> Touched:
    groups = {str(upsert.xid) for upsert in interaction.groups}
    resources = {str(upsert.xid) for upsert in interaction.resources}
    deleted = [delete.xid for delete in interaction.deletes]
    groups |= {str(xid.group) for xid in deleted}
    resources |= {str(xid.resource) for xid in deleted if xid.rid}
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


def _resources_to_number(interaction: Interaction) -> list[str]:
    return [
        str(upsert.xid)
        for upsert in interaction.resources
        if any(not version.vid for version in upsert.versions)
    ]


def _run(plan: Plan, interaction: Interaction, numbers: Mapping[str, int]) -> None:
    """Take every step, noting what is wrong with each, and refuse if anything was."""
    plan.violations += interaction.violations
    for step in _steps(plan, interaction, numbers):
        try:
            step()
        except XRegistryError as violation:
            plan.violations.append(violation)
    if plan.violations:
        raise with_violations(plan.violations)


def _steps(
    plan: Plan, interaction: Interaction, numbers: Mapping[str, int]
) -> Iterable[Callable[[], object]]:
    if interaction.registry is not None:
        yield partial(plan.upsert_registry, interaction.registry)
    for group in interaction.groups:
        yield partial(plan.upsert_group, group)
    for resource in interaction.resources:
        number = numbers.get(str(resource.xid), 0)
        yield partial(ResourcePlan(plan, resource.xid, number).upsert, resource)
    for delete in interaction.deletes:
        if not delete.xid.vid:
            yield partial(plan.delete, delete)
        elif plan.live(delete.xid.resource) is not None:
            yield partial(ResourcePlan(plan, delete.xid.resource).delete_version, delete)
        elif delete.must_exist:
            raise NotFound(str(delete.xid))


async def _earlier_lives(connection: Connection, plan: Plan) -> dict[Origin, Tombstone]:
    created = plan.created()
    return await store.load_tombstones(connection, created) if created else {}
