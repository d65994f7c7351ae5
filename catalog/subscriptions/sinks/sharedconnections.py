"""Connections that the sinks of a process share where server and credential are the same.

Every protocol but HTTP has such connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from catalog.http.listener import most_outbound_connections
from catalog.model.credentials import PlainCredential, SinkCredential
from catalog.model.sinkterms import DEFAULT_PORTS
from catalog.settings import Settings
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.protocols import TLS_SCHEMES, BrokerSettings
from catalog.subscriptions.sinks.sink import Sink, SinkAnswer, SinkConnections, connect_failure
from catalog.subscriptions.stored.subscriptions import Subscription

_IDLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerServer:
    """The server of a sink, equal for sinks that share a connection.

    Args:
        host: the name or IP address.
        cacertificate: the certificates to trust, as PEM; `None` for the certificates of the system.
    """

    host: str
    port: int
    is_tls: bool
    cacertificate: str | None
    credential: SinkCredential | None

    @classmethod
    def of(cls, subscription: Subscription, settings: BrokerSettings, **more: Any) -> Self:
        """The server of a subscription; `more` are the further members of a subclass."""
        url = urlsplit(subscription.definition.sink)
        return cls(
            host=url.hostname or "",
            port=url.port or DEFAULT_PORTS[url.scheme],
            is_tls=url.scheme in TLS_SCHEMES,
            cacertificate=settings.cacertificate,
            credential=subscription.credential,
            **more,
        )

    @property
    def login(self) -> PlainCredential | None:
        """The credential, if it is a user and a password."""
        return self.credential if isinstance(self.credential, PlainCredential) else None


class Closable(Protocol):
    """A connection to a server."""

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent."""
        ...

    async def close(self) -> None:
        """Close the connection, if it is still open, in bounded time."""
        ...


_Key = TypeVar("_Key", bound=Hashable)
_Connection = TypeVar("_Connection", bound=Closable)


@dataclass(slots=True, eq=False)
class _Shared(Generic[_Connection]):
    opening: asyncio.Task[_Connection]
    users: int = 0
    expiry: asyncio.TimerHandle | None = None

    @property
    def is_usable(self) -> bool:
        if not self.opening.done():
            return True
        # `exception` raises for a cancelled task, hence the order.
        is_opened = not self.opening.cancelled() and self.opening.exception() is None
        return is_opened and self.opening.result().is_open


