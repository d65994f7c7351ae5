"""Drops replicas that a link has brought and no longer selects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from catalog.context import Context
from catalog.model.entity import Origin
from catalog.model.linkterms import RELAY
from catalog.model.xid import group_path
from catalog.store import links
from catalog.store.links import Link
from catalog.store.locks import Touched, lock_and_load
from replication.applying.eviction import announce, drop_at, load_around
from replication.deciding.pinning import filter_of
from replication.deciding.provenance import CopyFilter, Policy
from replication.store import copies as stored_copies

_READ_AT_ONCE = 1000
_DROPPED_AT_ONCE = 50


@dataclass(slots=True)
class _Leaving:
    """The topmost entities to drop."""

    roots: list[str] = field(default_factory=list)
    _above: set[Origin] = field(default_factory=set)

    def add(self, held: stored_copies.HeldName) -> None:
        """Add an entity; must be called for the ancestors first."""
        steps = held.origin.split("/")
        above = ("/".join(steps[:end]) for end in range(3, len(steps), 2))
        if not any(Origin(held.authority, path) in self._above for path in above):
            self.roots.append(held.xid)
        if len(steps) < 7:
            self._above.add(Origin(held.authority, held.origin))


async def drop_deselected(context: Context, link: Link, policy: Policy) -> int:
    """Drop the replicas that `link.former` selected and no link of the node selects now.

    Followers of the node are not told, since no authority has deleted an entity. An operator has
    changed the selection, so the number of entities is not limited.

    Returns:
        the number of dropped entities.
    """
    former = [
        CopyFilter(
            authorities=None if each.authorities == RELAY else frozenset(each.authorities),
            scope=each.scope,
            types=each.types,
        )
        for each in link.former or ()
    ]
    if not former:
        return 0
    async with context.database.acquire() as connection:
        others = await links.bringing_beside(connection, link)
    kept = [policy, *(filter_of(definition, authority) for authority, definition in others)]
    leaving = await _find(context, former, kept)
    return await _drop_all(context, leaving.roots)


async def drop_unlabelled(
    context: Context, link: Link, policy: Policy, units: Collection[Origin] | None = None
) -> int:
    """Drop replicas of a link that the labels do not select, and groups left empty.

    Args:
        units: the groups and resources to check, including the resources of groups without the
            labels; `None` checks every group and resource.

    Returns:
        the number of dropped entities.
    """
    labels, number = link.definition.labels, 0
    if not labels:
        return 0
    named = None if policy.authorities is None else sorted(policy.authorities)
    # The first pass may leave groups empty, which the second pass drops.
    for _ in range(2):
        async with context.database.acquire() as connection:
            others = await links.bringing_beside(connection, link)
            found = await stored_copies.read_unlabelled(
                connection, policy.own, named, labels, units
            )
        kept = [filter_of(definition, authority) for authority, definition in others]
        leaving = _Leaving()
        for each in found:
            origin = Origin(each.authority, each.origin)
            if policy.admits(origin) and not any(one.admits(origin) for one in kept):
                leaving.add(each)
        if not leaving.roots:
            break
        number += await _drop_all(context, leaving.roots)
    return number


async def _drop_all(context: Context, roots: Sequence[str]) -> int:
    number = 0
    for start in range(0, len(roots), _DROPPED_AT_ONCE):
        number += await _drop(context, roots[start : start + _DROPPED_AT_ONCE])
    return number


async def _find(
    context: Context, former: Sequence[CopyFilter], kept: Sequence[CopyFilter]
) -> _Leaving:
    leaving, after = _Leaving(), Origin("", "")
    named = _authorities(former)
    own = context.database.node.authority
    while True:
        async with context.database.acquire() as connection:
            held = await stored_copies.page_replicas(connection, own, named, after, _READ_AT_ONCE)
        if not held:
            return leaving
        for each in held:
            after = Origin(each.authority, each.origin)
            was_selected = any(one.admits(after) for one in former)
            if was_selected and not any(one.admits(after) for one in kept):
                leaving.add(each)


async def _drop(context: Context, roots: Sequence[str]) -> int:
    groups = frozenset(map(group_path, roots))
    touched = Touched(groups=groups, groups_exclusive=True, registry_exclusive=True)
    async with context.database.transaction() as connection:
        locked = await lock_and_load(connection, touched)
        before = await load_around(connection, roots, locked.entities)
        changes = await drop_at(context, connection, roots, before)
    return announce(context, changes)


def _authorities(filters: Collection[CopyFilter]) -> list[str] | None:
    if any(each.authorities is None for each in filters):
        return None
    return sorted({authority for each in filters for authority in each.authorities or ()})
