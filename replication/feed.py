"""Serves the replication feed: pages of changes, snapshots and single origins, as lines."""

from __future__ import annotations

import asyncio
import re
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.body import read_json
from catalog.model.concorderrors import CONCORD
from catalog.model.entity import Entity, Origin
from catalog.model.errors import BadRequest, ServerBusy, XRegistryError
from catalog.model.xid import Xid, depth
from catalog.store import copies as stored_copies
from catalog.store import entities as store
from catalog.store.changes import Position, read_changes, read_head
from catalog.store.database import Connection, Database, wait_for
from replication.decide import Copy, CopyFilter
from replication.feedlines import MEDIA_TYPE, write_copy, write_end
from replication.wire import OriginsBody, is_scope, read_as

_MOST_CHANGES = 1000
_MOST_NAMED = 100
_LONGEST_WAIT = 30.0
# A committed change stays hidden while an older transaction is open, and there is no signal when
# that one ends: so read again soon after a signal, then less often.
_FIRST_PAUSE, _LAST_PAUSE = 0.02, 5.0
_CHUNK_BYTES = 128 * 1024
_DOCUMENTS_AT_ONCE = 16
_MOST_STREAMS = 4
_SEND_SECONDS = 60.0
_CURSOR = re.compile(r"([0-9a-f]{8})\.([0-9]{1,19}\.[0-9]{1,19})")
_NUMBER = re.compile(r"[0-9]{1,9}")

_streams: weakref.WeakKeyDictionary[Database, int] = weakref.WeakKeyDictionary()


class CursorGone(XRegistryError):
    """The feed cannot continue from a cursor without leaving out changes."""

    name = "cursor_gone"
    status = 410
    home = CONCORD
    template = "<subject> can't go on from this cursor: <error_detail>."


def cursor_at(context: Context, position: Position) -> str:
    """The cursor of a position: opaque to readers, and valid for the log of this instance only."""
    return f"{context.database.node.instance.hex[:8]}.{position}"


async def get_changes(request: web.Request) -> web.StreamResponse:
    """`GET /replication/changes`: one page, for which a reader may wait.

    A page has the changed entities in their present state, and their ancestors, parents first.
    """
    context = request.app[CONTEXT]
    wanted = read_filter(request)
    limit = max(1, min(_MOST_CHANGES, read_number(request, "limit", _MOST_CHANGES)))
    wait = min(_LONGEST_WAIT, float(read_number(request, "wait", 0)))
    position = _read_cursor(request, context)
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + wait, _LAST_PAUSE
    while True:
        ticket = context.database.signal.ticket()
        copies, end = await _read_page(request, context, position, limit, wanted)
        left = deadline - loop.time()
        if copies or left <= 0:
            return await _send_page(request, context, copies, end)
        if end == position:
            was_woken = await wait_for(ticket, min(left, pause))
            pause = _FIRST_PAUSE if was_woken else min(_LAST_PAUSE, pause * 2)
        position = end


async def _read_page(
    request: web.Request, context: Context, after: Position, limit: int, wanted: CopyFilter
) -> tuple[list[Copy], Position]:
    """Copies without documents, and the position after which the next page begins."""
    async with context.database.snapshot() as connection:
        if not (await read_head(connection)).reaches(after):
            raise CursorGone(
                request.path,
                error_detail="the change log does not reach from there to now",
                detail="Read /replication/snapshot, which ends with a cursor.",
            )
        logged = await read_changes(connection, after, limit)
        origins = {
            Origin(entry.change.authority, entry.change.origin)
            for entry in logged
            if entry.change.kind != "registry"
        }
        copies = await _load_copies(connection, origins, wanted)
    return copies, logged[-1].position if logged else after


async def _load_copies(
    connection: Connection, origins: Iterable[Origin], wanted: CopyFilter
) -> list[Copy]:
    """The entities and tombstones of these origins, with the ancestors of the entities."""
    origins = set(origins)
    if not origins:
        return []
    live = await store.load_by_origin(connection, origins)
    deleted = await store.load_tombstones(connection, origins - live.keys())
    copies = {e.xid: e for e in live.values() if e.kind != "registry" and wanted.admits(e)}
    ancestors = {xid for entity in copies.values() for xid in _ancestors(entity.xid)}
    copies |= await store.load(connection, ancestors - copies.keys())
    tombstones: list[Copy] = [t for t in deleted.values() if wanted.admits(t)]
    return sorted([*tombstones, *copies.values()], key=lambda copy: (depth(copy.xid), copy.xid))


def _ancestors(text: str) -> list[str]:
    xid = Xid.parse(text)
    found = {"version": [xid.group, xid.resource], "resource": [xid.group]}.get(xid.kind, [])
    return [str(ancestor) for ancestor in found]


async def _send_page(
    request: web.Request, context: Context, copies: Sequence[Copy], position: Position
) -> web.StreamResponse:
    """Send a page; documents are read while it is sent, so that large ones take little memory.

    Entities that changed since the page was read are sent in their new state, and once more in a
    later page.
    """

    async def lines() -> AsyncIterator[bytes]:
        for start in range(0, len(copies), _DOCUMENTS_AT_ONCE):
            chunk = copies[start : start + _DOCUMENTS_AT_ONCE]
            for copy in await _read_again(context, chunk):
                yield write_copy(copy)
        yield write_end(cursor_at(context, position))

    return await _send(request, lines())


