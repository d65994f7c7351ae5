"""Serves the replication feed: pages of changes, snapshots and single origins, as lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from aiohttp import web

from catalog.context import CLIENT, CONTEXT, Context
from catalog.http.responses import shown_or_none
from catalog.http.route import Route
from catalog.http.stream import DEADLINE, LONG_POLLS, RENEW, in_pieces, send, stream_share
from catalog.model.concorderrors import CatalogRecovering
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest
from catalog.operations import feed
from catalog.operations.feed import LONGEST_WAIT, MOST_CHANGES, ChangesQuery, CopyQuery
from catalog.operations.operation import LINES
from catalog.operations.peers import WantedOrigins
from catalog.store import entities as store
from catalog.store.changes import Head, LogCursor, Position, read_head
from catalog.store.connections import Connections
from catalog.store.database import Connection, SharedDatabase
from replication.deciding.copychecks import Copy
from replication.deciding.provenance import CopyFilter
from replication.deciding.selection import paths_to
from replication.feed.feedlines import write_copy, write_end
from replication.feed.feedpages import (
    FeedPages,
    LogLost,
    Page,
    ServerLeft,
    as_seen,
    read_copies,
    read_feed,
)
from replication.feed.followers import reports_of
from replication.store import copies as stored_copies
from replication.store.loghistory import read_cursor

_HEADERS = {"Content-Type": LINES}
_DOCUMENTS_AT_ONCE = 16


async def cursor_at(context: Context, connection: Connection, position: Position) -> str:
    """The cursor of a position: opaque to readers, and valid for the log of one instance only."""
    return str(await read_cursor(connection, context.database.node.instance, position))


@asynccontextmanager
async def at_head(
    context: Context, pool: Connections
) -> AsyncIterator[tuple[Connection, Head, str]]:
    """A snapshot of the catalog, with the head of the log, and the cursor of the head."""
    async with context.database.snapshot(pool) as connection:
        head = await read_head(connection)
        yield connection, head, await cursor_at(context, connection, head.now)


def pages_of(database: SharedDatabase) -> FeedPages:
    """The pages shared by the readers of the node's feed."""
    return database.part(FeedPages, lambda: FeedPages(database))


async def get_changes(request: web.Request, query: ChangesQuery) -> web.StreamResponse:
    """Read a page of the changes, for which a reader may wait.

    A page has the changed entities in the present state, and the ancestors, parents first. With
    `behind`, the last line also has the number of remaining changes.

    Raises:
        TooManyAtOnce: too many requests of the client are waiting already.
    """
    context = request[CONTEXT]
    wanted = filter_of(query)
    limit = max(1, min(MOST_CHANGES, query.limit))
    wait = min(LONGEST_WAIT, query.wait)
    cursor = _read_cursor(request, query.after, context)
    position, told = cursor.position, query.after
    pages = pages_of(context.database.shared)
    await pages.check(request.path, cursor)
    followers = reports_of(context.database.shared)
    followers.note(request, wanted, position)
    if not wait:
        page = await read_feed(context.database, request.path, position, limit)
        told = page.cursor or told
        behind = page.behind if query.behind else None
        return await _send_page(request, context, page.select(wanted), told, behind)
    request[DEADLINE].extend(wait)
    async with request.app[LONG_POLLS].hold(request[CLIENT], wait_seconds=0, path=request.path):
        page = await _as_seen(request, await pages.read_first(request.path, position, limit))
        copies, seen, behind = page.select(wanted), page.seen, page.behind
        told = page.cursor or told
        try:
            async with asyncio.timeout(wait) as waiting:
                while not copies:
                    del page  # Frees the copies that the filter left out while the reader waits.
                    page = await _as_seen(request, await pages.read_next(request.path, seen, limit))
                    copies, seen, behind = page.select(wanted), page.seen, page.behind
                    told = page.cursor or told
                    if not copies:
                        # The follower lacks nothing of its selection, though the log has grown.
                        followers.note(request, wanted, seen)
        except TimeoutError:
            if not waiting.expired():
                raise
        except ServerLeft:
            # The reader comes again with its cursor, which is then checked against the new server.
            copies, behind = (), 0
    return await _send_page(request, context, copies, told, behind if query.behind else None)


async def _as_seen(request: web.Request, page: Page) -> Page:
    """The part of a page that the client may see, by renewed rights after a long wait."""
    if not page.copies:
        return page
    context = await request.app[RENEW](request)
    return await as_seen(context.database, page)


async def _send_page(
    request: web.Request,
    context: Context,
    copies: Sequence[Copy],
    cursor: str,
    behind: int | None = None,
) -> web.StreamResponse:
    """Send a page, and read documents while sending, so that large documents take little memory.

    Entities that changed since the page was read are sent in the new state, and once more in a
    later page.
    """

    async def lines() -> AsyncGenerator[bytes]:
        async for _, line in lines_of(context, copies):
            yield line
        yield write_end(cursor, behind)

    return await send(request, in_pieces(lines()), _HEADERS, takes_share=True)


