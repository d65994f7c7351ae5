"""The sink of writing links: a server of other software."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from catalog.client import Refused
from catalog.model.entity import Origin
from catalog.model.masking import counted
from catalog.model.xid import Xid
from catalog.operations.feed import Verdict
from catalog.store import entities as store
from catalog.store import links
from catalog.store.changes import LogCursor, Position, read_head
from catalog.store.database import Connection
from catalog.store.links import Link
from replication.applying.deletionlimit import check_losses
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Copy
from replication.sinks.writebatch import Results, WriteBatch, WriteLink, save_results
from replication.sinks.writeownership import Listing
from replication.sources.ownlog import OwnLog, SentPage, read_push_cursor, write_push_cursor
from replication.store import linkconflicts, writtenentities
from replication.store.linkconflicts import CopyFinding
from replication.store.writtenentities import WrittenEntity
from replication.targets.probe import open_target
from replication.targets.target import Target, Unwritable, holder_of, is_of_entity, said_in
from replication.transfer.linkrun import Applied, LinkRun, PeerIdentity, Start
from replication.transfer.transfer import DryRun, LinkPeer, LinkSink

# After so many failures in a row, a fault of the server counts as the refusal of an entity.
_TOLERANT_AFTER = 5
_ROWS_AT_ONCE = 1000

_IsGone = Callable[[WrittenEntity], bool]


class ServerSink(LinkSink, LinkPeer):
    """Writes pages of the log to a server by its own API.

    The cursor is saved once the server has answered: after a crash, the last page is written again.
    """

    has_costly_retries = True

    def __init__(self, run: LinkRun) -> None:
        self._run = run
        self._target: Target
        self._flow: WriteLink
        self._listing: Listing | None = None
        self._position: Position | None = None

    async def meet(self) -> None:
        """Find the catalog of the server."""
        run = self._run
        self._target = await open_target(
            run.context,
            run.resources.session,
            run.link.definition,
            self._mark,
            run.settings.request_timeout_seconds,
            run.access,
        )

    async def identify(self, connection: Connection, link: Link) -> PeerIdentity:
        root = self._target.root
        await writtenentities.forget_elsewhere(connection, link.id, root)
        return PeerIdentity(instance=self._run.database.node.instance, authority=root)

    async def resume(self, saved: str | None) -> Start[Position]:
        """Continue from the saved cursor, if the server still has the same catalog."""
        run = self._run
        self._flow, self._listing = self._link_to_target(), None
        found = read_push_cursor(run.database.node.instance, self._target.identity, saved)
        if found is None and saved is not None:
            await run.remember("resynchronise", "the server has another catalog than before")
        async with run.database.snapshot(run.database.pools.tasks) as connection:
            head = await read_head(connection)
        is_reached = found is not None and head.reaches(found.position)
        self._position = found.position if found is not None and is_reached else None
        return Start(cursor=self._position, is_copied=is_reached)

    async def preview(self) -> DryRun:
        """The writes and deletions of a run, found by reading the server."""
        await self.meet()
        flow, result = self._link_to_target(), DryRun(rows=0, differing=0)
        listing = Listing(self._target)
        pages = OwnLog(self._run, tombstones=False).everything(None)
        async with contextlib.aclosing(pages):
            async for page in pages:
                batch = WriteBatch(flow, compares=True, listing=listing)
                result.rows += await batch.preview(page.copies, result)
        is_unwanted = _is_unwanted(flow)
        async for rows in _pages(flow):
            for row in rows:
                if is_unwanted(row) and not row.is_adopted:
                    result.note("deleted", row.origin, xid=row.xid)
        result.differing = result.numbers.total()
        return result

    async def drop(self) -> str:
        """Delete the entities that the link has brought, at the command of an operator."""
        await self.meet()
        async with self._run.database.transaction() as connection:
            root = self._target.root
            await writtenentities.forget_elsewhere(connection, self._run.link.id, root)
        number = await _remove_unwanted(self._link_to_target(), lambda _: True)
        return f"{counted(number, 'entities')} at the server"

    async def begin(self, found: None) -> None:
        """Compare every entity with the server, unless everything is to be written."""
        self._listing = None if self._run.link.copiesall else Listing(self._target)

    async def apply(self, page: SentPage) -> Applied:
        """Write a page, and save its cursor; `TooManyDeletions` if the link asks before."""
        flow, applied = self._flow, Applied()
        is_whole = self._position is None
        if page.copies:
            batch = WriteBatch(
                replace(flow, is_tolerant=True) if page.is_again else flow,
                compares=page.is_again or self._listing is not None,
                listing=self._listing,
            )
            plan = await batch.write(page.copies)
            applied = Applied(
                copies=len(page.copies), changes=batch.applied, conflicts=batch.conflicts
            )
            applied.deleted = await _remove_gone(flow, plan.gone)
        if page.cursor is not None and is_whole:
            # Delete the link's entities at the server that this catalog no longer has.
            await _check_absent(flow)
            self._listing = None
            applied.deleted += await _remove_unwanted(flow, _is_unwanted(flow))
        if page.cursor not in (None, self._position):
            await self._save(page.cursor, page.behind)
        return applied

    def told(self, total: Applied) -> tuple[str, str]:
        """The event of a complete copy in the history of the link, and its details."""
        written = f"{counted(total.changes, 'entities')} written"
        return "compared", f"{written}, {total.deleted:,} deleted"

    @property
    def _mark(self) -> str:
        """The mark in the entities that the link brings."""
        return f"{self._run.link.id} of {self._run.database.node.authority}"

    def _link_to_target(self) -> WriteLink:
        run = self._run
        return WriteLink(
            context=run.context,
            link=run.link,
            target=self._target,
            mark=self._mark,
            is_tolerant=run.failures >= _TOLERANT_AFTER,
        )

    async def _save(self, position: Position, behind: int | None) -> None:
        """Save the cursor, which names the log of this node and the catalog of the server."""
        instance = self._run.database.node.instance
        log = LogCursor.at(instance, position)
        async with self._run.database.transaction() as connection:
            await links.save_progress(
                connection,
                self._flow.link,
                cursor=write_push_cursor(instance, log, self._target.identity),
                applied=0,
                at=datetime.now(UTC),
                size=self._flow.take_sent(),
                behind=behind,
            )
        self._position = position


async def _remove_gone(flow: WriteLink, gone: Sequence[Copy]) -> int:
    """Delete the link's entities that the server must no longer have; return their number."""
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


