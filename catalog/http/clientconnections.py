"""The connections of clients: bounds of number and time, and the reasons of refusals."""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from itertools import islice
from typing import TypeAlias

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from catalog.context import SHARED
from catalog.http.problems import (
    answer_unexpected,
    cut_short,
    has_begun,
    is_client_gone,
    problem_response,
)
from catalog.model.concorderrors import ExpectationFailed, LimitExceeded, TooManyAtOnce
from catalog.model.errors import ApiNotFound, ParsingData, ServerBusy, XRegistryError
from catalog.settings import Settings

# The bytes that a kernel hands over at a time; a connection buffers two or three times as many.
_READ_BYTES = 64 * 1024
# The time for which data that arrives after the answer is read and dropped: closing a connection
# while data arrives can lose the answer.
_LINGERING_SECONDS = 2.0
# The time after the last answer at which a connection is closed.
_IDLE_SECONDS = 75.0
# The longest time from the beginning of a connection, or of a request, to the end of the header; a
# header has one or two segments.
HEADER_SECONDS = 10.0
# The path included. The parser alone would accept 128 headers of 8 KiB.
_MOST_HEADER_BYTES = 64 * 1024
# The most connections that a search for an idle connection looks at, so that a flood costs little.
_LOOKS = 64
# A client that reads an answer more slowly is gone, or holds the connection on purpose.
_LEAST_BYTES_PER_SECOND = 4096
_READING_SECONDS = 15.0
_END_OF_HEADER = b"\r\n\r\n"
# The limits of aiohttp's parser. The parser has no error class for the second limit.
_MOST_IN_LINE, _MOST_HEADERS = "8190", "128"
_TOO_MANY_HEADERS = "Too many headers"


def refusal(error: XRegistryError) -> bytes:
    """The bytes of a complete response with the error document of an error."""
    response = problem_response(error)
    assert isinstance(response.body, bytes)
    headers = {**response.headers, "Content-Length": len(response.body), "Connection": "close"}
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + response.body


def client_address(request: web.Request) -> str:
    """The address of the client, or of the last proxy on the way that is not trusted.

    A proxy appends the address of its caller to `X-Forwarded-For`. The last address that is not
    the address of a trusted proxy was therefore appended by a trusted proxy; a client could have
    invented the addresses before.
    """
    sender = request.remote or ""
    trusted = request.app[SHARED].settings.trusted_proxies
    if not trusted:
        return sender
    hops = ",".join(request.headers.getall("X-Forwarded-For", [])).split(",")
    while is_within(sender, trusted) and hops and (before := str(_parsed(hops.pop()) or "")):
        sender = before
    return sender


@functools.lru_cache(maxsize=1024)
def is_within(address: str, networks: Sequence[str]) -> bool:
    """Whether an address belongs to a network of the list."""
    parsed = _parsed(address)
    return parsed is not None and any(parsed in ip_network(network) for network in networks)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(address.strip())
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


@functools.lru_cache(maxsize=1024)
def source_of(address: str) -> str:
    """The source of an address: an IPv4 address, or the network of 64 bits of an IPv6 address."""
    parsed = _parsed(address.partition("%")[0])
    if isinstance(parsed, IPv6Address):
        return str(IPv6Network((parsed, 64), strict=False))
    return address if parsed is None else str(parsed)


