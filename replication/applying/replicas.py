"""Drops and renames the replicas that are here, for operators, selections and authorities.

No authority has deleted dropped entities: they get no tombstones. Local subscribers are told, since
the entities are gone from the node, or have other names. The feed shows the present state of an
origin, and a dropped origin has no state: followers of the node keep the copies.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain

from catalog.client import ClientError
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
from catalog.store.searchindex import index_again
from catalog.store.writes import Write, write
from replication.applying.deletionlimit import check_losses
from replication.deciding.batch import (
    BatchDecision,
    change_of,
    changes_of,
    end_of,
    origin_of,
    raised_registry,
)
from replication.deciding.placement import ENDPOINTS, AddressRules, NoPlace, mapping_of, rules_of
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
from replication.store.copies import HeldName
from replication.store.handovers import read_reservations

_DROPPED_AT_ONCE = 50
_READ_AT_ONCE = 1000


async def evict(context: Context, link: Link) -> int:
    """Drop the replicas of `link.drops` that the link may bring; return the number.

    Groups are dropped as a whole, even if only a part is in the scope of the link. Deletions are
    forgotten.
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
    """Drop doubted copies that a complete copy of their authority lacks; return the number.

    Doubted copies are kept, and no longer doubted, unless an operator has set up the link since the
    last complete copy, or a doubted copy is overruled.

    Args:
        is_allowed: an operator has answered the question about the losses already.

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
            # Read again under the lock: a batch of another link may have brought some copies since.
            left = await doubtedcopies.read_left(connection, link.id, authority, _READ_AT_ONCE)
            origins = [copy.origin for copy in left]
            roots = [copy.xid for copy in left if copy.xid is not None]
            changes = await _drop_at(context, connection, roots, locked.entities)
            await doubtedcopies.forget_deletions(connection, link.id, authority, origins)
            await doubtedcopies.settle(connection, link.id, origins)
        number += announce(context, changes)
    return number


def _topmost(leaving: Iterable[HeldName]) -> list[str]:
    """The xids of the entities above which none leaves; ancestors come first."""
    roots: list[str] = []
    above: set[Origin] = set()
    for held in leaving:
        authority, path = held.origin
        steps = path.split("/")
        ancestors = ("/".join(steps[:end]) for end in range(3, len(steps), 2))
        if not any(Origin(authority, each) in above for each in ancestors):
            roots.append(held.xid)
        if len(steps) < 7:
            above.add(held.origin)
    return roots


async def drop_deselected(context: Context, link: Link, policy: Policy) -> int:
    """Drop the replicas that `link.former` selected, and no link selects now; return the number.

    An operator has changed the selection, so the number is not limited.
    """
    if not link.former:
        return 0
    # A former selection names its authorities, also that of the source.
    former = [filter_of(each, "") for each in link.former]
    named = {*chain(*(each.authorities or () for each in former))}
    wanted = None if any(each.authorities is None for each in former) else named
    async with context.database.acquire() as connection:
        others = await links.bringing_beside(connection, link)
    kept = [policy, *(filter_of(definition, authority) for authority, definition in others)]
    leaving: list[HeldName] = []
    after = Origin("", "")
    while True:
        async with context.database.acquire() as connection:
            held = await stored_copies.page_replicas(
                connection, policy.own, wanted, after, _READ_AT_ONCE
            )
        if not held:
            return await _drop(context, _topmost(leaving))
        after = held[-1].origin
        leaving += [
            each
            for each in held
            if _is_admitted(each.origin, former) and not _is_admitted(each.origin, kept)
        ]


async def drop_unlabelled(
    context: Context, link: Link, policy: Policy, units: Collection[Origin] | None = None
) -> int:
    """Drop replicas that the labels of a link do not select, and empty groups; return the number.

    Args:
        units: the groups and resources to check, including the resources of groups without the
            labels; `None` checks every group and resource.
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
        leaving = [
            each
            for each in found
            if policy.admits(each.origin) and not _is_admitted(each.origin, kept)
        ]
        if not leaving:
            break
        number += await _drop(context, _topmost(leaving))
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


_WRITTEN_AT_ONCE = 100


async def rewrite_endpoints(context: Context, link: Link, policy: Policy) -> int:
    """Rewrite endpoints that a link may bring by the rules of the link; return the number.

    The original addresses are stored beside the shown addresses, so nothing is fetched. Followers
    of the node are not concerned, since epochs, digests and the copies sent to followers stay.
    """
    rules, after, number = rules_of(link.definition), f"/{ENDPOINTS}/", 0
    while True:
        async with context.database.acquire() as connection:
            policy = await policy_within(connection, policy, policy.authorities)
            groups = await stored_copies.page_groups(
                connection, policy.own, policy.authorities, after, _READ_AT_ONCE
            )
            endpoints = [each for each in groups if each.xid.startswith(f"/{ENDPOINTS}/")]
            brought = [each.xid for each in endpoints if may_bring(each.origin, policy)]
            held = await store.load(connection, brought)
        wrong = [entity for entity in held.values() if rules.apply(entity) != entity]
        for start in range(0, len(wrong), _WRITTEN_AT_ONCE):
            number += await _write(context, rules, wrong[start : start + _WRITTEN_AT_ONCE])
        if len(endpoints) < _READ_AT_ONCE:
            return number
        after = endpoints[-1].xid