class SharedConnections(Generic[_Key, _Connection]):
    """Connections by key, opened when a user needs them and closed when idle.

    The number of deliveries that send at a time bounds the connections in use. An ended connection
    is replaced when the next user needs it. When a connection cannot be opened, every waiting user
    gets the same failure.

    Args:
        connect: opens a connection.
        connect_seconds: the longest time to open a connection.
        most_idle: the largest number of unused connections to keep.
        idle_seconds: the time to keep an unused connection.
    """

    def __init__(
        self,
        connect: Callable[[_Key], Awaitable[_Connection]],
        *,
        connect_seconds: float,
        most_idle: int,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._connect = connect
        self._connect_seconds = connect_seconds
        self._most_idle = most_idle
        self._idle_seconds = idle_seconds
        self._shared: dict[_Key, _Shared[_Connection]] = {}
        # Longest idle first.
        self._idle: dict[_Key, _Shared[_Connection]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def hold(self, key: _Key) -> AsyncIterator[_Connection]:
        """Use the connection of a key; opens the connection if need be.

        Raises:
            OSError: the connection cannot be opened, or not in time (`TimeoutError`).
        """
        shared = self._enter(key)
        try:
            # A cancelled user must not cancel the opening, for which further users may wait.
            yield await asyncio.shield(shared.opening)
        finally:
            self._leave(key, shared)

    async def close(self) -> None:
        """Close all connections; no connection is in use."""
        for key in [*self._shared]:
            self._drop(key, self._shared[key])
        await asyncio.gather(*self._closing)

    def _enter(self, key: _Key) -> _Shared[_Connection]:
        shared = self._shared.get(key)
        if shared is not None and not shared.is_usable:
            self._forget(key, shared)
            # Else the last user closes the old connection.
            if not shared.users:
                self._close_later(shared)
            shared = None
        if shared is None:
            shared = _Shared(asyncio.create_task(self._open(key)))
            self._shared[key] = shared
        self._wake(key, shared)
        shared.users += 1
        return shared

    async def _open(self, key: _Key) -> _Connection:
        async with asyncio.timeout(self._connect_seconds):
            try:
                return await self._connect(key)
            # A label of more than 63 characters cannot be encoded.
            except UnicodeError as error:
                raise OSError(str(error)) from error

    def _leave(self, key: _Key, shared: _Shared[_Connection]) -> None:
        shared.users -= 1
        if shared.users:
            return
        # An unfinished opening has lost all of its users to cancellations and time-outs.
        if self._shared.get(key) is not shared or not shared.is_usable or not shared.opening.done():
            self._drop(key, shared)
            return
        self._idle[key] = shared
        shared.expiry = asyncio.get_running_loop().call_later(
            self._idle_seconds, self._drop, key, shared
        )
        if len(self._idle) > self._most_idle:
            oldest = next(iter(self._idle))
            self._drop(oldest, self._idle[oldest])

    def _wake(self, key: _Key, shared: _Shared[_Connection]) -> None:
        if shared.expiry is not None:
            shared.expiry.cancel()
            shared.expiry = None
        if self._idle.get(key) is shared:
            del self._idle[key]

    def _forget(self, key: _Key, shared: _Shared[_Connection]) -> None:
        """Let the next user open a new connection."""
        self._wake(key, shared)
        if self._shared.get(key) is shared:
            del self._shared[key]

    def _drop(self, key: _Key, shared: _Shared[_Connection]) -> None:
        self._forget(key, shared)
        self._close_later(shared)

    def _close_later(self, shared: _Shared[_Connection]) -> None:
        closing = asyncio.create_task(_close(shared.opening))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


async def _close(opening: asyncio.Task[_Connection]) -> None:
    # Cancelling has no effect on a finished opening, whose connection has to be closed.
    opening.cancel()
    await asyncio.wait([opening])
    if not opening.cancelled() and opening.exception() is None:
        await opening.result().close()


class BrokerSink(Sink, Generic[_Key, _Connection]):
    """A sink that sends over a shared connection to `server`."""

    def __init__(
        self, shared: SharedConnections[_Key, _Connection], settings: Settings, server: _Key
    ) -> None:
        self._shared = shared
        self._seconds = settings.delivery_timeout_seconds
        self._server = server

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        try:
            async with self._shared.hold(self._server) as connection:
                return await self._send(connection, events)
        except OSError as error:
            return [connect_failure(error)]

    async def _send(
        self, connection: _Connection, events: Sequence[OutgoingEvent]
    ) -> Sequence[SinkAnswer]:
        """Send over the connection; the rest as `Sink.send`."""
        raise NotImplementedError


def broker_connections(
    settings: Settings,
    connect: Callable[[_Key, Settings], Awaitable[_Connection]],
    make: Callable[[SharedConnections[_Key, _Connection], Settings, Subscription], Sink],
) -> SinkConnections:
    """The connections of a process to servers of a protocol, and the sinks that share them.

    Args:
        connect: opens a connection to a server.
        make: makes the sink of a subscription.
    """
    shared: SharedConnections[_Key, _Connection] = SharedConnections(
        lambda server: connect(server, settings),
        connect_seconds=settings.delivery_timeout_seconds,
        most_idle=max(1, most_outbound_connections(settings) // 8),
    )
    return SinkConnections(open=lambda each: make(shared, settings, each), close=shared.close)


def take_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a task without a waiting caller, which asyncio would log otherwise."""
    if not task.cancelled():
        task.exception()
