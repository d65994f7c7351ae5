"""The connections of clients: how many there may be, and how long they may keep still."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from itertools import islice
from typing import Any, TypeAlias

from aiohttp import web

from catalog.config import Settings
from catalog.http.clientaddress import is_within, source_of
from catalog.http.protocoloptions import protocol_options
from catalog.http.refusal import header_too_large, refusal
from catalog.model.concorderrors import TooManyAtOnce
from catalog.model.errors import ServerBusy, XRegistryError

# How many connections are looked at for one that can be closed, so that a flood costs little.
_LOOKS = 64
# A client that reads its answer more slowly than this is gone, or holds the connection on purpose.
_LEAST_BYTES_PER_SECOND = 4096


class ClientConnections:
    """The open connections by source, each source's beginning with the one used least recently.

    A source is an IPv4 address or, since one subscriber has as many IPv6 addresses as it likes,
    a network of 64 bits. A source that has all the connections it may have gives up one that is
    idle for a new one. If all sources together have as many as the node can serve, the one that
    has the most gives up one of them to a source that has fewer.
    """

    def __init__(self, settings: Settings, most: int) -> None:
        self._settings = settings
        self._most = most
        self._count = 0
        # Those of trusted proxies, which speak for many clients, are counted and nothing else.
        self._of_source: dict[str, _Ordered] = defaultdict(OrderedDict)

    def why_refused(self, address: str) -> XRegistryError | None:
        """The reason why a client gets no connection, or `None` once there is room for one."""
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
        """The protocol of a connection, which counts from now on until it is lost."""
        connection = ClientConnection(server, self, self._settings, self._source(address))
        self._count += 1
        if connection.source:
            self._of_source[connection.source][connection] = None
        return connection

    def use(self, connection: ClientConnection) -> None:
        """Note that a request has come."""
        if connection.is_counted and connection.source:
            self._of_source[connection.source].move_to_end(connection)

    def remove(self, connection: ClientConnection) -> None:
        """Count a connection no more, if it was counted."""
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
        largest = max(self._of_source.values(), key=len, default=own)
        if len(largest) <= len(own) + 1:
            return self._close_idle(own)
        return self._close_idle(largest) or self._close(next(iter(largest)))

    def _close_idle(self, connections: _Ordered) -> bool:
        for connection in list(islice(connections, _LOOKS)):
            if connection.is_idle:
                return self._close(connection)
            connections.move_to_end(connection)
        return False

    def _close(self, connection: ClientConnection) -> bool:
        self.remove(connection)
        connection.force_close()
        return True


class ClientConnection(web.RequestHandler):
    """aiohttp's protocol for one connection, which does not wait for ever.

    aiohttp has one time-out for connections that are idle, and none for those that send a header
    in small pieces or do not read their answer; nor does it tell how a connection fares. So this
    class reads some of its private attributes.
    """

    __slots__ = (
        "_connections",
        "_header_bytes",
        "_header_clock",
        "_reader_clock",
        "_settings",
        "is_counted",
        "source",
    )

    def __init__(
        self, server: web.Server, connections: ClientConnections, settings: Settings, source: str
    ) -> None:
        options: dict[str, Any] = protocol_options(settings)
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        # Requests that are sent before others are answered wait in the kernel, not in memory.
        self._max_msg_queue_size, self._msg_queue_resume_size = 2, 1
        self.source = source
        self.is_counted = True
        self._connections = connections
        self._settings = settings
        self._header_bytes = 0
        self._header_clock: asyncio.TimerHandle | None = None
        self._reader_clock: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request, or for the rest of a header."""
        return self._waiter is not None and not self._waiter.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._expect_header()

    def data_received(self, data: bytes) -> None:
        before = self._request_count
        super().data_received(data)
        if self._request_count != before:
            self._stop_header_clock()
            self._connections.use(self)
        elif data and self.is_idle:
            self._take_part_of_header(len(data))

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_header_clock()
        self._stop_reader_clock()
        self._connections.remove(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_reader(self._unread())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_reader_clock()

    def _expect_header(self) -> None:
        def end() -> None:
            self._header_clock = None
            if self.is_idle:
                self.force_close()

        self._header_bytes = 0
        seconds = self._settings.header_timeout_seconds
        self._header_clock = self._loop.call_later(seconds, end)

    def _take_part_of_header(self, size: int) -> None:
        if self._header_clock is None:
            self._expect_header()
        self._header_bytes += size
        most = self._settings.max_header_bytes
        if self._header_bytes > most and self.transport is not None:
            self.transport.write(refusal(header_too_large(most)))
            self.force_close()

    def _expect_reader(self, unread: int) -> None:
        seconds = self._settings.reading_timeout_seconds

        def look() -> None:
            left = self._unread()
            if left <= unread - _LEAST_BYTES_PER_SECOND * seconds:
                self._expect_reader(left)
            elif self.transport is not None:
                self.transport.abort()

        self._reader_clock = self._loop.call_later(seconds, look)

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