class ClientConnections:
    """The open connections by source, in the order of the last use, the least recent first.

    A source is an IPv4 address or a network of 64 bits, because a subscriber has any number of
    IPv6 addresses. A source at the limit of connections per source gives up an idle connection
    for a new connection. If the sources together are at the limit of the node, the source with
    the most connections gives up a connection to a source with fewer.

    Args:
        settings: the limits and the trusted proxies.
        most: the most connections of the node.
    """

    def __init__(self, settings: Settings, most: int) -> None:
        self._settings = settings
        self._most = most
        self._count = 0
        # Connections of trusted proxies, which serve many clients, are only counted in total.
        self._of_source: dict[str, _Ordered] = defaultdict(OrderedDict)

    def why_refused(self, address: str) -> XRegistryError | None:
        """The reason to refuse a client, or `None`; may close a connection to make room."""
        source, most = self._source(address), self._settings.max_connections_per_address
        own = self._of_source.get(source, OrderedDict())
        if len(own) >= most and not self._close_idle(own):
            return TooManyAtOnce(
                limit=str(most),
                things="connections from this address",
                setting="CONCORD_MAX_CONNECTIONS_PER_ADDRESS",
            )
        if self._count >= self._most and not self._make_room(own):
            return ServerBusy(
                detail=f"There are {self._most} connections, the most at a time "
                "(CONCORD_MAX_CONNECTIONS, or fewer for lack of file descriptors)."
            )
        return None

    def new(self, server: web.Server, address: str) -> ClientConnection:
        """The protocol of a new connection, which counts until the connection is lost."""
        connection = ClientConnection(server, self, self._settings, self._source(address))
        self._count += 1
        if connection.source:
            self._of_source[connection.source][connection] = None
        return connection

    def use(self, connection: ClientConnection) -> None:
        """Note that a request has arrived on a connection."""
        if connection.is_counted and connection.source:
            self._of_source[connection.source].move_to_end(connection)

    def remove(self, connection: ClientConnection) -> None:
        """Stop counting a connection; a connection that is not counted is ignored."""
        if connection.is_counted:
            connection.is_counted = False
            self._count -= 1
            if own := self._of_source.get(connection.source):
                del own[connection]
                if not own:
                    del self._of_source[connection.source]

    def _source(self, address: str) -> str:
        return "" if is_within(address, self._settings.trusted_proxies) else source_of(address)

    def _make_room(self, own: _Ordered) -> bool:
        # A busy connection is closed only if the other source stays at least as large: sources of
        # equal size would otherwise take connections from each other for ever.
        largest = max(self._of_source.values(), key=len, default=own)
        if len(largest) <= len(own) + 1:
            return self._close_idle(own)
        return self._close_idle(largest) or self._close(next(iter(largest)))

    def _close_idle(self, connections: _Ordered) -> bool:
        for connection in list(islice(connections, _LOOKS)):
            if connection.is_idle:
                return self._close(connection)
            # Later searches look at other connections first.
            connections.move_to_end(connection)
        return False

    def _close(self, connection: ClientConnection) -> bool:
        self.remove(connection)
        connection.force_close()
        return True


