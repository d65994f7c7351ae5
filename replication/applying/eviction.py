"""Drops replicas without announcing a deletion by the authority.

Local subscribers are told, since the entities are gone from the node. The feed shows the present
state of an origin, and a dropped origin has no state: followers of the node keep the copies.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from catalog.context import Context
from catalog.model.change import Change
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.linkterms import RELAY
from catalog.model.xid import Xid
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.locks import Touched, lock_and_load
from catalog.store.writes import Write, write
from replication.applying.deletionlimit import check_losses
from replication.deciding.batch import BatchDecision, changes_of, raised_registry
from replication.deciding.pinning import policy_of, policy_within
from replication.deciding.provenance import Policy, may_bring
from replication.store import copies as stored_copies
from replication.store import doubtedcopies

_GROUPS_AT_ONCE = 50
_ORIGINS_AT_ONCE = 1000


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
    number = await _evict_groups(context, policy, named)
    await _forget_deletions(context, policy, named)
    return number


async def doubt_copies(context: Context, link: Link, policy: Policy, *, overruled: bool) -> None:
    """Mark the copies that the source of a link controls as doubted, before a complete copy.

    The complete copy then shows which entities the source lacks.

    Args:
        overruled: copies from the source replace doubted copies at every epoch, since relays may
            have forged the doubted copies.
    """
    is_brought = policy.authorities is None or policy.sender in policy.authorities
    await await_earlier_batches(context)
    async with context.database.transaction() as connection:
        await doubtedcopies.doubt(
            connection,
            link,
            policy.sender if is_brought else None,
            policy.scope,
            policy.types,
            overruled=overruled,
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
    async with context.database.acquire() as connection:
        left = await doubtedcopies.read_left(connection, link.id, policy.sender)
    losses = [Origin(policy.sender, each.origin) for each in left if each.xid is not None]
    if not is_allowed:
        await check_losses(context, link, policy, losses)
    if left and (link.doubts or any(each.overruled for each in left)):
        return await _drop_doubted(context, link, policy.sender)
    if left:
        async with context.database.transaction() as connection:
            await doubtedcopies.settle(connection, link.id, [each.origin for each in left])
    return 0


async def _drop_doubted(context: Context, link: Link, authority: str) -> int:
    number = 0
    while True:
        async with context.database.transaction() as connection:
            locked = await lock_and_load(connection, Touched(catalog_exclusive=True))
            left = await doubtedcopies.read_left(connection, link.id, authority, _ORIGINS_AT_ONCE)
            if not left:
                return number
            origins = [copy.origin for copy in left]
            roots = [copy.xid for copy in left if copy.xid is not None]
            before = await load_around(connection, roots, locked.entities)
            changes = await drop_at(context, connection, roots, before)
            await doubtedcopies.forget_deletions(connection, link.id, authority, origins)
            await doubtedcopies.settle(connection, link.id, origins)
        number += announce(context, changes)


async def _evict_groups(context: Context, policy: Policy, named: Sequence[str] | None) -> int:
    number, after = 0, ""
    while True:
        async with context.database.transaction() as connection:
            groups = await stored_copies.page_groups(
                connection, policy.own, named, after, _GROUPS_AT_ONCE
            )
            if not groups:
                return number
            after = groups[-1].xid
            roots = [
                group.xid
                for group in groups
                if may_bring(Origin(group.authority, group.origin), policy)
            ]
            touched = Touched(
                groups=frozenset(roots), groups_exclusive=True, registry_exclusive=True
            )
            locked = await lock_and_load(connection, touched)
            before = await load_around(connection, roots, locked.entities)
            changes = await drop_at(context, connection, roots, before)
        number += announce(context, changes)


async def _forget_deletions(context: Context, policy: Policy, named: Sequence[str] | None) -> None:
    """Forget deletions, which would keep out later copies of the authorities."""
    after = Origin("", "")
    while True:
        async with context.database.transaction() as connection:
            deletions = await stored_copies.page_deletions(
                connection, policy.own, named, after, _ORIGINS_AT_ONCE
            )
            if not deletions:
                return
            after = deletions[-1]
            brought = [origin for origin in deletions if may_bring(origin, policy)]
            await stored_copies.forget_deletions(connection, brought)


async def load_around(
    connection: Connection, roots: Sequence[str], locked: Mapping[str, Entity]
) -> dict[str, Entity]:
    """The entities at and below the given paths, and the parents, which change as well."""
    below = await store.load_subtrees(connection, roots)
    ancestors = {str(Xid.parse(xid).parent) for xid in roots} - {"/"}
    above = await store.load(connection, ancestors)
    return {"/": locked["/"], **above} | {entity.xid: entity for entity in below}


async def drop_at(
    context: Context, connection: Connection, roots: Sequence[str], before: Mapping[str, Entity]
) -> Sequence[Change]:
    """Drop the entities at and below the given paths, in the transaction of the caller.

    Args:
        before: the entities as `load_around` returns them.
    """
    now, gone = datetime.now(UTC), within(before, roots)
    if not gone:
        return []
    decision = BatchDecision(findings=[], deleted=[end_of(entity, now) for entity in gone])
    registry = raised_registry(before["/"], decision, before, now)
    changes = [
        replace(change, digest=before[change.xid].digest) if change.action == "deleted" else change
        for change in changes_of(decision, before, registry, context.configuration.model)
    ]
    await stored_copies.drop(connection, [entity.xid for entity in gone])
    await write(
        connection,
        Write(
            interaction=uuid.uuid4().hex,
            at=now,
            author=context.caller.author,
            entities=[registry] if registry else [],
            changes=changes,
        ),
    )
    return changes


def within(entities: Mapping[str, Entity], roots: Sequence[str]) -> list[Entity]:
    """The entities at and below the given paths."""
    dropped = frozenset(roots)
    return [entity for entity in entities.values() if _is_within(entity.xid, dropped)]


def _is_within(xid: str, roots: frozenset[str]) -> bool:
    """Whether `xid` is at or below a root."""
    steps = xid.split("/")
    return any("/".join(steps[:end]) in roots for end in (3, 5, 7))


def end_of(entity: Entity, now: datetime) -> Tombstone:
    """The tombstone of a dropped replica; only the authority may raise the epoch."""
    return Tombstone(
        xid=entity.xid,
        kind=entity.kind,
        authority=entity.authority,
        origin=entity.origin,
        epoch=entity.epoch,
        deletedat=now,
    )


def announce(context: Context, changes: Sequence[Change]) -> int:
    """Announce committed changes; return the number of deletions."""
    if changes:
        context.database.signal.set(changes)
    return sum(change.action == "deleted" for change in changes)