async def _read_again(context: Context, chunk: Sequence[Copy]) -> list[Copy]:
    versions = [c.xid for c in chunk if isinstance(c, Entity) and c.document_sha256 is not None]
    if not versions:
        return list(chunk)
    async with context.database.snapshot() as connection:
        now = await store.load(connection, versions)
        kept = [c for c in chunk if c.xid not in versions or c.xid in now]
        return await _with_documents(connection, [now.get(c.xid, c) for c in kept])


async def _with_documents(connection: Connection, chunk: Sequence[Copy]) -> list[Copy]:
    wanted = [c.xid for c in chunk if isinstance(c, Entity) and c.document_sha256 is not None]
    if not wanted:
        return list(chunk)
    documents = await store.load_documents(connection, wanted)
    return [
        replace(copy, document=documents.get(copy.xid)) if isinstance(copy, Entity) else copy
        for copy in chunk
    ]


async def get_snapshot(request: web.Request) -> web.StreamResponse:
    """`GET /replication/snapshot`: all copies at one time, and the cursor of that time."""
    context, wanted = request.app[CONTEXT], read_filter(request)
    async with limited_streams(context.database), context.database.snapshot() as connection:
        head = await read_head(connection)

        async def lines() -> AsyncIterator[bytes]:
            async for copy in _all_copies(connection, wanted):
                yield write_copy(copy)
            yield write_end(cursor_at(context, head.now))

        return await _send(request, lines())


async def _all_copies(connection: Connection, wanted: CopyFilter) -> AsyncIterator[Copy]:
    authorities = None if wanted.authorities is None else sorted(wanted.authorities)
    chunk: list[Copy] = []
    async for entity in stored_copies.stream_entities(connection, authorities):
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


async def post_fetch(request: web.Request) -> web.StreamResponse:
    """`POST /replication/fetch`: single origins in their present state, with their ancestors."""
    context = request.app[CONTEXT]
    body = read_as(OriginsBody, await read_json(request), request.path)
    async with context.database.snapshot() as connection:
        head = await read_head(connection)
        copies = await _load_copies(connection, body.to_origins(), CopyFilter())
    return await _send_page(request, context, copies, head.now)


@asynccontextmanager
async def limited_streams(database: Database) -> AsyncIterator[None]:
    """Limit the long streams: each holds a connection to the database, which others need, too.

    Raises:
        ServerBusy: there are too many streams already.
    """
    running = _streams.get(database, 0)
    if running >= _MOST_STREAMS:
        raise ServerBusy("/replication")
    _streams[database] = running + 1
    try:
        yield
    finally:
        _streams[database] -= 1


async def _send(request: web.Request, lines: AsyncIterable[bytes]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": MEDIA_TYPE})
    await response.prepare(request)
    await write_chunks(response, lines)
    await response.write_eof()
    return response


async def write_chunks(response: web.StreamResponse, lines: AsyncIterable[bytes]) -> None:
    """Write lines in chunks.

    Raises:
        TimeoutError: the reader takes no bytes for a minute; the response breaks off.
    """
    chunk = bytearray()
    async for line in lines:
        chunk += line
        if len(chunk) >= _CHUNK_BYTES:
            async with asyncio.timeout(_SEND_SECONDS):
                await response.write(bytes(chunk))
            chunk.clear()
    async with asyncio.timeout(_SEND_SECONDS):
        await response.write(bytes(chunk))


def read_filter(request: web.Request) -> CopyFilter:
    """The parameters `authority` and `scope`, both of which may be repeated."""
    authorities = request.query.getall("authority", [])
    scope = request.query.getall("scope", [])
    if len(authorities) > _MOST_NAMED or len(scope) > _MOST_NAMED:
        raise BadRequest(
            request.path, error_detail=f"More than {_MOST_NAMED} authorities or scopes"
        )
    if any(not 0 < len(a) <= 1024 or "\0" in a for a in authorities):
        raise BadRequest(request.path, error_detail='"authority" needs to be a URI')
    for path in scope:
        if not is_scope(path):
            raise BadRequest(
                request.path, error_detail='"scope" needs to be the path of an entity or collection'
            )
    return CopyFilter(authorities=frozenset(authorities) or None, scope=tuple(scope))


def read_number(request: web.Request, name: str, default: int) -> int:
    """A parameter that is an unsigned integer."""
    text = request.query.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise BadRequest(request.path, error_detail=f'"{name}" needs to be an unsigned integer')
    return int(text)


def _read_cursor(request: web.Request, context: Context) -> Position:
    text = request.query.get("after")
    if text is None:
        raise BadRequest(
            request.path,
            error_detail='"after" is missing',
            detail="Begin with /replication/snapshot, which ends with a cursor.",
        )
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise BadRequest(request.path, error_detail='"after" is not a cursor of this feed')
    if found[1] != context.database.node.instance.hex[:8]:
        raise CursorGone(request.path, error_detail="it is from the log of another instance")
    try:
        return Position.parse(found[2])
    except ValueError as error:
        raise BadRequest(
            request.path, error_detail='"after" is not a cursor of this feed'
        ) from error
