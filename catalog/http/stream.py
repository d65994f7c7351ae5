"""Streams: deadlines, shares, and sending."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from aiohttp import hdrs, web

from catalog.context import CLIENT, CONTEXT, Context
from catalog.http.conditions import REVALIDATE, has_tag, not_modified
from catalog.load.limiter import Share, Things
from catalog.model.caller import EVERYTHING
from catalog.model.concorderrors import (
    Forbidden,
    ReadTooSlowly,
    SearchTooCostly,
    Unauthenticated,
)
from catalog.model.errors import ServerBusy, TooLarge, XRegistryError
from catalog.model.interaction import Interaction
from catalog.operations.operation import READING
from catalog.settings import Settings
from catalog.store.accessrules import digest_paths

STREAMS: web.AppKey[Share] = web.AppKey("streams", Share)
LONG_POLLS: web.AppKey[Share] = web.AppKey("long_polls", Share)
WAITING_READS: web.AppKey[Share] = web.AppKey("waiting_reads", Share)
SINK_TESTS: web.AppKey[Share] = web.AppKey("sink_tests", Share)
# The longest time of a stream. A stream holds a snapshot, and PostgreSQL keeps rows that were
# deleted since the snapshot.
_STREAM_SECONDS = 7200.0
_ADVICE = (
    "Ask within one collection instead of all, compare with a whole value instead of one with"
    " wildcards, or add a condition with an equality: these are looked up, while others are"
    " tried on every entity."
)
_LARGEST_AT_ONCE = 256 * 1024
_WRITTEN_AT_ONCE = 64 * 1024
# Cached tokens and rules may be as old, so a stream ends within five seconds.
_RENEWAL_SECONDS = 2.0


def add_stream_shares(app: web.Application, settings: Settings) -> None:
    """Bound the streams and waiting requests of an application, in total and for each client."""
    app[STREAMS] = Share(
        settings.streams,
        per_key=max(1, settings.streams * 2 // 5),
        things=Things("streams", "CONCORD_STREAMS"),
    )
    app[LONG_POLLS] = Share(
        settings.long_polls,
        per_key=max(1, settings.long_polls // 10),
        things=Things("requests that wait for changes", "CONCORD_LONG_POLLS"),
    )
    app[WAITING_READS] = Share(1000, per_key=100, things=Things("reads that wait for a position"))
    # A test waits for the answer of a sink.
    app[SINK_TESTS] = Share(16, per_key=4, things=Things("tests of sinks"))


class Deadline:
    """Bounds the time of a request; a stream may last longer while the reader keeps up.

    Each sent piece of a stream allows the time of a request for the next piece. On average, the
    reader must read at the least rate, so that no client holds a snapshot for ever.

    Args:
        longest_seconds: the longest time of a stream, regardless of the rate.

    Raises:
        ReadTooSlowly: a stream was cut.
        ServerBusy: the time is over; a write may have been applied.
    """

    __slots__ = ("_due", "_last", "_loop", "_request", "_sent", "_settings", "_timeout")

    def __init__(
        self, request: web.Request, settings: Settings, *, longest_seconds: float = _STREAM_SECONDS
    ) -> None:
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._request = request
        self._settings = settings
        self._due = now + settings.request_timeout_seconds
        self._last = max(self._due, now + longest_seconds)
        self._sent = 0
        self._timeout = asyncio.timeout_at(self._due)

    def postpone(self, sent: int) -> None:
        """Extend the deadline after `sent` bytes."""
        self._sent += sent
        self._due += sent / self._settings.stream_least_rate
        stalled = self._loop.time() + self._settings.request_timeout_seconds
        self._set(min(stalled, self._due, self._last))

    def extend_for(self, interaction: Interaction) -> None:
        """Give more time to an interaction that deletes groups with any number of entities."""
        if any(delete.xid.kind == "group" for delete in interaction.deletes):
            longest = self._settings.reconfiguration_timeout_seconds
            self.extend(max(0.0, longest - self._settings.request_timeout_seconds))

    def extend(self, seconds: float) -> None:
        """Extend the deadline by the time that the client asks to wait."""
        self._due += seconds
        self._set(self._due)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._request[DEADLINE] = self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        # A request that is handled again gets another deadline.
        del self._request[DEADLINE]
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self._refusal() from error
        # A timeout of the handler's own, as of a lock, is answered like the end of the time.
        if isinstance(error, TimeoutError):
            raise self._refusal() from error

    def _set(self, due: float) -> None:
        if not self._timeout.expired():
            self._timeout.reschedule(due)

    def _refusal(self) -> ServerBusy:
        path = self._request.path
        if self._sent:
            rate = str(self._settings.stream_least_rate)
            return ReadTooSlowly(path, rate=rate, setting="CONCORD_STREAM_LEAST_RATE")
        is_read = self._request.method in READING
        return ServerBusy(path, detail="" if is_read else "The request may have been applied.")


DEADLINE: web.RequestKey[Deadline] = web.RequestKey("deadline", Deadline)


@contextlib.asynccontextmanager
async def in_search_time(request: web.Request, advice: str = _ADVICE) -> AsyncIterator[None]:
    """End a search that takes too long, in the database as well.

    Args:
        advice: how to make the search cheaper.

    Raises:
        SearchTooCostly: the search took longer than `search_timeout_seconds`.
    """
    seconds = request[CONTEXT].settings.search_timeout_seconds
    try:
        async with asyncio.timeout(seconds) as bound:
            yield
    except TimeoutError as error:
        if not bound.expired():
            raise
        raise SearchTooCostly(request.path, seconds=f"{seconds:g}", detail=advice) from error


# The media type to which a complete answer is converted; such an answer cannot be streamed.
WHOLE: web.RequestKey[str] = web.RequestKey("whole", str)


@contextlib.asynccontextmanager
async def stream_share(request: web.Request) -> AsyncIterator[None]:
    """A context in which a client may stream, with one connection for streams.

    Raises:
        TooManyAtOnce: the streams of the client are at the share of a client.
        ServerBusy: the streams of the clients together are at the limit.
    """
    seconds = request[CONTEXT].settings.request_timeout_seconds / 2
    streams, key = request.app[STREAMS], request[CLIENT]
    async with streams.hold(key, wait_seconds=seconds, path=request.path):
        yield


async def send(
    request: web.Request,
    pieces: AsyncGenerator[bytes],
    headers: Mapping[str, str],
    *,
    status: int = 200,
    tag: str = "",
    takes_share: bool = False,
) -> web.StreamResponse:
    """Answer with a body in pieces; a piece is made when the previous piece is sent.

    Args:
        tag: the tag of a streamed read, because a streamed body cannot be hashed first.
        takes_share: whether a large answer takes a share of the streams (see `stream_share`);
            false if the caller holds a share.

    Raises:
        TooLarge: the answer cannot be streamed, and is larger than a request may be.
        TooManyAtOnce: see `stream_share`.
    """
    most = _LARGEST_AT_ONCE
    if WHOLE in request:
        most = request[CONTEXT].settings.max_body_bytes
    async with contextlib.aclosing(pieces):
        begun, size = [], 0
        async for piece in pieces:
            begun.append(piece)
            size += len(piece)
            if size > most:
                break
        else:
            return web.Response(body=b"".join(begun), headers=headers, status=status)
        if WHOLE in request:
            raise TooLarge(request.path)
        response = web.StreamResponse(headers=headers, status=status)
        if tag:
            response.headers[hdrs.ETAG] = tag
            response.headers[hdrs.CACHE_CONTROL] = REVALIDATE
            if has_tag(request, tag):
                return not_modified(response.headers)
        async with stream_share(request) if takes_share else contextlib.nullcontext():
            await response.prepare(request)
            if request.method == hdrs.METH_HEAD:
                return response
            async with while_permitted(request):
                await write_piece(request, response, b"".join(begun))
                begun.clear()
                async for piece in pieces:
                    await write_piece(request, response, piece)
                await response.write_eof()
        return response


RENEW: web.AppKey[Callable[[web.Request], Awaitable[Context]]] = web.AppKey("renew")
"""Identifies the caller of a long request again; see `catalog.web.door.renew`."""


class NoLongerPermitted(Exception):
    """The caller of a stream may no longer read everything in the stream."""


@contextlib.asynccontextmanager
async def while_permitted(request: web.Request) -> AsyncIterator[None]:
    """A context for a stream, which ends early once the caller may no longer read the whole stream.

    The credential, the right and the rules of the caller are checked every two seconds, even while
    the reader does not read. A stream shows a single snapshot: if the paths of a restricted
    caller's rules change, the reader has to begin again.

    Raises:
        NoLongerPermitted: the caller may no longer read the whole stream.
    """
    began_with, reach = request[CONTEXT].caller, await _reach_of(request[CONTEXT])

    async def is_permitted() -> bool:
        try:
            context = await request.app[RENEW](request)
            if not context.caller.sees_all_of(began_with):
                return False
            return await _reach_of(context) == reach
        except (Unauthenticated, Forbidden):
            return False
        except (XRegistryError, TimeoutError):
            return True  # The check failed, not the permission.

    async def watch(bound: asyncio.Timeout) -> None:
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            if not await is_permitted():
                bound.reschedule(0)
                return

    try:
        # A timeout without a time, by which the watching task can end the context.
        async with asyncio.timeout(None) as bound:
            watching = asyncio.create_task(watch(bound))
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError as error:
        if not bound.expired():
            raise
        raise NoLongerPermitted from error


async def _reach_of(context: Context) -> bytes:
    """A digest of the paths in the rules of a restricted caller; empty without restrictions."""
    shown = context.caller.sees
    if shown is EVERYTHING:
        return b""
    async with context.database.acquire() as connection:
        return await digest_paths(connection, shown.rules)


async def write_piece(request: web.Request, response: web.StreamResponse, piece: bytes) -> None:
    """Write a piece of a stream, and extend the deadline of the request as the client reads."""
    for start in range(0, len(piece), _WRITTEN_AT_ONCE):
        part = piece[start : start + _WRITTEN_AT_ONCE]
        await response.write(part)
        request[DEADLINE].postpone(len(part))
    # Writing to a quick reader never waits: other requests get a turn.
    await asyncio.sleep(0)


async def in_pieces(lines: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Join lines to pieces of at least 64 KiB; the last piece may be shorter."""
    piece = bytearray()
    async with contextlib.aclosing(lines):
        async for line in lines:
            piece += line
            if len(piece) >= _WRITTEN_AT_ONCE:
                yield bytes(piece)
                piece.clear()
    yield bytes(piece)