async def _check_absent(flow: WriteLink) -> None:
    """Ask (`TooManyDeletions`) before many entities without a tombstone are deleted."""
    absent: list[Origin] = []
    async for rows in _pages(flow):
        origins = [row.origin for row in rows if not (row.is_here or row.is_adopted)]
        async with flow.context.database.acquire() as connection:
            deleted = await store.load_tombstones(connection, origins)
        absent += [origin for origin in origins if origin not in deleted]
    await check_losses(flow.context, flow.link, None, absent)


def _is_unwanted(flow: WriteLink) -> _IsGone:
    """A test for entities that the link no longer writes: deleted or deselected entities."""
    wanted = flow.wanted
    return lambda row: not (row.is_here and wanted.admits(row.origin))


async def _remove_unwanted(flow: WriteLink, is_gone: _IsGone) -> int:
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
        # The next page begins after an origin, so the caller may forget rows meanwhile.
        after = rows[-1].origin
        yield rows


async def _remove_from(flow: WriteLink, holders: Iterable[str], is_gone: _IsGone) -> int:
    number = 0
    ordered = sorted(holders, key=lambda holder: (-holder.count("/"), holder))
    for holder in ordered:
        number += await _remove_at(flow, holder, is_gone)
    return number


async def _remove_at(flow: WriteLink, holder: str, is_gone: _IsGone) -> int:
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
    conflicts = [
        CopyFinding(origin=row.origin, xid=row.xid, epoch=0, verdict=verdict, detail=reason)
        for row in rows
    ]
    return Results(conflicts=conflicts)
