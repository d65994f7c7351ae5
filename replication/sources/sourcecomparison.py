"""Compares the entities that a link may bring with the source, and finds the losses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.client import ClientError
from catalog.model.entity import Origin
from catalog.model.xid import group_path
from catalog.operations.peers import MOST_NAMED, Handshake
from catalog.store.links import Link
from replication.deciding.provenance import Policy, may_bring, policy_within
from replication.peers.linkerrors import may_pass
from replication.store import handovers
from replication.store.digests import DigestSelection
from replication.transfer import comparison
from replication.transfer.comparison import DifferingOrigin, DigestComparison
from replication.transfer.linkrun import LinkRun


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceComparison(DigestComparison):
    """The differences among the entities that a link may bring, with the policy of the link."""

    policy: Policy


async def compare(
    run: LinkRun, *, is_whole: bool = False, max_age: float = 0.0
) -> SourceComparison | None:
    """Compare a link's replicas with the source that the link has met.

    Args:
        is_whole: list every entity of the source if this node has no replica of the link.
        max_age: how many seconds old the coarsest fingerprints may be.

    Returns:
        `None` if only a complete copy helps: this node has no replica, the source offers no such
        digests, or too much differs to be listed.
    """
    assert run.source is not None, "the link has met its source"
    try:
        return await _compare(run, run.source, is_whole=is_whole, max_age=max_age)
    except ClientError as error:
        if may_pass(error):
            raise
        return None


async def _compare(
    run: LinkRun, source: Handshake, *, is_whole: bool, max_age: float
) -> SourceComparison | None:
    # A group that the source takes during the comparison may be missing in its digests.
    began = datetime.now(UTC)
    async with run.database.acquire() as connection:
        policy = await policy_within(connection, run.policy, run.policy.authorities)
    cursor, authorities = await _authorities(run, policy)
    if not 0 < len(authorities) <= MOST_NAMED:
        return None
    selectors = {"types": policy.types, "labels": policy.labels}
    if any(given and name not in source.offers for name, given in selectors.items()):
        return None
    wanted = DigestSelection(
        authorities=authorities,
        scope=policy.scope,
        types=policy.types,
        labels=policy.labels,
        max_age=max_age,
    )
    found = await comparison.find_differences(run, wanted, is_whole=is_whole)
    if found is None:
        return None
    async with run.database.acquire() as connection:
        given = await handovers.read_given(connection, policy.sender, began)
    differing = [
        each
        for each in found.differing
        # A source may lack a group only because it has not taken the given group yet.
        if each.there is not None
        or not policy.is_own_word(each.origin)
        or group_path(each.origin.xid) not in given
    ]
    return SourceComparison(
        cursor=cursor or found.cursor,
        rows=found.rows,
        differing=differing,
        wanted=_wanted(differing, policy),
        policy=policy,
    )


async def unsettled_differences(run: LinkRun, max_age: float) -> list[DifferingOrigin] | None:
    """Compare a link with its source; see `LinkPeer.differences`."""
    found = await compare(run, is_whole=True, max_age=max_age)
    if found is None:
        return None
    policy = found.policy
    return [
        each
        for each in comparison.unsettled(found.differing, policy.sender, sends=False)
        # The source does not tell whether an entity is gone or has other labels.
        if may_bring(each.origin, policy) and (each.there is not None or not policy.labels)
    ]


def _wanted(differing: Sequence[DifferingOrigin], policy: Policy) -> list[Origin]:
    """The origins to fetch, in order."""
    # An entity whose labels match only in this catalog was deleted or relabelled: the source tells
    # which.
    wanted = {
        each.origin: each.there
        for each in differing
        if (policy.labels or each.there is not None) and may_bring(each.origin, policy)
    }
    return comparison.in_copy_order(wanted)


async def _authorities(run: LinkRun, policy: Policy) -> tuple[str, list[str]]:
    """The authorities to compare, and the cursor from before the request for them, if requested."""
    cursor, named = "", sorted(policy.authorities or ())
    if policy.authorities is None:
        found, cursor = await comparison.read_authorities(run)
        # A source that has lost everything names no authority.
        named = [*dict.fromkeys([*found, policy.sender])]
    direct = {
        authority
        for each in policy.direct
        if not (each.scope or each.types)
        for authority in each.authorities or ()
    }
    excluded = {policy.own, *direct - {policy.sender}}
    return cursor, [authority for authority in named if authority not in excluded]


def losses_in(found: SourceComparison, link: Link) -> list[Origin]:
    """The held entities that a source lacks, or has deleted after a loss, with their descendants.

    An entity whose labels match only in this catalog does not count as lacking, since its labels
    may differ at the source.
    """
    live = [each for each in found.differing if each.here and not each.here.is_deleted]
    tells_absence = link.doubts or not found.policy.labels
    lost = {
        each.origin
        for each in live
        if (tells_absence and each.there is None and found.policy.is_own_word(each.origin))
        or _is_doubtful_deletion(each, found, link)
    }
    return [each.origin for each in live if each.origin in lost or _is_below(each.origin, lost)]


def _is_doubtful_deletion(each: DifferingOrigin, found: SourceComparison, link: Link) -> bool:
    """Whether a deletion comes from a source that has lost data, or has no higher epoch."""
    if each.here is None or each.there is None or not each.there.is_deleted:
        return False
    is_later = each.there.epoch > each.here.epoch
    if not (may_bring(each.origin, found.policy) and (link.loss is not None or not is_later)):
        return False
    return is_later or found.policy.is_own_word(each.origin)


def _is_below(origin: Origin, gone: Collection[Origin]) -> bool:
    steps = origin.xid.split("/")
    above = ("/".join(steps[:end]) for end in range(3, len(steps), 2))
    return any(Origin(origin.authority, xid) in gone for xid in above)
