"""Follows relays in what their operators have allowed them to lose.

A relay deletes nothing for others, since no authority has. It names the authorities whose state it
was allowed to follow, and the digest of that. A catalog behind it believes the relay about each of
these once, as it believes its tombstones: but not where it has keys of the authority, or follows it
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from catalog.store import allowances
from replication.applying.eviction import drop_doubted
from replication.deciding.pinning import policy_within
from replication.signing.signaturechecks import read_trust
from replication.sources.pull import Brought, Flow
from replication.sources.resync import resynchronise


async def follow_allowances(flow: Flow) -> dict[str, Brought]:
    """Compare what the source of a link was allowed to lose, and let it go here, too.

    Returns:
        what was brought, by authority; the link goes on from the last cursor.
    """
    followed: dict[str, Brought] = {}
    for authority, digest in (await _unknown_of(flow)).items():
        told = replace(
            flow,
            link=replace(flow.link, doubts=True, former=None),
            source=flow.source.model_copy(update={"authority": authority}),
        )
        found = await resynchronise(told, is_allowed=True)
        if found is None:
            continue
        number = await drop_doubted(flow.context, told.link, told.policy, is_allowed=True)
        found.brought.deleted += number
        async with flow.context.database.transaction() as connection:
            await allowances.follow(connection, authority, digest)
        followed[authority] = found.brought
    return followed


async def _unknown_of(flow: Flow) -> Mapping[str, str]:
    """The allowances of the source that concern this node, and that it has not followed."""
    told, database = flow.source.allowances, flow.context.database
    if not told or flow.link.definition.labels:
        return {}
    async with database.acquire() as connection:
        known = await allowances.read(connection)
        policy = await policy_within(connection, flow.policy, told)
        trust = await read_trust(database, connection, told)
    direct = {name for each in policy.direct for name in each.authorities or ()}
    kept_out = direct | {policy.own, policy.sender}
    return {
        authority: digest
        for authority, digest in told.items()
        if known.get(authority) != digest
        and authority not in kept_out
        and (policy.authorities is None or authority in policy.authorities)
        and not trust.is_pinned(authority)
    }
