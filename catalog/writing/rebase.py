"""Adapts a planned outcome to later writes of other interactions, in simple cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from catalog.model.change import Change, changes_between
from catalog.model.entity import Entity, Tombstone
from catalog.model.interaction import Interaction
from catalog.model.schema import Model
from catalog.model.xid import depth, group_path
from catalog.store.locks import MustBeginAgain
from catalog.writing.outcome import Outcome


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


def resource_of(xid: str) -> str:
    """The xid of the resource of a version; xids of further kinds are returned unchanged."""
    return "/".join(xid.split("/", 5)[:5])


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
