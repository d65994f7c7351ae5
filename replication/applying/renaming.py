"""Renames replicas after the names or the rules of a link have changed.

A group and every entity below are renamed in one transaction. The original addresses of endpoints
are stored beside the shown addresses, so nothing is fetched.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from catalog.client import ClientError
from catalog.context import Context
from catalog.model.entity import Entity
from catalog.store import entities as store
from catalog.store.links import Link
from catalog.store.locks import Touched, lock_and_load
from catalog.store.searchindex import index_again
from catalog.store.writes import Write, write
from replication.applying.eviction import announce, write_local_changes
from replication.deciding.batch import (
    BatchDecision,
    change_of,
    end_of,
    origin_of,
)
from replication.deciding.placement import ENDPOINTS, AddressRules, NoPlace, mapping_of, rules_of
from replication.deciding.provenance import Policy, may_bring, policy_within
from replication.store import copies as stored_copies
from replication.store.copies import HeldName
from replication.store.handovers import read_reservations

_READ_AT_ONCE = 1000
_WRITTEN_AT_ONCE = 100


async def rewrite_endpoints(context: Context, link: Link, policy: Policy) -> int:
    """Rewrite endpoints that a link may bring by the rules of the link; return the number.

    Local subscribers are told of the updates. Followers of the node are not concerned, since
    epochs, digests and the copies sent to followers stay.
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
                names = [
                    name
                    for name, value in shown.attributes.items()
                    if value != held.attributes.get(name)
                ]
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
    pending, faults = await _find(context, link, policy)
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


async def _find(
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
