"""Reads pages of the feed, each page once for the waiting readers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial

from catalog.model.caller import EVERYTHING, PublishedAuthor, node_caller
from catalog.model.change import UNTOLD
from catalog.model.concorderrors import CONCORD
from catalog.model.entity import Origin
from catalog.model.errors import ServerBusy, XRegistryError
from catalog.model.tracecontext import TraceContext
from catalog.model.xid import depth, group_path, resource_of
from catalog.operations.feed import MOST_CHANGES
from catalog.store.accessrules import covered_groups
from catalog.store.changes import LogCursor, LoggedChange, Position, read_page
from catalog.store.database import Connection, Database, SharedDatabase, wait_for
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Copy
from replication.deciding.provenance import CopyFilter
from replication.store.copies import load_with_ancestors
from replication.store.loghistory import read_cursor, why_lost

# Pauses in seconds: a committed change stays hidden while an older transaction is open, and the end
# of the older transaction sends no signal, so the log is read again soon, then less often.
_FIRST_PAUSE, _LAST_PAUSE = 0.002, 5.0
# After each so many woken readers, other tasks of the event loop have their turn.
_WOKEN_AT_ONCE = 2
# Waiting readers share pages, so the limit of a reader is rounded down to a common limit.
_SHARED_LIMITS = (1000, 100, 10, 1)
_MOST_SHARED = 16
_MOST_CHECKED = 64


class CursorGone(XRegistryError):
    """The feed cannot continue from a cursor without leaving out changes."""

    name = "cursor_gone"
    status = 410
    home = CONCORD
    template = "<subject> can't go on from this cursor: <error_detail>."


class LogLost(CursorGone):
    """The log lacks changes that the reader of a cursor may have, since the log has diverged."""

    name = "log_lost"
    template = "The log has lost what came before this cursor: <error_detail>."


class ServerLeft(ServerBusy):
    """A different database server answers than the server whose log a reader waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The entities that changed after a position, in the present state, without documents.

    `copies` has the entities and tombstones of every authority, with the ancestors of the
    entities, parents first; `changed` are the xids of the changed entities, without unchanged
    ancestors. The next page begins after `end`, whose text form is `cursor`, "" if nothing was
    logged. The log has no further changes up to `seen`, and about `behind` changes after `seen`.
    The page `hides` changes if later changes are committed while an earlier transaction is open.
    """

    copies: Sequence[Copy]
    changed: frozenset[str]
    end: Position
    seen: Position
    behind: int = 0
    hides: bool = False
    cursor: str = ""

    def select(self, wanted: CopyFilter) -> Sequence[Copy]:
        """The copies that a filter admits, with the ancestors of the entities."""
        if wanted == _EVERYTHING:
            return self.copies
        # After a handover, the tombstone of the giver and the entity of the taker have the same
        # path, so entities are identified by authority and xid.
        shown: set[tuple[str, str]] = set()
        for copy in self.copies:
            if copy.xid in self.changed and wanted.admits(copy):
                paths = (copy.xid, resource_of(copy.xid), group_path(copy.xid))
                shown.update((copy.authority, path) for path in paths)
        return [copy for copy in self.copies if (copy.authority, copy.xid) in shown]


_EVERYTHING = CopyFilter()


async def read_copies(connection: Connection, origins: Iterable[Origin]) -> list[Copy]:
    """The entities and tombstones of the given origins, with the ancestors of the entities."""
    copies, _ = await _read_changed(connection, origins)
    return copies


async def _read_changed(
    connection: Connection, origins: Iterable[Origin]
) -> tuple[list[Copy], frozenset[str]]:
    origins = set(origins)
    if not origins:
        return [], frozenset()
    found = await load_with_ancestors(connection, origins)
    changed: list[Copy] = [*found.tombstones.values(), *found.entities]
    copies = sorted([*changed, *found.ancestors], key=lambda copy: (depth(copy.xid), copy.xid))
    return copies, frozenset(copy.xid for copy in changed)


def _told(copies: list[Copy], logged: Sequence[LoggedChange]) -> list[Copy]:
    """The copies with the traces and the published authors of their last changes."""
    traces: dict[Origin, TraceContext] = {}
    authors: dict[Origin, PublishedAuthor | None] = {}
    for each in logged:
        origin = Origin(each.change.authority, each.change.origin)
        if each.trace is not None:
            traces[origin] = each.trace
        if each.change.action not in UNTOLD:
            authors[origin] = each.author
    # Most changes have neither.
    if not (traces or any(authors.values())):
        return copies
    told = ((copy, origin_of(copy)) for copy in copies)
    return [replace(copy, trace=traces.get(o), author=authors.get(o)) for copy, o in told]


async def read_feed(database: Database, path: str, after: Position, limit: int) -> Page:
    """Read the page after a position, as visible to the caller of the database.

    Args:
        path: the path of the request.

    Raises:
        CursorGone
    """
    # Entities are read after the log, so a change in between is sent twice rather than missed: a
    # later page has the newer state again.
    async with database.acquire(database.pools.feed) as connection:
        log = await read_page(connection, after, limit)
        if not log.head.reaches(after):
            raise CursorGone(
                path,
                error_detail="the change log does not reach from there to now",
                detail="Read /replication/snapshot, which ends with a cursor.",
            )
        logged = log.changes
        origins = {
            Origin(entry.change.authority, entry.change.origin)
            for entry in logged
            if entry.change.kind != "registry"
        }
        copies, changed = await _read_changed(connection, origins)
        end = logged[-1].position if logged else after
        cursor = str(await read_cursor(connection, database.node.instance, end)) if logged else ""
    is_last = len(logged) < limit
    return Page(
        copies=_told(copies, logged),
        changed=changed,
        end=end,
        seen=log.head.now if is_last else end,
        # Numbers of the log are counted, not rows: a follower may be millions behind.
        behind=0 if is_last else max(0, log.newest.seq - end.seq),
        hides=is_last and log.newest > end,
        cursor=cursor,
    )


async def as_seen(database: Database, page: Page) -> Page:
    """A page without the copies that the caller of the database may not see now."""
    shown = database.caller.sees
    if shown is EVERYTHING or not page.copies:
        return page
    groups = {group_path(copy.xid) for copy in page.copies}
    async with database.acquire() as connection:
        seen = await covered_groups(connection, shown.rules, groups)
    return replace(page, copies=[c for c in page.copies if group_path(c.xid) in seen])


class FeedPages:
    """The pages of a node's feed.

    While readers wait, a single task follows the log, and readers at the same position share one
    page. When the log has grown, readers are woken a few at a time, and get the page that the task
    has read. Pages show every entity: `as_seen` leaves out the copies that a caller may not see.
    """

    def __init__(self, database: SharedDatabase) -> None:
        self._database = Database(database, node_caller())
        self._follower: asyncio.Task[None] | None = None
        # For each waiting reader, the position up to which the reader has seen the changes.
        self._waiting: dict[asyncio.Future[Position], Position] = {}
        # The log has no changes between the two positions, as seen by the follower.
        self._end = self._seen = Position(0, 0)
        self._shared: dict[tuple[Position, int], asyncio.Future[Page]] = {}
        # Cursors from which the log of the present server continues.
        self._checked: set[tuple[int, str]] = set()

    @property
    def waiting(self) -> int:
        """The number of waiting readers."""
        return len(self._waiting)

    async def check(self, path: str, cursor: LogCursor) -> None:
        """Check that the log continues from a cursor, as far as the log reaches back.

        The result is cached: many readers send the same cursor, and no server goes back in time
        while running.

        Raises:
            LogLost
        """
        key = self._database.shared.servers_left, str(cursor)
        if key in self._checked:
            return
        async with self._database.acquire(self._database.pools.feed) as connection:
            if reason := await why_lost(connection, cursor):
                raise LogLost(path, error_detail=reason)
        if len(self._checked) >= _MOST_CHECKED:
            self._checked.clear()
        self._checked.add(key)

    async def read_first(self, path: str, after: Position, limit: int) -> Page:
        """Read the page after a position for a reader that will wait if the page is empty.

        Raises:
            CursorGone
        """
        if self._follower is not None and self._end <= after <= self._seen:
            return Page(copies=(), changed=frozenset(), end=after, seen=self._seen)
        return await self._read_shared(path, after, limit)

    async def read_next(self, path: str, seen: Position, limit: int) -> Page:
        """Wait for changes after the position that a reader has seen, and read the changes.

        Raises:
            CursorGone
        """
        return await self._read_shared(path, await self._growth(seen), limit)

    async def _read_shared(self, path: str, after: Position, limit: int) -> Page:
        key = after, next(each for each in _SHARED_LIMITS if each <= limit)
        reading = self._shared.get(key)
        if reading is None:
            if len(self._shared) >= _MOST_SHARED:
                return await read_feed(self._database, path, *key)
            # An empty context, since the page is for many readers: logs and traces must not name
            # the first reader.
            reading = asyncio.create_task(read_feed(self._database, path, *key), context=Context())
            self._shared[key] = reading
            reading.add_done_callback(partial(self._forget, key))
        # The cancellation of one reader must not end the read for the remaining readers.
        return await asyncio.shield(reading)

    def _forget(self, key: tuple[Position, int], reading: asyncio.Future[Page]) -> None:
        """Forget a page that was not read, or that no follower would replace when the log grows."""
        is_read = not reading.cancelled() and reading.exception() is None
        if not (is_read and self._follower) and self._shared.get(key) is reading:
            del self._shared[key]

    async def _growth(self, seen: Position) -> Position:
        """Wait for changes after `seen`; return a position before the changes."""
        if self._follower is None:
            self._end = self._seen = seen
            self._follower = asyncio.create_task(self._follow(), context=Context())
        elif self._end > seen:
            return seen
        woken: asyncio.Future[Position] = asyncio.get_running_loop().create_future()
        # Nothing was awaited since the tests above: the follower cannot end or pass `seen` between.
        self._waiting[woken] = seen
        try:
            return await woken
        finally:
            del self._waiting[woken]

    async def _follow(self) -> None:
        """Follow the log while readers wait.

        The task ends between two looks and is never cancelled, since the cancellation of a query
        loses the connection.
        """
        pause, left = _FIRST_PAUSE, self._database.shared.servers_left
        try:
            while self._waiting:
                if self._database.signal.is_ended or self._database.shared.servers_left != left:
                    return self._dismiss()
                ticket, seen = self._database.signal.ticket(), self._seen
                try:
                    page = await self._look()
                except ServerBusy:
                    await self._database.recovered()
                    continue
                except CursorGone:
                    # The log ends before the seen position, or begins after the seen position.
                    return self._dismiss()
                if page.end > seen:
                    await self._wake(seen)
                if page.end > seen and page.seen == page.end:
                    continue
                was_woken = await wait_for(ticket, pause if page.hides else _LAST_PAUSE)
                is_still_hidden = page.hides and not was_woken
                pause = min(2 * pause, _LAST_PAUSE) if is_still_hidden else _FIRST_PAUSE
        finally:
            self._follower = None
            self._shared.clear()

    def _dismiss(self) -> None:
        """End every wait; readers send their cursors again, and the cursors are checked."""
        for woken in self._waiting:
            if not woken.done():
                woken.set_exception(ServerLeft("/replication/changes"))

    async def _look(self) -> Page:
        """Read the page after the seen position, and share the page with waiting readers."""
        page = await read_feed(self._database, "/replication/changes", self._seen, MOST_CHANGES)
        if page.end > self._seen:
            self._shared.clear()
            read: asyncio.Future[Page] = asyncio.get_running_loop().create_future()
            read.set_result(page)
            self._shared[self._seen, MOST_CHANGES] = read
            self._end = page.end
        self._seen = page.seen
        return page

    async def _wake(self, seen: Position) -> None:
        """Wake the waiting readers, a few at a time, since thousands may wait.

        After each step, the loop serves the woken readers, and then further tasks for as long.

        Args:
            seen: the position before the changes. Every reader gets the same position, so that
                readers share a page.
        """
        loop = asyncio.get_running_loop()
        for number, (woken, waits_after) in enumerate([*self._waiting.items()], start=1):
            if waits_after < self._end and not woken.done():
                woken.set_result(seen)
            if number % _WOKEN_AT_ONCE == 0:
                begun = loop.time()
                await asyncio.sleep(0)  # The woken readers answer.
                await asyncio.sleep(loop.time() - begun)
        await asyncio.sleep(0)
