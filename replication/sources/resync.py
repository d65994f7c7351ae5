"""Resynchronises a link: compares digests with its source, and fetches only what differs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from catalog.client import Unreachable
from catalog.model.entity import Origin
from catalog.model.xid import depth
from catalog.operations.peers import MOST_ORIGINS
from catalog.store import doubtedcopies, links
from catalog.store.links import Link
from replication.applying.deletionlimit import check_losses
from replication.applying.eviction import await_earlier_batches
from replication.deciding.provenance import may_bring
from replication.peers.linkbounds import Allowance
from replication.sources.comparison import DifferingOrigin, SourceComparison, compare
from replication.sources.pull import COPIES_OF_ONE, Brought, Flow, apply_by, apply_lines

# Where more of the source's rows differ, a snapshot costs less.
_LARGEST_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Resynchronised:
    """The result of a resynchronisation, of so many rows of which some differed."""

    differing: int
    rows: int
    brought: Brought


async def resynchronise(flow: Flow, *, is_allowed: bool = False) -> Resynchronised | None:
    """Bring what differs, and save the cursor of the time before the comparison.

    What is here of the source's authority and differs is doubted first if an operator has set up
    the link since the last copy. So its own word replaces it whatever the epochs, and what the
    source does not have at all is left to `drop_doubted`.

    A link that selects other entities than before fetches what differs, however much it is.

    Args:
        is_allowed: an operator has answered the question about what goes elsewhere.

    Returns:
        `None` if a complete copy is needed; nothing was done then.

    Raises:
        TooManyDeletions: nothing was applied, and the link asks.
        ClientError: the source does not answer now.
    """
    if flow.link.doubts:
        await await_earlier_batches(flow.context)
    found = await compare(flow)
    if found is None:
        return None
    wanted = _wanted(found)
    if flow.link.former is None and len(wanted) > _LARGEST_SHARE * found.rows:
        return None
    if not is_allowed:
        losses = losses_in(found, flow.link)
        await check_losses(
            flow.context, flow.link, flow.policy, losses, pending=len(found.differing)
        )
    await _expect(flow, len(wanted))
    is_doubting = await _doubt(flow, found)
    brought = await _fetch(flow, wanted, is_bulk=is_doubting)
    if is_doubting:
        await _settle(flow, found)
    brought.add(await apply_by(flow, [], found.cursor))
    brought.cursor = found.cursor
    return Resynchronised(differing=len(found.differing), rows=found.rows, brought=brought)


async def _expect(flow: Flow, copies: int) -> None:
    async with flow.context.database.acquire() as connection:
        await links.expect(connection, flow.link, copies)


def _wanted(found: SourceComparison) -> list[Origin]:
    """The origins to fetch: deleted ones first, the deepest first, then parents first."""
    # What labels select here only is deleted there, or has other labels: the source tells which.
    is_told = bool(found.policy.labels)
    wanted = [
        each
        for each in found.differing
        if (is_told or each.there is not None) and may_bring(each.origin, found.policy)
    ]
    return [each.origin for each in sorted(wanted, key=_order)]


def _order(each: DifferingOrigin) -> tuple[bool, int, str]:
    level, is_deleted = depth(each.origin.xid), each.there is None or each.there.is_deleted
    return not is_deleted, -level if is_deleted else level, each.origin.xid


def losses_in(found: SourceComparison, link: Link) -> list[Origin]:
    """The entities here that a source lacks, or has deleted after it lost data, and those below.

    What labels select here only may have other labels there, so it is not known to be lacking.
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
    """Whether a deletion is of a source that has lost data, or of no higher epoch."""
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


async def _doubt(flow: Flow, found: SourceComparison) -> bool:
    """Doubt what differs and is the source's own to tell; say whether anything is doubted.

    What an earlier resynchronisation doubted, which broke off, stays doubted where it differs.
    """
    doubted = {
        each.origin.xid: each.here.digest
        for each in found.differing
        if each.here is not None and found.policy.is_own_word(each.origin)
    }
    async with flow.context.database.transaction() as connection:
        if flow.link.doubts:
            await doubtedcopies.doubt_only(connection, flow.link, doubted)
            return bool(doubted)
        return await doubtedcopies.keep_among(connection, flow.link.id, list(doubted))


async def _settle(flow: Flow, found: SourceComparison) -> None:
    """Doubt nothing any more that the source has, even if it could not send it."""
    told = [each.origin.xid for each in found.differing if each.there is not None]
    async with flow.context.database.transaction() as connection:
        await doubtedcopies.settle(connection, flow.link.id, told)


async def _fetch(flow: Flow, wanted: Sequence[Origin], *, is_bulk: bool) -> Brought:
    brought = Brought(cursor="")
    for start in range(0, len(wanted), MOST_ORIGINS):
        part = wanted[start : start + MOST_ORIGINS]
        found = await apply_lines(
            flow.context,
            flow.peer.fetch_lines(part),
            lambda copies, _: apply_by(flow, copies, is_bulk=is_bulk),
            Allowance.of(flow.context.settings, COPIES_OF_ONE * len(part)),
        )
        if found is None:
            raise Unreachable(f"The answer of {flow.peer.url} broke off.", is_doubtful=True)
        brought.copies += found.copies
        brought.changes += found.changes
        brought.deleted += found.deleted
    return brought
