"""Rewrites the addresses of stored endpoints after the rules of a link have changed.

The original addresses are stored beside the shown addresses, so nothing is fetched.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

from catalog.context import Context
from catalog.model.change import Change
from catalog.model.entity import Entity, Origin
from catalog.store import entities as store
from catalog.store.links import Link
from catalog.store.locks import Touched, lock_and_load
from catalog.store.writes import Write, write
from replication.applying.eviction import announce
from replication.deciding.addresses import ENDPOINTS, AddressRules, rules_of
from replication.deciding.batch import origin_of
from replication.deciding.pinning import policy_within
from replication.deciding.provenance import Policy, may_bring
from replication.store import copies as stored_copies

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
