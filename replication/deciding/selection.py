"""Selects entities by path and type. Pure.

A selection contains the ancestors of selected entities, since no entity is replicated without its
ancestors.
"""

from __future__ import annotations

from collections.abc import Collection


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