class ClientConnection(web.RequestHandler):
    """aiohttp's protocol for a connection, with further time-outs and with error documents.

    aiohttp has a time-out for idle connections, but no time-out for clients that send a header in
    small pieces or do not read the answer. A header is complete when the empty line after the
    header has arrived.
    """

    __slots__ = (
        "_awaits_header",
        "_connections",
        "_header_bytes",
        "_header_clock",
        "_header_end",
        "_is_new",
        "_reader_clock",
        "_settings",
        "_when_lost",
        "is_counted",
        "source",
    )

    def __init__(
        self, server: web.Server, connections: ClientConnections, settings: Settings, source: str
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            # The library takes no log, though its annotation does not say so.
            access_log=None,  # type: ignore[arg-type]
            # aiohttp would inflate every body, even a body that no handler reads; see `read_body`.
            auto_decompress=False,
            keepalive_timeout=_IDLE_SECONDS,
            lingering_time=_LINGERING_SECONDS,
            read_bufsize=_READ_BYTES,
        )
        self.source = source
        self.is_counted = True
        self._connections = connections
        self._settings = settings
        self._awaits_header = True
        # True until the loop had a chance to read: a connection with a request that is not read
        # yet would look idle, and be closed to make room.
        self._is_new = True
        self._header_bytes = 0
        self._header_end = b""
        self._header_clock: asyncio.TimerHandle | None = None
        self._reader_clock: asyncio.TimerHandle | None = None
        self._when_lost: Callable[[], None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for a request, or for the rest of a header."""
        return self._awaits_header and not self._is_new

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._begin_header_clock()
        asyncio.get_running_loop().call_soon(self._grow_old)

    def data_received(self, data: bytes) -> None:
        if data and self._awaits_header and not self._takes_header(data):
            return
        super().data_received(data)

    def begin_request(self) -> None:
        """Note that a request has arrived, perhaps in the same segment as the previous request."""
        self._awaits_header = False
        self._stop_header_clock()
        self._connections.use(self)

    def when_lost(self, call: Callable[[], None] | None) -> None:
        """Call a function once the client is gone, in place of the function before."""
        self._when_lost = call

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._when_lost is not None:
            self._when_lost()
        self._stop_header_clock()
        self._stop_reader_clock()
        self._connections.remove(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = HTTPStatus.INTERNAL_SERVER_ERROR,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that cannot be parsed, or an error that `catalog.web` did not answer.

        Raises:
            ConnectionError: the answer has begun, or the client is gone.
        """
        if has_begun(request):
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, ConnectionError) and is_client_gone(request):
            raise exc
        if status == HTTPStatus.BAD_REQUEST:
            response = problem_response(_parser_error(exc))
        elif exc is None:
            response = problem_response(ServerBusy(request.path))
        else:
            response = answer_unexpected(request, exc)
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer; if sending fails before the first byte is sent, answer with the error."""
        try:
            return await self._send(request, resp, start_time)
        finally:
            # The rest of an unread body is no header; the connection ends after the body.
            self._awaits_header = request.content.is_eof()
            self._header_bytes, self._header_end = 0, b""

    async def _send(
        self, request: web.BaseRequest, response: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if isinstance(response, web.HTTPExpectationFailed):
            response = problem_response(ExpectationFailed(request.path))
        elif isinstance(response, web.HTTPNotFound):
            # The target of the request is no path, and has no route.
            response = problem_response(ApiNotFound(request.path))
        try:
            return await super().finish_response(request, response, start_time)
        except Exception as error:
            if has_begun(request):
                cut_short(request, error)
                return response, True
            answer = answer_unexpected(request, error)
            answer.force_close()
            return await super().finish_response(request, answer, start_time)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader(self._unread())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_reader_clock()

    def _grow_old(self) -> None:
        self._is_new = False

    def _begin_header_clock(self) -> None:
        def end() -> None:
            self._header_clock = None
            if self._awaits_header:
                self.force_close()

        loop = asyncio.get_running_loop()
        self._header_clock = loop.call_later(HEADER_SECONDS, end)

    def _takes_header(self, data: bytes) -> bool:
        """Bound the time and the size of a header, which may come in pieces."""
        end = (self._header_end + data).find(_END_OF_HEADER)
        self._header_bytes += len(data) if end < 0 else end
        if self._header_bytes > _MOST_HEADER_BYTES:
            if self.transport is not None:
                limit, things = str(_MOST_HEADER_BYTES), "bytes in its header"
                fault = LimitExceeded(limit=limit, things=things, setting="fixed")
                self.transport.write(refusal(fault))
            self.force_close()
            return False
        if end >= 0:
            self.begin_request()
        else:
            # The empty line may be split between two pieces.
            self._header_end = (self._header_end + data)[1 - len(_END_OF_HEADER) :]
            if self._header_clock is None:
                self._begin_header_clock()
        return True

    def _expect_reader(self, unread: int) -> None:
        def look() -> None:
            left = self._unread()
            if left <= unread - _LEAST_BYTES_PER_SECOND * _READING_SECONDS:
                self._expect_reader(left)
            elif self.transport is not None:
                self.transport.abort()

        self._reader_clock = asyncio.get_running_loop().call_later(_READING_SECONDS, look)

    def _unread(self) -> int:
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def _stop_header_clock(self) -> None:
        if self._header_clock is not None:
            self._header_clock.cancel()
            self._header_clock = None

    def _stop_reader_clock(self) -> None:
        if self._reader_clock is not None:
            self._reader_clock.cancel()
            self._reader_clock = None


_Ordered: TypeAlias = "OrderedDict[ClientConnection, None]"


def _parser_error(error: BaseException | None) -> XRegistryError:
    setting = "a fixed limit"
    if isinstance(error, LineTooLong):
        things = "bytes in the path or in a header"
        return LimitExceeded(limit=_MOST_IN_LINE, things=things, setting=setting)
    if _TOO_MANY_HEADERS in str(error):
        return LimitExceeded(limit=_MOST_HEADERS, things="headers", setting=setting)
    return ParsingData(error_detail="it is not a well-formed HTTP request")
