"""Who refers to changed entities, in a catalog in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from catalog.indexing.references import references_of
from catalog.lint.documentchanges import User
from catalog.lint.lintedcatalog import MemoryCatalog
from catalog.model.xid import group_path, resource_of

DEPTH = 3
"""How far references are followed: a schema, its message, and the endpoint of the message."""


def users_in(
    memory: MemoryCatalog, name: str, owners: Iterable[str], bases: Sequence[str] = ()
) -> Mapping[str, tuple[User, ...]]:
    """The entities that refer to resources or groups, directly or through others.

    A reference to a group is one to each entity of the group.

    Args:
        name: the name of the catalog.
        owners: the xids of the resources and groups.
        bases: the URLs of the catalog's root, without a trailing slash.
    """
    sources = _sources_by_target(memory, bases)
    return {
        owner: tuple(User(catalog=name, xid=xid) for xid in _reaching(owner, sources))
        for owner in dict.fromkeys(owners)
    }


def _sources_by_target(
    memory: MemoryCatalog, bases: Sequence[str]
) -> Mapping[str, Mapping[str, None]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for xid in sorted(memory.entities):
        entity = memory.entities[xid]
        source = resource_of(xid)
        for reference in references_of(replace(entity, document=memory.document(xid) or None)):
            key = reference.key
            for base in bases:
                key = key.removeprefix(base) if key.startswith(f"{base}/") else key
            if key.startswith("/") and resource_of(key) != source:
                found[resource_of(key)][source] = None
    return found


def _reaching(owner: str, sources: Mapping[str, Mapping[str, None]]) -> Sequence[str]:
    reached = {owner: None}
    frontier = [owner]
    for _ in range(DEPTH):
        found = {
            source: None
            for xid in frontier
            for target in (xid, group_path(xid))
            for source in sources.get(target, {})
        }
        frontier = [xid for xid in found if xid not in reached]
        reached |= dict.fromkeys(frontier)
    return [xid for xid in reached if xid != owner]
