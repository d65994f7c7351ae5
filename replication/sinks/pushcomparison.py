"""Compares this node with the target of a link by digests."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.client import ClientError
from catalog.model.entity import Origin
from catalog.model.xid import depth
from catalog.operations.peers import MOST_NAMED
from catalog.store.changes import read_head
from replication.peers.handshake import may_pass
from replication.sinks.push import PushFlow
from replication.sources.ownlog import sent_by
from replication.store import digests
from replication.store.digests import DigestSelection
from replication.transfer.comparison import DifferingOrigin, DigestComparison, find_differences


async def compare_target(flow: PushFlow) -> DigestComparison | None:
    """Compare what a link sends with its target.

    Returns:
        `None` if everything has to be pushed: the target tells no digests, or has entities of this
        node of which not even a deletion is known here. It notices these after a complete copy.

    Raises:
        ClientError: the target does not answer now.
    """
    database = flow.context.database
    async with database.snapshot(database.pools.feed) as connection:
        head = await read_head(connection)
    found = await _compare(flow)
    if found is None:
        return None
    own = database.node.authority
    lacks = any(
        each.here is None and each.there and not each.there.is_deleted
        for each in found.differing
        if each.origin.authority == own
    )
    if lacks:
        return None
    wanted = _ordered(found.differing)
    return DigestComparison(
        cursor=head.now, rows=found.rows, differing=found.differing, wanted=wanted
    )


async def _compare(flow: PushFlow) -> DigestComparison | None:
    authorities = await _authorities(flow)
    if not 0 < len(authorities) <= MOST_NAMED:
        return None
    sent = sent_by(flow.context, flow.link.definition)
    if sent.types and "types" not in flow.target.offers:
        return None
    wanted = DigestSelection(authorities=authorities, scope=sent.scope, types=sent.types)
    try:
        return await find_differences(flow, wanted)
    except ClientError as error:
        if may_pass(error):
            raise
        return None


async def _authorities(flow: PushFlow) -> list[str]:
    """The authorities that the link sends; the target needs none of its own."""
    named = sent_by(flow.context, flow.link.definition).authorities
    if named is None:
        database = flow.context.database
        async with database.snapshot(database.pools.feed) as connection:
            named = frozenset(await digests.read_authorities(connection, MOST_NAMED + 1))
    return sorted(named - {flow.target.authority})


def _ordered(differing: Sequence[DifferingOrigin]) -> list[Origin]:
    """The origins to push: deletions first, the deepest first, then parents first."""
    return [each.origin for each in sorted(filter(_is_here, differing), key=_order)]


def _is_here(each: DifferingOrigin) -> bool:
    return each.here is not None


def _order(each: DifferingOrigin) -> tuple[bool, int, str]:
    assert each.here is not None, "it is here"
    level = depth(each.origin.xid)
    return not each.here.is_deleted, -level if each.here.is_deleted else level, each.origin.xid
