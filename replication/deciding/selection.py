"""Selects entities by their paths and types. Pure.

A selection contains the ancestors of what it contains, since no entity is replicated without them.
"""

from __future__ import annotations

from collections.abc import Collection


def is_selected(origin: str, scope: Collection[str], types: Collection[str]) -> bool:
    """Whether a selection contains an entity.

    Args:
        origin: the xid of the entity at its authority.
        scope: xids that are selected with all below them; none stands for all.
        types: `endpoints` stands for the groups of a type with all below them,
            `messagegroups/messages` for the resources of a type and their groups; none for all.
    """
    return is_in_scope(origin, scope) and is_of_types(origin, types)


def is_in_scope(origin: str, scope: Collection[str]) -> bool:
    """Whether an xid is at, below or above one of these paths, or there are none."""
    return not scope or any(
        origin == path or origin.startswith(path + "/") or path.startswith(origin + "/")
        for path in scope
    )


def paths_to(path: str) -> list[str]:
    """A path, and the paths of all that is above it."""
    steps = path.split("/")
    return ["/".join(steps[:end]) for end in range(2, len(steps) + 1)]


def is_of_types(origin: str, types: Collection[str]) -> bool:
    """Whether an xid is of one of these types, below or above such an entity, or there are none."""
    if not types:
        return True
    _, groups, _, resources, *_ = [*origin.split("/"), "", ""]
    wanted = (type.partition("/") for type in types)
    return any(
        group == groups and resource in ("", resources or resource) for group, _, resource in wanted
    )
