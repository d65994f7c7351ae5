"""Drops the event definitions that a node begins with where a new model has no room for them.

They are nobody's: no client wrote them, and none should have to delete them first.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from catalog.model.change import changes_between
from catalog.model.entity import Entity, Tombstone
from catalog.model.schema import Model
from catalog.registry.compliance import review_group, review_resource
from catalog.registry.eventdefinitions import AUTHORITY, GROUP
from catalog.registry.plan import Plan
from catalog.registry.resources import ResourcePlan
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.writes import Write, write


async def discard_misfits(
    connection: Connection,
    before: Model,
    after: Model,
    *,
    authority: str,
    interaction: str,
    now: datetime,
) -> None:
    """Delete the definitions, as far as they are here, unless they comply with a new model.

    The registry is left alone: whoever changes the model has updated it already.

    Args:
        before: the model that they comply with.
        authority: this node's.
        interaction: its id.
        now: its time.
    """
    rows = await store.load_subtrees(connection, [str(GROUP)])
    held = {row.xid: row for row in rows if row.authority == AUTHORITY}
    plan = Plan(after, held, authority=authority, now=now)
    if str(GROUP) not in held or _fits(plan, after):
        return
    plan.delete_below(GROUP)
    plan.drafts[str(GROUP)].is_deleted = True
    await _write(connection, plan, held, before, interaction)


def _fits(plan: Plan, model: Model) -> bool:
    """Whether nothing about them would have to be changed, or refused."""
    kind = model.group_type(GROUP.groups)
    if kind is None:
        return False
    review_group(plan, plan.drafts[str(GROUP)], kind)
    for draft in plan.drafts.values():
        if draft.xid.kind == "resource":
            if draft.xid.resources not in kind.resources:
                return False
            review_resource(ResourcePlan(plan, draft.xid))
    return not plan.violations


async def _write(
    connection: Connection,
    plan: Plan,
    held: Mapping[str, Entity],
    model: Model,
    interaction: str,
) -> None:
    gone = plan.finish({}).after
    await write(
        connection,
        Write(
            interaction=interaction,
            at=plan.now,
            tombstones=[each for each in gone.values() if isinstance(each, Tombstone)],
            changes=changes_between(held, gone, model),
        ),
    )
