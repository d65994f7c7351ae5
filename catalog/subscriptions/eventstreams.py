"""Streams of server-sent events: `GET /-/events` tells a caller of changes as they happen.

Source: HTML Living Standard, section 9.2, "Server-sent events".

The streams of a process share one reader of the log for each dialect. A stream has a position in
the log and no queue: it takes what comes after its position once its client has read the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import cached_property, partial

import orjson
import structlog
from aiohttp import hdrs, web

from catalog.context import CLIENT, CONTEXT, SHARED, SharedState
from catalog.http.clientconnections import ClientConnection
from catalog.http.conditions import NEVER_KEPT
from catalog.http.problems import is_client_gone
from catalog.http.route import Route
from catalog.http.stream import NoLongerPermitted, while_permitted
from catalog.load.limiter import Share, Things
from catalog.model.caller import EVERYTHING, node_caller
from catalog.model.errors import BadRequest, ServerBusy
from catalog.model.xid import group_path
from catalog.operations.events import END, EVENT_STREAM, LAST_EVENT_ID, READ_EVENTS, EventsQuery
from catalog.store.accessrules import covered_groups
from catalog.store.changes import ChangesDropped, Position, find_position
from catalog.store.database import Database
from catalog.subscriptions.delivery.eventdialects import Tails
from catalog.subscriptions.delivery.filters import (
    FilterError,
    compile_filters,
    count_conditions,
    required_of,
)
from catalog.subscriptions.delivery.logtail import LogEntry, Tail, Waiter
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition, log_of

_log = structlog.get_logger(__name__)

_WINDOW = 2000
_BATCH = 200
_MOST_CONDITIONS = 1000
_MOST_BYTES = 32 * 1024
_MOST_UNREAD = 16 * 1024
_MOST_GROUPS = 10_000
# People read a page several times a second at most. Hundreds of streams that were woken by each
# change would cost more than the changes: the more streams there are, the longer each one rests.
_READ_SECONDS = 0.1
_LEAST_REST_SECONDS, _REST_PER_STREAM, _LONGEST_REST_SECONDS = 0.05, 0.00125, 0.3
_CHECK_SECONDS = 2.0
# A client that opens a stream in place of another one may be quicker than the end of the other.
_PLACE_SECONDS = 2.0
_HEARTBEAT_SECONDS = 15.0
_LINGER_SECONDS = 10.0
_RECONNECT_MILLISECONDS = (1000, 3000)
_HEADERS = {
    hdrs.CONTENT_TYPE: f"{EVENT_STREAM}; charset=utf-8",
    hdrs.CACHE_CONTROL: NEVER_KEPT,
    # Proxies such as nginx would keep events back to fill a buffer.
    "X-Accel-Buffering": "no",
}
_NODE_STOPS = "the node stops"
_LOG_FAILED = "the log of changes cannot be read"
_NOT_PERMITTED = "the credential is no longer valid, or its rights have changed"
_TOO_SLOW = "the events were not read in time"
_DROPPED = "the log of changes no longer reaches back to where the stream stood"


class _Ended(Exception):
    """The node ends a stream, for the reason in the text."""


class EventStreams:
    """The open streams of a process, and the readers of the log that the streams share."""

    def __init__(self, shared: SharedState) -> None:
        most = shared.settings.event_streams
        self.share = Share(
            most, per_key=max(1, most // 4), things=Things("event streams", "CONCORD_EVENT_STREAMS")
        )
        self._shared = shared
        self._database = Database(shared.database, node_caller())
        self._readers: Counter[Tail] = Counter()
        self._running: dict[Tail, asyncio.Task[None]] = {}
        self._open: dict[asyncio.Timeout, Tail] = {}
        self._turn = asyncio.Lock()
        self._is_ending = False

    @contextlib.asynccontextmanager
    async def reading(self, definition: SubscriptionDefinition) -> AsyncIterator[Tail]:
        """A context with the reader of the log for a stream, which reads while it has streams."""
        tail = self._tails.of(definition)
        self._readers[tail] += 1
        try:
            # While the first stream waits for `want`, a second one must not begin another reader.
            async with self._turn:
                await tail.want(True)
                if tail not in self._running:
                    self._running[tail] = asyncio.create_task(self._run(tail))
            yield tail
        finally:
            self._readers[tail] -= 1
            if not self._readers[tail]:
                # `want(False)` does not suspend, so no stream begins between count and `cancel`.
                await tail.want(False)
                if tail in self._running:
                    self._running.pop(tail).cancel()

    @contextlib.asynccontextmanager
    async def until_end(self, request: web.Request, tail: Tail) -> AsyncIterator[None]:
        """A context for a stream, which ends (`_Ended`) with client, node or reader."""
        if self._is_ending:
            raise _Ended(_NODE_STOPS)
        try:
            async with asyncio.timeout(None) as bound:
                self._open[bound] = tail
                connection = request.protocol
                if isinstance(connection, ClientConnection):
                    connection.when_lost(partial(_expire, bound))
                try:
                    yield
                finally:
                    del self._open[bound]
                    if isinstance(connection, ClientConnection):
                        connection.when_lost(None)
        except TimeoutError as error:
            if not bound.expired():
                raise
            raise _Ended(_NODE_STOPS if self._is_ending else _LOG_FAILED) from error

    async def end(self, _: web.Application) -> None:
        """End all streams, so that the node can stop at once."""
        self._is_ending = True
        for bound in self._open:
            _expire(bound)

    @cached_property
    def _tails(self) -> Tails:
        # Made by the first stream: until the node listens, its URL may be unknown.
        return Tails(self._database, self._shared, size=_WINDOW, pace_seconds=_READ_SECONDS)

    async def _run(self, tail: Tail) -> None:
        try:
            await tail.run()
        except Exception:
            _log.exception("a reader of the log failed, and ends its streams")
            del self._running[tail]
            for bound, read in self._open.items():
                if read is tail:
                    _expire(bound)


def _expire(bound: asyncio.Timeout) -> None:
    """End a context; a timeout that has expired already cannot be changed."""
    if not bound.expired():
        bound.reschedule(0)


EVENT_STREAMS: web.AppKey[EventStreams] = web.AppKey("event_streams", EventStreams)


def add_event_streams(app: web.Application) -> None:
    """Let an application stream events until it stops."""
    app[EVENT_STREAMS] = streams = EventStreams(app[SHARED])
    app.on_shutdown.append(streams.end)


async def stream_events(request: web.Request, query: EventsQuery) -> web.StreamResponse:
    """Stream the events of changes as they happen (server-sent events)."""
    definition = _definition_of(request, query)
    streams, context = request.app[EVENT_STREAMS], request[CONTEXT]
    async with (
        streams.share.hold(request[CLIENT], wait_seconds=_PLACE_SECONDS, path=request.path),
        contextlib.AsyncExitStack() as held,
    ):
        async with asyncio.timeout(context.settings.request_timeout_seconds):
            tail = await held.enter_async_context(streams.reading(definition))
            name = LAST_EVENT_ID if LAST_EVENT_ID in request.headers else "from"
            text = request.headers.get(LAST_EVENT_ID, query.start)
            async with context.database.acquire() as connection:
                start = await find_position(connection, text, subject=request.path, name=name)
        stream = _EventStream(request, tail, definition, start)
        await stream.response.prepare(request)
        try:
            async with streams.until_end(request, tail), while_permitted(request):
                await stream.run()
        except _Ended as ended:
            await stream.end(str(ended))
        except NoLongerPermitted:
            await stream.end(_NOT_PERMITTED)
        except ChangesDropped:
            await stream.end(_DROPPED)
    return stream.response


routes = (Route(READ_EVENTS, stream_events),)


def _definition_of(request: web.Request, query: EventsQuery) -> SubscriptionDefinition:
    """The definition of a subscription without a sink; `BadRequest` for a malformed filter."""
    try:
        filters = tuple(map(orjson.loads, query.filter))
        if count_conditions([*filters]) > _MOST_CONDITIONS:
            raise FilterError(f"there are more than {_MOST_CONDITIONS} conditions")
        compile_filters(filters)
    except (orjson.JSONDecodeError, FilterError) as error:
        raise BadRequest(request.path, error_detail=f'"filter": {error}') from error
    source, base = query.source, request[CONTEXT].public_base
    definition = SubscriptionDefinition(
        sink="",
        source=None if source is None else source.rstrip("/"),
        types=tuple(query.type),
        filters=filters,
    )
    if log_of(definition) != "changes":
        fault = f'streams have the events of changes: "source" may be {base}, or that of a dialect'
        raise BadRequest(request.path, error_detail=fault)
    return definition


class _EventStream:
    """One stream: its client, the events that the client asked for, and the position in the log."""

    def __init__(
        self, request: web.Request, tail: Tail, definition: SubscriptionDefinition, start: Position
    ) -> None:
        self.response = web.StreamResponse(headers=_HEADERS)
        # A connection that stays open for a next request could not be ended while data is unread.
        self.response.force_close()
        self._request = request
        self._context = request[CONTEXT]
        self._tail = tail
        self._cursor = start
        self._matches = compile_filters(
            definition.filters, types=definition.types, source=definition.source
        )
        self._required = required_of(definition)
        self._seen: dict[str, bool] = {}
        self._loop = asyncio.get_running_loop()
        self._written_at = 0.0
        self._has_told = False

    async def run(self) -> None:
        """Tell of changes until the client leaves.

        Raises:
            _Ended: the client reads too slowly.
            ChangesDropped: changes that the client has not read are no longer in the log.
        """
        transport = self._request.transport
        if transport is not None:
            # The system would buffer megabytes for a client that does not read.
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
        reconnect = random.randint(*_RECONNECT_MILLISECONDS)
        await self._write(f"retry: {reconnect}\nid: {self._cursor}\n\n".encode())
        while not is_client_gone(self._request):
            try:
                is_behind = await self._advance_once()
            except ServerBusy:
                await self._context.database.recovered()
                continue
            await asyncio.sleep(0 if is_behind or not self._has_told else self._rest())
            if self._loop.time() - self._written_at > _HEARTBEAT_SECONDS:
                await self._write(f"id: {self._cursor}\n\n".encode())

    async def end(self, reason: str) -> None:
        """Tell the client why the stream ends; a client that does not read is cut off."""
        if is_client_gone(self._request):
            return
        _log.info("event stream ended", reason=reason)
        transport = self._request.transport
        with contextlib.suppress(ConnectionError):
            await self.response.write_eof(f"event: {END}\ndata: {reason}\n\n".encode())
        if transport is not None:
            self._loop.call_later(_LINGER_SECONDS, transport.abort)

    async def _advance_once(self) -> bool:
        """Tell of the next changes, or wait for some; return whether the log has further ones."""
        entries = await self._tail.after(self._cursor, _BATCH)
        self._has_told = bool(entries)
        if not entries:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_SECONDS):
                    await self._tail.growth(self._cursor, self._waiter())
            return False
        blocks = await self._blocks(entries)
        if blocks:
            await self._write(blocks)
        return len(entries) == _BATCH or self._cursor < entries[-1].position

    async def _blocks(self, entries: Sequence[LogEntry]) -> bytes:
        """The blocks of the first entries, up to a number of bytes; moves the position behind."""
        blocks = bytearray()
        hidden = await self._hidden(entries)
        for entry in entries:
            if len(blocks) > _MOST_BYTES:
                break
            self._cursor = entry.position
            if entry.xid in hidden:
                continue
            *earlier, last = [b"", *(e.structured for e in entry.events if self._matches(e.texts))]
            # Only the last event of a change has an id: a client that saw a part resumes before it.
            for event in filter(None, earlier):
                blocks += b"data: %b\n\n" % event
            if last:
                blocks += b"id: %b\ndata: %b\n\n" % (str(entry.position).encode(), last)
        return bytes(blocks)

    async def _hidden(self, entries: Sequence[LogEntry]) -> frozenset[str]:
        """The entities of entries that the caller may not see.

        The groups that the caller sees are remembered: a stream ends when its rules change.
        """
        shown = self._context.caller.sees
        if shown is EVERYTHING:
            return frozenset()
        groups = {e.xid: group_path(e.xid) for e in entries if e.xid not in (None, "/")}
        unknown = {*groups.values()} - self._seen.keys()
        if unknown:
            if len(self._seen) > _MOST_GROUPS:
                self._seen.clear()
                unknown = {*groups.values()}
            async with self._context.database.acquire() as connection:
                seen = await covered_groups(connection, shown.rules, unknown)
            self._seen |= {group: group in seen for group in unknown}
        return frozenset(xid for xid, group in groups.items() if not self._seen[group])

    def _waiter(self) -> Waiter:
        def concerns(entries: Sequence[LogEntry]) -> bool:
            return any(
                self._matches(event.texts)
                for entry in entries
                if entry.position > self._cursor
                for event in entry.events
            )

        return Waiter(required=self._required, concerns=concerns, passed=self._pass)

    def _pass(self, position: Position) -> None:
        self._cursor = max(self._cursor, position)

    async def _write(self, blocks: bytes) -> None:
        """Send blocks once the client has read most of those before.

        The write must not wait itself: aiohttp cannot send the reason of an end after a write that
        was cancelled.
        """
        self._written_at = begun = self._loop.time()
        while self._unread > _MOST_UNREAD:
            if self._loop.time() > begun + self._context.settings.request_timeout_seconds:
                raise _Ended(_TOO_SLOW)
            await asyncio.sleep(_LEAST_REST_SECONDS)
        await self.response.write(blocks)

    def _rest(self) -> float:
        """The seconds for which changes gather before the stream tells of them."""
        streams = self._request.app[EVENT_STREAMS].share.used
        return min(_LEAST_REST_SECONDS + streams * _REST_PER_STREAM, _LONGEST_REST_SECONDS)

    @property
    def _unread(self) -> int:
        transport = self._request.transport
        return 0 if transport is None else transport.get_write_buffer_size()
