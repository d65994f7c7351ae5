"""Selects groups of a document with all that they refer to, without a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from catalog.commands.referencedparts import is_in
from catalog.documents.asyncapi.schemadocuments import entities_named_in

_MOST_ROUNDS = 32


def select(groups: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """The groups and resources at paths, with all that they refer to.

    Args:
        groups: the groups by plural.
        paths: the paths of groups or resources; paths without an entity are left out.
    """
    found: dict[str, Any] = {}
    wanted = {f"/{path.strip('/')}" for path in paths}
    for _ in range(_MOST_ROUNDS):
        for path in sorted(wanted):
            _add(groups, path, found)
        wanted = {path for path in entities_named_in(found) if not is_in(found, path)}
        wanted = {path for path in wanted if is_in(groups, path)}
        if not wanted:
            break
    return found


def _add(groups: Mapping[str, Any], path: str, found: dict[str, Any]) -> None:
    names = path.split("/")[1:]
    if len(names) not in (2, 4) or not is_in(groups, path):
        return
    plural, gid = names[:2]
    group = groups[plural][gid]
    if len(names) == 2:
        found.setdefault(plural, {})[gid] = group
        return
    resources, rid = names[2:]
    others = {name: value for name, value in group.items() if name != resources}
    kept = found.setdefault(plural, {}).setdefault(gid, others)
    kept[resources] = {**kept.get(resources, {}), rid: group[resources][rid]}
