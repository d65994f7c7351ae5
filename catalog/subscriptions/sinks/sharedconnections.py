"""Connections that the sinks of a process share where server and credential are the same."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

_IDLE_SECONDS = 30.0


class Closable(Protocol):
    """A connection to a server."""

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent."""
        ...

    async def close(self) -> None:
        """Close the connection, if it is still open."""
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
            return await self._connect(key)

    def _leave(self, key: _Key, shared: _Shared[_Connection]) -> None:
        shared.users -= 1
        if shared.users:
            return
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