async def _write(context: Context, rules: AddressRules, endpoints: Sequence[Entity]) -> int:
    """Write the addresses of endpoints.

    The endpoints are read again under locks, since later copies may have arrived meanwhile.
    """
    touched = Touched(groups=frozenset(each.xid for each in endpoints), groups_exclusive=True)
    async with context.database.transaction() as connection:
        locked = (await lock_and_load(connection, touched)).entities
        written, changes = [], []
        for each in endpoints:
            held = locked.get(each.xid)
            if held is None or origin_of(held) != origin_of(each):
                continue
            shown = rules.apply(held)
            if shown != held:
                written.append(shown)
                before = held.attributes
                names = [n for n, value in shown.attributes.items() if value != before.get(n)]
                changes.append(change_of(shown, "updated", names))
        if not written:
            return 0
        await write(
            connection,
            Write(
                interaction=uuid.uuid4().hex,
                at=datetime.now(UTC),
                author=context.caller.author,
                entities=written,
                changes=changes,
            ),
        )
    announce(context, changes)
    return len(written)


async def rename_groups(context: Context, link: Link, policy: Policy) -> int:
    """Rename the groups that a link may bring by the mapping of the link; return the number.

    Local subscribers are told of deleted and created entities. Followers of the node are not
    concerned, since origins and digests stay.

    Raises:
        ClientError: a name is taken, or a group has no name. The remaining groups are renamed.
    """
    pending, faults = await _find_renames(context, link, policy)
    # A name may become free when a different group is renamed, so passes go on while they help.
    number, has_moved = 0, True
    while pending and has_moved:
        blocked = [each for each in pending if not await _rename(context, *each)]
        has_moved = len(blocked) < len(pending)
        number += len(pending) - len(blocked)
        pending = blocked
    faults += [
        f"{held.xid} cannot become {target}, which is here already" for held, target in pending
    ]
    if faults:
        raise ClientError(
            f"{faults[0]}, as {len(faults)} groups in all.",
            f"Choose other names: `concord link set {link.id}` takes --prefix and --map.",
        )
    return number


async def _find_renames(
    context: Context, link: Link, policy: Policy
) -> tuple[list[tuple[HeldName, str]], list[str]]:
    """The groups with wrong names, each with the new xid, and the faults of groups without one."""
    mapping, after = mapping_of(link.definition), ""
    renames: list[tuple[HeldName, str]] = []
    faults: list[str] = []
    async with context.database.acquire() as connection:
        policy = await policy_within(connection, policy, policy.authorities)
        while groups := await stored_copies.page_groups(
            connection, policy.own, policy.authorities, after, _READ_AT_ONCE
        ):
            after = groups[-1].xid
            for held in groups:
                if not may_bring(held.origin, policy):
                    continue
                try:
                    target = mapping.place(held.origin.xid)
                except NoPlace as error:
                    faults.append(f"{held.xid} has no name: {error}")
                    continue
                if target != held.xid:
                    renames.append((held, target))
    return renames, faults


async def _rename(context: Context, held: HeldName, target: str) -> bool:
    """Rename a group; return whether the name was free.

    A group that has moved since the search is left alone.
    """
    now, groups = datetime.now(UTC), frozenset((held.xid, target))
    touched = Touched(groups=groups, groups_exclusive=True, registry_exclusive=True)
    async with context.database.transaction() as connection:
        locked = (await lock_and_load(connection, touched)).entities
        group = locked.get(held.xid)
        if group is None or origin_of(group) != held.origin:
            return True
        occupants = (await stored_copies.load_held(connection, [target], [])).entities
        # Ids are compared without case, so a rename in case only finds the group itself.
        if occupants.keys() - {held.xid}:
            return False
        reserved = await read_reservations(connection)
        if any(each.xid.lower() == target.lower() for each in reserved):
            return False
        moved = await store.load_subtrees(connection, [held.xid])
        decision = BatchDecision(
            findings=[],
            written=[replace(e, xid=target + e.xid.removeprefix(held.xid)) for e in moved],
            deleted=[end_of(each, now, each.epoch) for each in moved],
        )
        await stored_copies.rename(connection, held.xid, target)
        await index_again(connection, decision.written)
        referring = await stored_copies.refer_anew(connection, held.origin, target)
        before = {"/": locked["/"]} | {each.xid: each for each in moved}
        more = [change_of(each, "updated", ["meta.xref"]) for each in referring]
        changes = await write_local_changes(context, connection, decision, before, now, more)
    announce(context, changes)
    return True
