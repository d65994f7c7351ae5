"""Selects entities by path and type, and the groups to which a restricted role may push. Pure.

A selection contains the ancestors of selected entities, since no entity is replicated without its
ancestors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from catalog.model.caller import WriteScope
from catalog.model.concorderrors import Forbidden
from catalog.store.database import Connection
from catalog.store.links import LinkDefinition
from catalog.writing.permission import check_writes
from replication.deciding.mapping import GroupMapping, NoPlace, mapping_of

_ADVICE = (
    "What is accepted of this catalog could come to groups that its token has no role for: have "
    "it accepted with --scope or --prefix, or give the token another role."
)


async def check_acceptance(
    connection: Connection, scope: WriteScope, definition: LinkDefinition
) -> None:
    """Refuse pushes to an acceptance that reaches beyond the groups to which the pusher may write.

    A complete copy ends with the deletion of accepted entities that the copy lacks, so a check of
    the pushed copies would not be enough.

    Raises:
        Forbidden, Unauthenticated
    """
    # A path with wildcards is checked as a text, which only a rule with the same reach covers.
    try:
        await check_writes(connection, scope, sorted(places_of(definition)))
    except Forbidden as error:
        error.detail = _ADVICE
        raise


def places_of(definition: LinkDefinition) -> frozenset[str]:
    """The local paths of groups, some with wildcards, to which an acceptance may bring copies."""
    mapping = mapping_of(definition)
    selected = definition.scope or [f"/{type.partition('/')[0]}" for type in definition.types]
    return frozenset(place for path in selected or ["/*"] for place in _places_at(path, mapping))


def _places_at(path: str, mapping: GroupMapping) -> Iterator[str]:
    _, plural, id, *_ = [*path.split("/", 3), ""]
    if not id:
        yield f"/{plural}/{mapping.prefix}*"
        named = (there for there in mapping.names if plural in ("*", there.partition("/")[0]))
        yield from (f"/{mapping.names[there]}" for there in named)
        return
    try:
        yield mapping.place(f"/{plural}/{id}")
    except NoPlace:
        return  # Without a local name, no copy of the group is taken either.


def is_selected(origin: str, scope: Collection[str], types: Collection[str]) -> bool:
    """Whether a selection contains an entity.

    Args:
        origin: the xid of the entity at the authority.
        scope: xids that are selected with every entity below; an empty scope selects every xid.
        types: `endpoints` selects the groups of a type with every entity below,
            `messagegroups/messages` the resources of a type and their groups; empty types select
            every type.
    """
    return is_in_scope(origin, scope) and is_of_types(origin, types)


def is_in_scope(origin: str, scope: Collection[str]) -> bool:
    """Whether an xid is at, below or above a path of the scope, or the scope is empty."""
    return not scope or any(
        origin == path or origin.startswith(path + "/") or path.startswith(origin + "/")
        for path in scope
    )


def paths_to(path: str) -> list[str]:
    """A path and the paths of every ancestor."""
    steps = path.split("/")
    return ["/".join(steps[:end]) for end in range(2, len(steps) + 1)]


def is_of_types(origin: str, types: Collection[str]) -> bool:
    """Whether an xid is of a given type, or below or above an entity of a given type.

    Empty types select every xid.
    """
    if not types:
        return True
    _, groups, _, resources, *_ = [*origin.split("/"), "", ""]
    wanted = (type.partition("/") for type in types)
    return any(
        group == groups and resource in ("", resources or resource) for group, _, resource in wanted
    )
