"""Lets the replicas leave that a link has brought and does not select any more."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from catalog.context import Context
from catalog.model.entity import Origin
from catalog.store import copies as stored_copies
from catalog.store import links
from catalog.store.links import RELAY, Link
from catalog.store.locks import Touched, lock_and_load
from replication.deletionlimit import asking, check_deletions, count_deletions
from replication.eviction import announce, drop_at, load_around, within
from replication.pinning import filter_of
from replication.placement import group_path
from replication.provenance import CopyFilter, Policy

_READ_AT_ONCE = 1000
_DROPPED_AT_ONCE = 50


@dataclass(slots=True)
class _Leaving:
    """The number of entities that leave, and the topmost of them."""

    number: int = 0
    roots: list[str] = field(default_factory=list)
    _above: set[Origin] = field(default_factory=set)

    def add(self, held: stored_copies.HeldName) -> None:
        """Add an entity, after those above it."""
        steps = held.origin.split("/")
        above = ("/".join(steps[:end]) for end in range(3, len(steps), 2))
        self.number += 1
        if not any(Origin(held.authority, path) in self._above for path in above):
            self.roots.append(held.xid)
        if len(steps) < 7:
            self._above.add(Origin(held.authority, held.origin))


async def leave(context: Context, link: Link, policy: Policy) -> int:
    """Drop what `link.former` selected, and neither the link nor another one selects now.

    Nobody who follows this node is told, since no authority has deleted anything.

    Returns:
        the number of entities that were dropped.

    Raises:
        TooManyDeletions: nothing was dropped; an operator has to allow it.
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
    async with context.database.pool.acquire(timeout=30) as connection:
        others = await links.bringing_beside(connection, link)
    kept = [policy, *(filter_of(definition, authority) for authority, definition in others)]
    leaving = await _find(context, former, kept)
    before = _united(former, policy)
    await check_deletions(context, link, before, leaving.number)
    number = 0
    async with asking(context, link):
        for start in range(0, len(leaving.roots), _DROPPED_AT_ONCE):
            roots = leaving.roots[start : start + _DROPPED_AT_ONCE]
            number += await _drop(context, link, before, roots)
    return number


async def _find(
    context: Context, former: Sequence[CopyFilter], kept: Sequence[CopyFilter]
) -> _Leaving:
    leaving, after = _Leaving(), Origin("", "")
    named = _authorities(former)
    own = context.database.node.authority
    while True:
        async with context.database.pool.acquire(timeout=30) as connection:
            held = await stored_copies.page_replicas(connection, own, named, after, _READ_AT_ONCE)
        if not held:
            return leaving
        for each in held:
            after = Origin(each.authority, each.origin)
            was_selected = any(one.admits(after) for one in former)
            if was_selected and not any(one.admits(after) for one in kept):
                leaving.add(each)


async def _drop(context: Context, link: Link, policy: Policy, roots: Sequence[str]) -> int:
    groups = frozenset(map(group_path, roots))
    touched = Touched(groups=groups, groups_exclusive=True, registry_exclusive=True)
    async with context.database.transaction() as connection:
        locked = await lock_and_load(connection, touched)
        before = await load_around(connection, roots, locked.entities)
        await count_deletions(context, connection, link, policy, len(within(before, roots)))
        changes = await drop_at(connection, roots, before, context.configuration.model)
    return announce(context, changes)


def _united(former: Sequence[CopyFilter], policy: Policy) -> Policy:
    """A policy that admits all that was selected, for the share of it that leaves."""
    scopes, types = [each.scope for each in former], [each.types for each in former]
    named = _authorities(former)
    return replace(
        policy,
        authorities=None if named is None else frozenset(named),
        scope=tuple({path for scope in scopes for path in scope}) if all(scopes) else (),
        types=tuple({type for each in types for type in each}) if all(types) else (),
    )


def _authorities(filters: Collection[CopyFilter]) -> list[str] | None:
    if any(each.authorities is None for each in filters):
        return None
    return sorted({authority for each in filters for authority in each.authorities or ()})
