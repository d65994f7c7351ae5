"""The source of sending links: this node's log and catalog; their conflicts and cursors."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from catalog.context import Context
from catalog.model.entity import Origin
from catalog.operations.feed import MOST_CHANGES, Verdict
from catalog.store.changes import LogCursor, Position, read_head
from catalog.store.links import LinkDefinition
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Copy
from replication.deciding.provenance import CopyFilter, filter_of
from replication.feed.feedpages import CursorGone, Page, ServerLeft, read_copies, read_feed
from replication.feed.feedrequests import pages_of
from replication.store import copies as stored_copies
from replication.store import linkconflicts
from replication.transfer.comparison import DigestComparison
from replication.transfer.linkrun import BeginAgain, LinkRun, until_woken
from replication.transfer.transfer import LinkPage, LinkSource

# The subject of errors about this node's log.
_LOG = "/replication/changes"
_ORIGINS_AT_ONCE = 1000
_CONFLICTS_AT_ONCE = 200
_CURSOR = re.compile(r"([0-9a-f]{32})(\.[0-9a-f.]{1,80})@(.*)")


@dataclass(slots=True, kw_only=True)
class SentPage(LinkPage):
    """Copies that are sent together, up to a position of this node's log.

    Args:
        copies: the copies that the link sends, with their ancestors, parents first.
        changed: the xids of the copies that changed themselves.
        is_again: the copies were refused before.
    """

    cursor: Position | None = None
    copies: Sequence[Copy] = ()
    changed: frozenset[str] = frozenset()
    is_again: bool = False


class OwnLog(LinkSource):
    """Reads the node's log as it grows.

    Args:
        admits: whether the target takes a copy that the link sends; every copy by default.
        retries_refused: retry copies with the verdict `REFUSED` even without an operator's request.
        tombstones: a complete copy includes tombstones.
    """

    def __init__(
        self,
        run: LinkRun,
        admits: Callable[[Copy], bool] = lambda copy: True,
        *,
        retries_refused: bool = False,
        tombstones: bool = True,
    ) -> None:
        self._run = run
        self._admits = admits
        self._retries_refused = retries_refused
        self._tombstones = tombstones

    async def everything(self, after: Position | None) -> AsyncGenerator[SentPage]:
        """The whole catalog: entities, parents first, then deletions.

        Each page shows a later time: the log brings the changes in between.
        """
        database, wanted = self._run.database, self._wanted
        # Read before the entities, so that the log brings what changes while they are read.
        async with database.snapshot(database.pools.feed) as connection:
            head = await read_head(connection)
        authorities = None if wanted.authorities is None else sorted(wanted.authorities)
        for read in (stored_copies.page_entities, stored_copies.page_tombstones):
            if read is stored_copies.page_tombstones and not self._tombstones:
                break
            after_origin = Origin("", "")
            while True:
                async with database.snapshot(database.pools.feed) as connection:
                    origins = await read(connection, authorities, after_origin, _ORIGINS_AT_ONCE)
                    copies = await read_copies(connection, origins)
                if not origins:
                    break
                after_origin = origins[-1]
                among = {*origins}
                changed = frozenset(copy.xid for copy in copies if origin_of(copy) in among)
                yield self._page(Page(copies=copies, changed=changed, end=head.now, seen=head.now))
        yield SentPage(cursor=head.now)

    async def differing(self, found: DigestComparison) -> AsyncGenerator[SentPage]:
        """The differing origins, and the position before the comparison."""
        for start in range(0, len(found.wanted), _ORIGINS_AT_ONCE):
            copies = await self._read(found.wanted[start : start + _ORIGINS_AT_ONCE])
            yield SentPage(copies=copies, changed=frozenset(copy.xid for copy in copies))
        yield SentPage(cursor=found.cursor)

    async def changes(self, cursor: Position) -> AsyncGenerator[SentPage]:
        """The pages of the log as it grows; `BeginAgain` if it does not go on from the cursor."""
        database, run = self._run.database, self._run
        page: Page | None = None
        left = database.shared.servers_left
        while True:
            run.wakeup.clear()
            if database.shared.servers_left != left:
                raise ServerLeft(_LOG)
            try:
                page = page or await read_feed(database, _LOG, cursor, MOST_CHANGES)
                yield self._page(page, cursor=page.end, is_last=page.end < page.seen)
                cursor, is_last = page.end, page.end < page.seen
                page = await self._next(page.seen) if is_last else None
            except CursorGone as error:
                raise BeginAgain(error.title) from error

    async def again(self, *, is_requested: bool) -> AsyncGenerator[SentPage]:
        """The refused copies in their present state; conflicts of deselected copies are dropped."""
        run = self._run
        has_refused = is_requested or self._retries_refused
        async for found in run.conflicts(_CONFLICTS_AT_ONCE):
            again = [c.origin for c in found if has_refused or c.verdict != Verdict.REFUSED]
            if not again:
                continue
            copies = await self._read(again)
            gone = set(again) - {origin_of(copy) for copy in copies}
            async with run.database.transaction() as connection:
                await linkconflicts.drop(connection, run.link.id, list(gone))
            changed = frozenset(copy.xid for copy in copies if origin_of(copy) in {*again})
            yield SentPage(copies=copies, changed=changed, is_again=True)

    @property
    def _wanted(self) -> CopyFilter:
        return sent_by(self._run.context, self._run.link.definition)

    def _page(
        self, page: Page, *, cursor: Position | None = None, is_last: bool = False
    ) -> SentPage:
        return SentPage(
            copies=[copy for copy in page.select(self._wanted) if self._admits(copy)],
            changed=page.changed,
            cursor=cursor,
            behind=None if cursor is None else page.behind,
            is_last=is_last,
        )

    async def _read(self, origins: Sequence[Origin]) -> list[Copy]:
        database = self._run.database
        async with database.snapshot(database.pools.feed) as connection:
            copies = await read_copies(connection, origins)
        return [copy for copy in copies if self._wanted.admits(copy) and self._admits(copy)]

    async def _next(self, seen: Position) -> Page | None:
        """Wait for the page after a position; `None` if other work is due first."""
        run = self._run
        reading = pages_of(run.database.shared).read_next(_LOG, seen, MOST_CHANGES)
        try:
            async with asyncio.timeout(run.interval) as waiting:
                return await until_woken(reading, run.wakeup)
        except TimeoutError:
            if not waiting.expired():
                raise
            return None


def sent_by(context: Context, definition: LinkDefinition) -> CopyFilter:
    """The copies that a link sends: copies of this node's authority, or of named authorities."""
    return filter_of(definition, context.database.node.authority)


def write_push_cursor(instance: uuid.UUID, cursor: LogCursor, link: str) -> str:
    """The text of a cursor that a target keeps, a position in this log.

    The text names the log and the link, since a different link may send less.
    """
    return f"{instance.hex}{str(cursor).removeprefix(cursor.instance)}@{link}"


def read_push_cursor(instance: uuid.UUID, link: str, text: str | None) -> LogCursor | None:
    """The cursor in this log; `None` for a cursor of a different log or link."""
    found = _CURSOR.fullmatch(text or "")
    if found is None or found[1] != instance.hex or found[3] != link:
        return None
    try:
        return LogCursor.parse(f"{instance.hex[:8]}{found[2]}")
    except ValueError:
        return None
