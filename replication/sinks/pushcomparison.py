"""Pushes what differs between this node and the target of a link, as their digests tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.client import ClientError
from catalog.model.entity import Origin
from catalog.model.xid import depth
from catalog.operations.peers import MOST_NAMED
from catalog.store import digests
from catalog.store.changes import Position, read_head
from catalog.store.digests import DigestSelection
from replication.feed.feedpages import read_copies
from replication.peers.handshake import may_pass
from replication.sinks.push import PushFlow, PushRequest, requests_for
from replication.sources.comparison import Differences, DifferingOrigin, find_differences

_AT_ONCE = 1000
# Where more differs, it costs less to send everything.
_LARGEST_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedDifferences:
    """The position to go on from, after so many copies of what differed were pushed."""

    position: Position
    differing: int
    rows: int
    copies: int


async def push_differing(flow: PushFlow) -> PushedDifferences | None:
    """Push what the target does not have as it is here.

    Returns:
        `None` if everything has to be pushed: the target tells no digests, much differs, or the
        target has entities of this node of which not even a deletion is known here. It notices
        these after a complete copy.

    Raises:
        ClientError: the target does not answer now.
    """
    database = flow.context.database
    async with database.snapshot(database.pools.feed) as connection:
        head = await read_head(connection)
    found = await _compare(flow)
    if found is None:
        return None
    wanted, own = _ordered(found.differing), database.node.authority
    lacks = any(
        each.here is None and each.there and not each.there.is_deleted
        for each in found.differing
        if each.origin.authority == own
    )
    if lacks or len(wanted) > _LARGEST_SHARE * found.rows:
        return None
    await flow.begin(len(wanted), is_whole=False)
    number = 0
    for start in range(0, len(wanted), _AT_ONCE):
        async with database.snapshot(database.pools.feed) as connection:
            held = await read_copies(connection, wanted[start : start + _AT_ONCE])
        copies = [copy for copy in held if flow.admits(copy)]
        async for request in requests_for(flow, copies):
            await flow.send(request)
            number += len(request.copies)
    await flow.send(PushRequest(), cursor=await flow.cursor_of(head.now))
    return PushedDifferences(
        position=head.now, differing=len(wanted), rows=found.rows, copies=number
    )


async def _compare(flow: PushFlow) -> Differences | None:
    authorities = await _authorities(flow)
    if not 0 < len(authorities) <= MOST_NAMED:
        return None
    sent = flow.wanted
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
    named = flow.wanted.authorities
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