async def lines_of(context: Context, copies: Sequence[Copy]) -> AsyncIterator[tuple[Copy, bytes]]:
    """Copies with their lines, except copies that are deleted or cannot be shown."""
    for start in range(0, len(copies), _DOCUMENTS_AT_ONCE):
        for copy in await _read_again(context, copies[start : start + _DOCUMENTS_AT_ONCE]):
            if line := shown_or_none(copy.xid, partial(write_copy, copy)):
                yield copy, line


async def _read_again(context: Context, chunk: Sequence[Copy]) -> list[Copy]:
    """Load copies with documents, in the present state of entities that have a document.

    Entities are left out that are deleted, or whose path has an entity of another authority by now.
    Tombstones are kept, even if an entity has the path.
    """
    versions = {c.xid for c in chunk if isinstance(c, Entity) and c.document_sha256 is not None}
    if not versions:
        return list(chunk)
    async with context.database.snapshot(context.database.pools.feed) as connection:
        now = await store.load(connection, versions)
        present = [
            now.get(copy.xid) if isinstance(copy, Entity) and copy.xid in versions else copy
            for copy in chunk
        ]
        kept = [
            there
            for copy, there in zip(chunk, present, strict=True)
            if there is not None and there.authority == copy.authority
        ]
        return await _with_documents(connection, kept)


async def _with_documents(connection: Connection, chunk: Sequence[Copy]) -> list[Copy]:
    wanted = [c.xid for c in chunk if isinstance(c, Entity) and c.document_sha256 is not None]
    if not wanted:
        return list(chunk)
    documents = await store.load_documents(connection, wanted)
    return [
        replace(copy, document=documents.get(copy.xid)) if isinstance(copy, Entity) else copy
        for copy in chunk
    ]


async def get_snapshot(request: web.Request, query: CopyQuery) -> web.StreamResponse:
    """Read all copies at one time, and the cursor of that time."""
    context, wanted = request[CONTEXT], filter_of(query)
    pool = context.database.pools.streams
    async with stream_share(request), at_head(context, pool) as (connection, head, cursor):
        check_complete(context, head, wanted.authorities, request.path)

        async def lines() -> AsyncGenerator[bytes]:
            async for copy in _all_copies(connection, wanted):
                if line := shown_or_none(copy.xid, partial(write_copy, copy)):
                    yield line
            yield write_end(cursor)

        return await send(request, in_pieces(lines()), _HEADERS)


async def _all_copies(connection: Connection, wanted: CopyFilter) -> AsyncIterator[Copy]:
    authorities = None if wanted.authorities is None else sorted(wanted.authorities)
    chunk: list[Copy] = []
    if authorities and wanted.scope:
        above = {path for each in wanted.scope for path in paths_to(each)}
        entities = stored_copies.stream_entities_within(
            connection, authorities, sorted(above), wanted.scope
        )
    else:
        entities = stored_copies.stream_entities(connection, authorities)
    async for entity in entities:
        if wanted.admits(entity):
            chunk.append(entity)
        if len(chunk) == _DOCUMENTS_AT_ONCE:
            for copy in await _with_documents(connection, chunk):
                yield copy
            chunk = []
    for copy in await _with_documents(connection, chunk):
        yield copy
    async for tombstone in stored_copies.stream_tombstones(connection, authorities):
        if wanted.admits(tombstone):
            yield tombstone


async def post_fetch(request: web.Request, wanted: WantedOrigins) -> web.StreamResponse:
    """Read single origins in their present state, with their ancestors."""
    context = request[CONTEXT]
    async with at_head(context, context.database.pools.feed) as (connection, _, cursor):
        copies = await read_copies(connection, wanted.to_origins())
    return await _send_page(request, context, copies, cursor)


def check_complete(
    context: Context, head: Head, authorities: Collection[str] | None, subject: str
) -> None:
    """Refuse a complete copy of the node's own entities before the node has recovered them.

    A follower that has been reset would drop the replicas, which may be the last copies.

    Raises:
        CatalogRecovering
    """
    is_own = authorities is None or context.database.node.authority in authorities
    if is_own and not head.is_complete:
        raise CatalogRecovering(subject)


def filter_of(query: CopyQuery) -> CopyFilter:
    """The filter of a query."""
    return CopyFilter(
        authorities=frozenset(query.authority) or None,
        scope=tuple(query.scope),
        types=tuple(query.type),
    )


def _read_cursor(request: web.Request, text: str, context: Context) -> LogCursor:
    try:
        cursor = LogCursor.parse(text)
    except ValueError as error:
        raise BadRequest(
            request.path,
            error_detail='"after" is not a cursor of this feed',
            detail="Begin with /replication/snapshot, which ends with a cursor.",
        ) from error
    if not cursor.is_of(context.database.node.instance):
        raise LogLost(request.path, error_detail="it is from the log of another instance")
    return cursor


routes: Sequence[Route] = (
    Route(feed.READ_CHANGES, get_changes),
    Route(feed.READ_SNAPSHOT, get_snapshot),
    Route(feed.FETCH, post_fetch),
)
