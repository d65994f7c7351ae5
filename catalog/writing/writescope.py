"""Refuses writes outside of a client's groups; every write of an entity passes the check."""

from __future__ import annotations

from collections.abc import Iterable

from catalog.model.caller import EVERYTHING, Everything, Visibility, WriteScope
from catalog.model.entity import Entity
from catalog.model.interaction import Interaction
from catalog.model.xid import group_path
from catalog.store.accessrules import covered_groups
from catalog.store.database import Connection

_REGISTRY = "/"


async def check_interaction(connection: Connection, interaction: Interaction) -> None:
    """Refuse an interaction that names entities which the client may not write (`check_writes`).

    Must be called before steps whose errors could reveal entities hidden from the client.
    """
    scope = interaction.caller.writes
    if scope is EVERYTHING:
        return
    if interaction.registry is not None:
        raise scope.refusal_of(_REGISTRY)
    parts = (interaction.groups, interaction.resources, interaction.deletes)
    named = [each.xid for part in parts for each in part]
    if interaction.at.gid:
        # A request to a group without entities in the body is refused, too.
        named.append(interaction.at)
    await check_writes(connection, scope, map(str, named))


async def check_writes(connection: Connection, scope: WriteScope, xids: Iterable[str]) -> None:
    """Refuse to write entities outside of a scope.

    Raises:
        Forbidden, Unauthenticated: for the first entity outside of the scope, with the same error
            whether the entity exists or not.
    """
    groups = {xid: group_path(xid) for xid in xids}
    covered = await covered_groups(connection, scope.rules, {*groups.values()})
    for xid, group in groups.items():
        if group not in covered:
            raise scope.refusal_of(xid)


async def seen_among(
    connection: Connection, visible: Visibility | Everything, entities: dict[str, Entity]
) -> dict[str, Entity]:
    """The given entities that a client may see, by xid.

    For the target of a cross reference: a target hidden from the client must look like a target
    that does not exist.
    """
    if visible is EVERYTHING:
        return entities
    groups = {xid: group_path(xid) for xid in entities}
    covered = await covered_groups(connection, visible.rules, {*groups.values()})
    return {
        xid: entity
        for xid, entity in entities.items()
        if xid == _REGISTRY or groups[xid] in covered
    }
