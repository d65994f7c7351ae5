"""Drops replicas that an operator, a selection or the authority itself leaves out.

No authority has deleted the entities: they get no tombstones. Local subscribers are told, since the
entities are gone from the node. The feed shows the present state of an origin, and a dropped origin
has no state: followers of the node keep the copies.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from catalog.context import Context
from catalog.model.change import Change
from catalog.model.entity import Entity, Origin
from catalog.model.linkterms import RELAY
from catalog.model.xid import group_path, parent_of
from catalog.store import entities as store
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.locks import Touched, lock_and_load
from catalog.store.writes import Write, write
from replication.applying.deletionlimit import check_losses
from replication.deciding.batch import BatchDecision, changes_of, end_of, raised_registry
from replication.deciding.provenance import (
    CopyFilter,
    Policy,
    filter_of,
    may_bring,
    policy_of,
    policy_within,
)
from replication.store import copies as stored_copies
from replication.store import doubtedcopies

_DROPPED_AT_ONCE = 50
_READ_AT_ONCE = 1000


async def evict(context: Context, link: Link) -> int:
    """Drop the replicas of `link.drops` that the link may bring, and forget deletions.

    Groups are dropped as a whole, even if only a part is in the scope of the link.

    Returns:
        the number of dropped entities.
    """
    own = context.database.node.authority
    named = None if link.drops == RELAY else link.drops
    policy = policy_of(link.definition, own=own, source=link.authority or "")
    async with context.database.acquire() as connection:
        policy = await policy_within(connection, policy, named)
    number, after = 0, ""
    while True:
        async with context.database.acquire() as connection:
            groups = await stored_copies.page_groups(
                connection, own, named, after, _DROPPED_AT_ONCE
            )
        if not groups:
            break
        after = groups[-1].xid
        number += await _drop(context, [g.xid for g in groups if may_bring(g.origin, policy)])
    await _forget_deletions(context, policy, named)
    return number


async def _forget_deletions(context: Context, policy: Policy, named: Sequence[str] | None) -> None:
    """Forget deletions, which would keep out later copies of the authorities."""
    after = Origin("", "")
    while True:
        async with context.database.transaction() as connection:
            deletions = await stored_copies.page_deletions(
                connection, policy.own, named, after, _READ_AT_ONCE
            )
            if not deletions:
                return
            after = deletions[-1]
            brought = [origin for origin in deletions if may_bring(origin, policy)]
            await stored_copies.forget_deletions(connection, brought)


async def doubt_copies(context: Context, link: Link, policy: Policy, *, overruled: bool) -> None:
    """Mark the copies that the source of a link controls as doubted, before a complete copy.

    The complete copy then shows which entities the source lacks.

    Args:
        overruled: copies from the source replace doubted copies at every epoch, since relays may
            have forged the doubted copies.
    """
    is_brought = policy.authorities is None or policy.sender in policy.authorities
    authority = policy.sender if is_brought else None
    await await_earlier_batches(context)
    async with context.database.transaction() as connection:
        await doubtedcopies.doubt(
            connection, link, authority, policy.scope, policy.types, overruled=overruled
        )


async def await_earlier_batches(context: Context) -> None:
    """Wait for the end of relays' batches that were decided before a link was pinned.

    The lock on the whole catalog waits for every transaction with a lock on a group.
    """
    async with context.database.transaction() as connection:
        await lock_and_load(connection, Touched(catalog_exclusive=True))


async def drop_doubted(
    context: Context, link: Link, policy: Policy, *, is_allowed: bool = False
) -> int:
    """Drop doubted copies of the sender's authority that the sender lacks, by a complete copy.

    Doubted copies are kept, and no longer doubted, unless an operator has set up the link since the
    last complete copy, or a doubted copy is overruled.

    Args:
        is_allowed: an operator has answered the question about the losses already.

    Returns:
        the number of dropped entities.

    Raises:
        TooManyDeletions: nothing was dropped; the authority may have lost data.
    """
    authority, number = policy.sender, 0
    async with context.database.acquire() as connection:
        left = await doubtedcopies.read_left(connection, link.id, authority)
    if not is_allowed:
        losses = [Origin(authority, each.origin) for each in left if each.xid is not None]
        await check_losses(context, link, policy, losses)
    if left and not (link.doubts or any(each.overruled for each in left)):
        async with context.database.transaction() as connection:
            await doubtedcopies.settle(connection, link.id, [each.origin for each in left])
        return 0
    while left:
        async with context.database.transaction() as connection:
            locked = await lock_and_load(connection, Touched(catalog_exclusive=True))
            left = await doubtedcopies.read_left(connection, link.id, authority, _READ_AT_ONCE)
            origins = [copy.origin for copy in left]
            roots = [copy.xid for copy in left if copy.xid is not None]
            changes = await _drop_at(context, connection, roots, locked.entities)
            await doubtedcopies.forget_deletions(connection, link.id, authority, origins)
            await doubtedcopies.settle(connection, link.id, origins)
        number += announce(context, changes)
    return number


@dataclass(slots=True)
class _Leaving:
    """The topmost entities to drop."""

    roots: list[str] = field(default_factory=list)
    _above: set[Origin] = field(default_factory=set)

    def add(self, held: stored_copies.HeldName) -> None:
        """Add an entity; must be called for the ancestors first."""
        authority, path = held.origin
        steps = path.split("/")
        above = ("/".join(steps[:end]) for end in range(3, len(steps), 2))
        if not any(Origin(authority, each) in self._above for each in above):
            self.roots.append(held.xid)
        if len(steps) < 7:
            self._above.add(held.origin)


async def drop_deselected(context: Context, link: Link, policy: Policy) -> int:
    """Drop the replicas that `link.former` selected and no link of the node selects now.

    An operator has changed the selection, so the number of entities is not limited.

    Returns:
        the number of dropped entities.
    """
    if not link.former:
        return 0
    former = [
        CopyFilter(
            authorities=None if each.authorities == RELAY else frozenset(each.authorities),
            scope=each.scope,
            types=each.types,
        )
        for each in link.former
    ]
    named = None
    if all(each.authorities is not None for each in former):
        named = {authority for each in former for authority in each.authorities or ()}
    async with context.database.acquire() as connection:
        others = await links.bringing_beside(connection, link)
    kept = [policy, *(filter_of(definition, authority) for authority, definition in others)]
    leaving, after = _Leaving(), Origin("", "")
    while True:
        async with context.database.acquire() as connection:
            held = await stored_copies.page_replicas(
                connection, policy.own, named, after, _READ_AT_ONCE
            )
        if not held:
            return await _drop(context, leaving.roots)
        after = held[-1].origin
        for each in held:
            if _is_admitted(each.origin, former) and not _is_admitted(each.origin, kept):
                leaving.add(each)


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
    # The first pass may leave groups empty, which the second pass drops.
    for _ in range(2):
        async with context.database.acquire() as connection:
            others = await links.bringing_beside(connection, link)
            found = await stored_copies.read_unlabelled(
                connection, policy.own, policy.authorities, labels, units
            )
        kept = [filter_of(definition, authority) for authority, definition in others]
        leaving = _Leaving()
        for each in found:
            if policy.admits(each.origin) and not _is_admitted(each.origin, kept):
                leaving.add(each)
        if not leaving.roots:
            break
        number += await _drop(context, leaving.roots)
    return number


def _is_admitted(origin: Origin, filters: Iterable[CopyFilter]) -> bool:
    return any(each.admits(origin) for each in filters)


async def _drop(context: Context, roots: Sequence[str]) -> int:
    """Drop the entities at and below the given paths, in parts; return the number of entities."""
    number = 0
    for start in range(0, len(roots), _DROPPED_AT_ONCE):
        part = roots[start : start + _DROPPED_AT_ONCE]
        groups = frozenset(map(group_path, part))
        touched = Touched(groups=groups, groups_exclusive=True, registry_exclusive=True)
        async with context.database.transaction() as connection:
            locked = await lock_and_load(connection, touched)
            changes = await _drop_at(context, connection, part, locked.entities)
        number += announce(context, changes)
    return number


async def _drop_at(
    context: Context, connection: Connection, roots: Sequence[str], locked: Mapping[str, Entity]
) -> Sequence[Change]:
    """Drop the entities at and below the given paths, in the transaction of the caller.

    Args:
        locked: the registry by its xid.
    """
    gone = {entity.xid: entity for entity in await store.load_subtrees(connection, roots)}
    if not gone:
        return []
    # The parents change, too.
    above = await store.load(connection, {parent_of(xid) for xid in roots} - {"/"})
    before = {"/": locked["/"], **above, **gone}
    now = datetime.now(UTC)
    # Only the authority may raise the epoch.
    ends = [end_of(entity, now, entity.epoch) for entity in gone.values()]
    decision = BatchDecision(findings=[], deleted=ends)
    await stored_copies.drop(connection, gone)
    return await write_local_changes(context, connection, decision, before, now)


async def write_local_changes(
    context: Context,
    connection: Connection,
    decision: BatchDecision,
    before: Mapping[str, Entity],
    at: datetime,
    more: Iterable[Change] = (),
) -> Sequence[Change]:
    """Write the registry and the changes of a decision that concerns this node alone.

    Args:
        before: the entities before the decision, with the registry.
        more: further changes.
    """
    registry = raised_registry(before["/"], decision, before, at)
    changes = [
        replace(change, digest=before[change.xid].digest) if change.action == "deleted" else change
        for change in changes_of(decision, before, registry, context.configuration.model)
    ]
    changes += more
    await write(
        connection,
        Write(
            interaction=uuid.uuid4().hex,
            at=at,
            author=context.caller.author,
            entities=[registry] if registry else [],
            changes=changes,
        ),
    )
    return changes


def announce(context: Context, changes: Sequence[Change]) -> int:
    """Announce committed changes; return the number of deletions."""
    if changes:
        context.database.signal.set(changes)
    return sum(change.action == "deleted" for change in changes)
