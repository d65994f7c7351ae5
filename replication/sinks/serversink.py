"""The sink of writing links: a server of other software."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime

from catalog.model.masking import counted
from catalog.store import links
from catalog.store.changes import Position, read_head
from catalog.store.database import Connection
from catalog.store.links import Link
from catalog.store.logpositions import LogCursor
from replication.deciding.provenance import Copy
from replication.sinks.pushcursor import read_push_cursor, write_push_cursor
from replication.sinks.writebatch import WriteBatch
from replication.sinks.writeownership import Listing
from replication.sinks.writeremoval import (
    check_absent,
    find_unwanted,
    is_unwanted,
    remove_gone,
    remove_unwanted,
)
from replication.sinks.writeresults import WriteLink
from replication.sources.ownlog import OwnLog, SentPage
from replication.store import writtenentities
from replication.targets.probe import open_target
from replication.targets.target import Target
from replication.transfer.linkdryrun import DryRun
from replication.transfer.linkrun import Applied, LinkRun, PeerIdentity, Start
from replication.transfer.transfer import LinkPeer, LinkSink

# After so many failures in a row, a fault of the server counts as the refusal of an entity.
_TOLERANT_AFTER = 5


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
        """Find the catalog of the server.

        Raises:
            ClientError: the server does not answer, or cannot be written to.
        """
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
        """The writes and deletions of a run, found by reading the server.

        Raises:
            ClientError: the server does not answer now, or cannot be written to.
        """
        await self.meet()
        flow, result = self._link_to_target(), DryRun(rows=0, differing=0)
        listing = Listing(self._target)
        pages = OwnLog(self._run, self.admits, tombstones=False).everything(None)
        async with contextlib.aclosing(pages):
            async for page in pages:
                batch = WriteBatch(flow, compares=True, listing=listing)
                result.rows += await batch.preview(page.copies, result)
        async for row in find_unwanted(flow):
            result.note("deleted", row.origin, xid=row.xid)
        result.differing = result.numbers.total()
        return result

    def admits(self, copy: Copy) -> bool:
        return True

    async def drop(self) -> str:
        """Delete the entities that the link has brought, at the command of an operator."""
        await self.meet()
        async with self._run.database.transaction() as connection:
            root = self._target.root
            await writtenentities.forget_elsewhere(connection, self._run.link.id, root)
        number = await remove_unwanted(self._link_to_target(), lambda _: True)
        return f"{counted(number, 'entities')} at the server"

    async def begin(self, found: None) -> None:
        """Compare every entity with the server, unless everything is to be written."""
        self._listing = None if self._run.link.copiesall else Listing(self._target)

    async def apply(self, page: SentPage) -> Applied:
        """Write a page, and save its cursor.

        Raises:
            TooManyDeletions: many entities have left this catalog; the link asks before the
                deletion.
        """
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
            applied.deleted = await remove_gone(flow, plan.gone)
        if page.cursor is not None and is_whole:
            applied.deleted += await self._remove_absent()
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

    async def _remove_absent(self) -> int:
        """Delete the link's entities at the server that this catalog no longer has."""
        await check_absent(self._flow)
        self._listing = None
        return await remove_unwanted(self._flow, is_unwanted(self._flow))

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
