"""Renames replicas after the names or the rules of a link have changed.

A group and every entity below are renamed in one transaction. The original addresses of endpoints
are stored beside the shown addresses, so nothing is fetched.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from catalog.client import ClientError
from catalog.context import Context
from catalog.model.change import Change
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.store import entities as store
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.locks import Touched, lock_and_load
from catalog.store.writes import Write, write
from replication.applying.eviction import announce, end_of
from replication.deciding.addresses import ENDPOINTS, AddressRules, rules_of
from replication.deciding.batch import BatchDecision, changes_of, origin_of, raised_registry
from replication.deciding.mapping import NoPlace, mapping_of
from replication.deciding.pinning import policy_within
from replication.deciding.provenance import Policy, may_bring
from replication.store import copies as stored_copies
from replication.store.handovers import read_reservations

_READ_AT_ONCE = 1000
_WRITTEN_AT_ONCE = 100


async def rewrite_endpoints(context: Context, link: Link, policy: Policy) -> int:
    """Rewrite endpoints that a link may bring by the rules of the link; return the number.

    Local subscribers are told of the updates. Followers of the node are not concerned, since
    epochs, digests and the copies sent to followers stay.
    """
    rules, after, number = rules_of(link.definition), f"/{ENDPOINTS}/", 0
    named = None if policy.authorities is None else sorted(policy.authorities)
    while True:
        async with context.database.acquire() as connection:
            policy = await policy_within(connection, policy, named)
            groups = await stored_copies.page_groups(
                connection, policy.own, named, after, _READ_AT_ONCE
            )
            endpoints = [each for each in groups if each.xid.startswith(f"/{ENDPOINTS}/")]
            brought = [
                each.xid
                for each in endpoints
                if may_bring(Origin(each.authority, each.origin), policy)
            ]
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
                changes.append(_change(held, shown))
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


def _change(before: Entity, after: Entity) -> Change:
    names = (n for n in after.attributes if after.attributes[n] != before.attributes.get(n))
    return Change(
        xid=after.xid,
        kind="group",
        action="updated",
        authority=after.authority,
        origin=after.origin,
        epoch=after.epoch,
        digest=after.digest,
        changed=tuple(sorted(names)),
    )


_GROUPS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class _Rename:
    """A group at `xid` to be moved to `target`; `origin` is the origin of the group."""

    xid: str
    target: str
    origin: Origin


async def rename_groups(context: Context, link: Link, policy: Policy) -> int:
    """Rename the groups that a link may bring by the mapping of the link; return the number.

    Local subscribers are told of deleted and created entities. Followers of the node are not
    concerned, since origins and digests stay.

    Raises:
        ClientError: a name is taken, or a group has no name. The remaining groups are renamed.
    """
    pending, faults = await _find(context, link, policy)
    # A name may become free when a different group is renamed, so passes go on while they help.
    number, has_moved = 0, True
    while pending and has_moved:
        blocked = [each for each in pending if not await _rename(context, each)]
        has_moved = len(blocked) < len(pending)
        number += len(pending) - len(blocked)
        pending = blocked
    faults += [f"{each.xid} cannot become {each.target}, which is here already" for each in pending]
    if faults:
        raise ClientError(
            f"{faults[0]}, as {len(faults)} groups in all.",
            f"Choose other names: `concord link set {link.id}` takes --prefix and --map.",
        )
    return number


async def _find(context: Context, link: Link, policy: Policy) -> tuple[list[_Rename], list[str]]:
    mapping, after = mapping_of(link.definition), ""
    named = None if policy.authorities is None else sorted(policy.authorities)
    renames: list[_Rename] = []
    faults: list[str] = []
    async with context.database.acquire() as connection:
        policy = await policy_within(connection, policy, named)
        while groups := await stored_copies.page_groups(
            connection, policy.own, named, after, _GROUPS_AT_ONCE
        ):
            after = groups[-1].xid
            for xid, authority, path in groups:
                origin = Origin(authority, path)
                if not may_bring(origin, policy):
                    continue
                try:
                    target = mapping.place(path)
                except NoPlace as error:
                    faults.append(f"{xid} has no name: {error}")
                    continue
                if target != xid:
                    renames.append(_Rename(xid, target, origin))
    return renames, faults


async def _rename(context: Context, rename: _Rename) -> bool:
    """Rename a group; return whether the name was free.

    A group that has moved since the search is left alone.
    """
    now = datetime.now(UTC)
    touched = Touched(
        groups=frozenset((rename.xid, rename.target)),
        groups_exclusive=True,
        registry_exclusive=True,
    )
    async with context.database.transaction() as connection:
        locked = (await lock_and_load(connection, touched)).entities
        group = locked.get(rename.xid)
        if group is None or Origin(group.authority, group.origin) != rename.origin:
            return True
        occupants = (await stored_copies.load_held(connection, [rename.target], [])).entities
        # Ids are compared without case, so a rename in case only finds the group itself.
        if occupants.keys() - {rename.xid}:
            return False
        reserved = await read_reservations(connection)
        if any(each.xid.lower() == rename.target.lower() for each in reserved):
            return False
        moved = await store.load_subtrees(connection, [rename.xid])
        changes = await _move(connection, rename, locked["/"], moved, now, context)
    announce(context, changes)
    return True


async def _move(
    connection: Connection,
    rename: _Rename,
    registry: Entity,
    moved: Sequence[Entity],
    now: datetime,
    context: Context,
) -> Sequence[Change]:
    new = [replace(each, xid=rename.target + each.xid.removeprefix(rename.xid)) for each in moved]
    gone: list[Tombstone] = [end_of(each, now) for each in moved]
    before = {"/": registry} | {each.xid: each for each in moved}
    decision = BatchDecision(findings=[], written=new, deleted=gone)
    raised = raised_registry(registry, decision, before, now)
    changes = [
        replace(change, digest=before[change.xid].digest) if change.action == "deleted" else change
        for change in changes_of(decision, before, raised, context.configuration.model)
    ]
    await stored_copies.rename(connection, rename.xid, rename.target)
    changes += [
        Change(
            xid=each.xid,
            kind="resource",
            action="updated",
            authority=each.authority,
            origin=each.origin,
            epoch=each.epoch,
            digest=each.digest,
            changed=("meta.xref",),
        )
        for each in await stored_copies.refer_anew(connection, rename.origin, rename.target)
    ]
    await write(
        connection,
        Write(
            interaction=uuid.uuid4().hex,
            at=now,
            author=context.caller.author,
            entities=[raised] if raised else [],
            changes=changes,
        ),
    )
    return changes
