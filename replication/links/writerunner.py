"""Runs one link that writes to a server of other software."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from catalog.model.masking import counted
from catalog.operations.feed import MOST_CHANGES
from catalog.store import links, writtenentities
from catalog.store.changes import Position, read_head
from catalog.store.links import LinkReplaced
from replication.applying.deletionlimit import TooManyDeletions
from replication.feed.feedpages import CursorGone, Page, read_feed
from replication.feed.ownlog import LOG, next_page
from replication.links.linkrunner import LinkRunner
from replication.sinks.writeflow import position_of, write_again, write_everything, write_page
from replication.sinks.writeremoval import remove_unwanted
from replication.sinks.writeresults import WriteLink
from replication.targets.probe import open_target

# A fault of the server that came so often in a row is that of one entity.
_TOLERANT_AFTER = 5
# What was refused is tried again after so many seconds, then after twice as many, and so on.
_LONGEST_PAUSE = 3600.0


class WriteRunner(LinkRunner):
    """Writes all entities to the server of a link, then every change.

    The cursor is saved here once the server has answered: after a crash, the same is written
    again.
    """

    _pause = 0.0

    async def _follow(self) -> None:
        await self._await_permission()
        flow, saved = await self._meet_server()
        if self.link.drops or self.link.ends:
            await self._remove_all(flow)
        try:
            position = await self._known_position(flow, saved)
            if position is None:
                position = await self._write_all(flow)
            await self._write_changes(flow, position)
        except CursorGone as error:
            async with self._database.transaction() as connection:
                await links.forget_cursor(connection, self.link)
            await self._remember("resynchronise", error.title)
            await self._resources.timing.sleep(self._delay(1))
        except TooManyDeletions:
            # The question is stored: the link waits for its answer when it begins again.
            return

    async def _meet_server(self) -> tuple[WriteLink, str | None]:
        context, definition = self._resources.context, self.link.definition
        mark = f"{self.id} of {self._database.node.authority}"
        target = await open_target(
            context,
            self._resources.session,
            definition,
            mark,
            context.settings.request_timeout_seconds,
            self._access,
        )
        async with self._database.transaction() as connection:
            saved = await links.meet(
                connection, self.link, self._database.node.instance, target.root, None
            )
            await writtenentities.forget_elsewhere(connection, self.id, target.root)
        flow = WriteLink(
            context=context,
            link=self.link,
            target=target,
            mark=mark,
            is_tolerant=self._failures >= _TOLERANT_AFTER,
        )
        return flow, saved

    async def _remove_all(self, flow: WriteLink) -> None:
        """Delete what the link has brought, at the command of an operator."""
        if self._has_dropped:
            return
        number = await remove_unwanted(flow, lambda _: True)
        async with self._database.transaction() as connection:
            if self.link.ends:
                await links.delete(connection, self.id)
            else:
                await links.note_dropped(connection, self.link)
        if self.link.ends:
            raise LinkReplaced(self.id)
        self._has_dropped = True
        await self._remember("dropped", f"{counted(number, 'entities')} at the server")

    async def _known_position(self, flow: WriteLink, saved: str | None) -> Position | None:
        position = position_of(flow, saved)
        if position is None:
            if saved is not None:
                await self._remember("resynchronise", "the server has another catalog than before")
            return None
        async with self._database.snapshot(self._database.pools.tasks) as connection:
            head = await read_head(connection)
        return position if head.reaches(position) else None

    async def _write_all(self, flow: WriteLink) -> Position:
        await self._report("copying")
        compares = not self.link.copiesall
        position, written, deleted = await write_everything(flow, compares=compares)
        told = f"{counted(written, 'entities')} written, {deleted:,} deleted"
        await self._remember("compared", told)
        return position

    async def _write_changes(self, flow: WriteLink, position: Position) -> None:
        """Write the pages of the log as it grows, for ever."""
        interval = self._resources.context.settings.pull_interval_seconds
        page: Page | None = None
        while True:
            self.wakeup.clear()
            page = page or await read_feed(self._database, LOG, position, MOST_CHANGES)
            if page.end != position and await write_page(flow, page):
                self._pause = interval
            position = page.end
            if page.end >= page.seen:
                page = None
                continue
            await self._write_refused(flow)
            self._failures = 0
            await self._report("current", currentat=datetime.now(UTC))
            page = await next_page(self._database, self.wakeup, page.seen, interval)

    async def _write_refused(self, flow: WriteLink) -> None:
        """Write again what the server refused: when asked to, and now and then."""
        now, requested = asyncio.get_running_loop().time(), self._requested
        if requested == self._retried and now < self._retried_at + self._pause:
            return
        self._retried_at, self._retried = now, requested
        number = await write_again(flow)
        interval = self._resources.context.settings.pull_interval_seconds
        self._pause = interval if number else min(_LONGEST_PAUSE, 2 * max(self._pause, interval))
