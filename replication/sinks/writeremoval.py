"""Deletes the entities that a link has brought to its server, deepest first."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime

from catalog.client import Refused
from catalog.model.entity import Origin, Tombstone
from catalog.model.xid import Xid
from catalog.operations.feed import Verdict
from catalog.store import entities as store
from replication.applying.deletionlimit import check_written_losses
from replication.deciding.batch import origin_of
from replication.deciding.provenance import Copy
from replication.sinks.writeresults import Results, WriteLink, conflict_of, save_results
from replication.store import linkconflicts, writtenentities
from replication.store.writtenentities import WrittenEntity
from replication.targets.requests import is_of_entity, said_in
from replication.targets.target import Unwritable, holder_of

_ROWS_AT_ONCE = 1000

IsGone = Callable[[WrittenEntity], bool]


async def remove_gone(flow: WriteLink, gone: Sequence[Copy]) -> int:
    """Delete the link's entities of copies that the server must no longer have.

    Returns:
        the number of deleted entities.
    """
    if not gone:
        return 0
    origins = {origin_of(copy) for copy in gone}
    holders = {holder_of(copy.xid) for copy in gone}
    async with flow.context.database.acquire() as connection:
        rows = await writtenentities.load_at(connection, flow.link.id, holders)
        for group in sorted(holder for holder in holders if not Xid.parse(holder).rid):
            rows += await writtenentities.load_below(connection, flow.link.id, group)
        # An entity that was never brought may have left a conflict.
        never = origins - {row.origin for row in rows}
        await linkconflicts.drop(connection, flow.link.id, list(never))

    def is_gone(row: WrittenEntity) -> bool:
        return row.origin in origins or not row.is_here

    going = {row.origin: row for row in rows if is_gone(row)}
    return await _remove_from(flow, {row.holder for row in going.values()}, is_gone)


async def check_absent(flow: WriteLink) -> None:
    """Check the limit of deletions for entities that left this catalog without a tombstone.

    Raises:
        TooManyDeletions: the link asks, and nothing was deleted.
    """
    absent: list[Origin] = []
    async for rows in _pages(flow):
        origins = [row.origin for row in rows if not (row.is_here or row.is_adopted)]
        async with flow.context.database.acquire() as connection:
            deleted = await store.load_tombstones(connection, origins)
        absent += [origin for origin in origins if origin not in deleted]
    await check_written_losses(flow.context, flow.link, absent)


def is_unwanted(flow: WriteLink) -> IsGone:
    """A test for entities that the link no longer writes: deleted or deselected entities."""
    wanted = flow.wanted
    return lambda row: not (row.is_here and wanted.admits(row.origin))


async def find_unwanted(flow: WriteLink) -> AsyncIterator[WrittenEntity]:
    """The entities that the link has brought and would delete, without a write."""
    is_gone = is_unwanted(flow)
    async for rows in _pages(flow):
        for row in rows:
            if is_gone(row) and not row.is_adopted:
                yield row


async def remove_unwanted(flow: WriteLink, is_gone: IsGone) -> int:
    """Delete the unwanted entities that the link has brought; return their number."""
    number = 0
    # A group can be deleted only after its resources, which may be on a later page.
    for is_resource in (True, False):
        async for rows in _pages(flow):
            holders = {row.holder for row in rows if is_gone(row)}
            chosen = {holder for holder in holders if bool(Xid.parse(holder).rid) == is_resource}
            number += await _remove_from(flow, chosen, is_gone)
    return number


async def _pages(flow: WriteLink) -> AsyncIterator[list[WrittenEntity]]:
    after = Origin("", "")
    while True:
        async with flow.context.database.acquire() as connection:
            rows = await writtenentities.page(connection, flow.link.id, after, _ROWS_AT_ONCE)
        if not rows:
            return
        after = rows[-1].origin
        yield rows


async def _remove_from(flow: WriteLink, holders: Iterable[str], is_gone: IsGone) -> int:
    number = 0
    ordered = sorted(holders, key=lambda holder: (-holder.count("/"), holder))
    for holder in ordered:
        number += await _remove_at(flow, holder, is_gone)
    return number


async def _remove_at(flow: WriteLink, holder: str, is_gone: IsGone) -> int:
    """Delete the unwanted entities of one group or resource."""
    async with flow.context.database.acquire() as connection:
        rows = await writtenentities.load_at(connection, flow.link.id, [holder])
    going = [row for row in rows if is_gone(row)]
    brought = [row for row in going if not row.is_adopted]
    results = Results(forgotten=[row.origin for row in going])
    results.settled = list(results.forgotten)
    if brought:
        try:
            is_empty = await flow.target.remove(
                Xid.parse(holder),
                {row.path for row in brought},
                {row.path for row in rows if row.is_adopted},
                is_whole=len(going) == len(rows),
            )
            if is_empty:
                results.forgotten = [row.origin for row in rows]
            results.applied = len(brought)
        except Unwritable as error:
            results = _kept(brought, Verdict.COLLIDED, str(error))
        except Refused as error:
            if not is_of_entity(error, is_tolerant=flow.is_tolerant):
                raise
            results = _kept(brought, Verdict.REFUSED, said_in(error))
    await save_results(flow, results)
    return results.applied


def _kept(rows: Sequence[WrittenEntity], verdict: Verdict, reason: str) -> Results:
    """The results for entities that the server keeps: the link deletes them later, if possible."""
    return Results(conflicts=[conflict_of(_gone(row), verdict, reason) for row in rows])


def _gone(row: WrittenEntity) -> Tombstone:
    """A deleted entity, as named in a conflict."""
    return Tombstone(
        xid=row.xid,
        kind=Xid.parse(row.xid).kind,
        authority=row.origin.authority,
        origin=row.origin.xid,
        epoch=0,
        deletedat=datetime.now(UTC),
    )
