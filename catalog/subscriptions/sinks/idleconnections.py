"""Connections that are kept open for the next request, bounded in number and time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Hashable

from catalog.subscriptions.sinks.httpconnection import HttpConnection

# Many servers close a connection that has been idle for a minute.
_IDLE_SECONDS = 30.0


class IdleConnections:
    """Idle connections by target.

    Args:
        most: the largest number of connections; the connection idle for longest makes room.
        idle_seconds: the longest time to keep an idle connection.
    """

    def __init__(self, most: int, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._since: OrderedDict[HttpConnection, tuple[Hashable, float]] = OrderedDict()
        self._by_key: defaultdict[Hashable, list[HttpConnection]] = defaultdict(list)
        self._timer: asyncio.TimerHandle | None = None

    def take(self, key: Hashable) -> HttpConnection | None:
        """The most recently used connection that leads to `key`."""
        found = self._by_key.get(key)
        if not found:
            return None
        connection = found[-1]
        self.forget(connection)
        return connection

    def keep(self, key: Hashable, connection: HttpConnection) -> None:
        loop = asyncio.get_running_loop()
        self._since[connection] = key, loop.time()
        self._by_key[key].append(connection)
        if len(self._since) > self._most:
            self._close_oldest()
        if self._timer is None:
            self._timer = loop.call_later(self._idle_seconds, self._close_old)

    def forget(self, connection: HttpConnection) -> None:
        """Leave out a connection that has ended, or is in use."""
        if connection in self._since:
            key, _ = self._since.pop(connection)
            self._by_key[key].remove(connection)
            if not self._by_key[key]:
                del self._by_key[key]

    def close(self) -> None:
        """Close all idle connections."""
        while self._since:
            self._close_oldest()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __len__(self) -> int:
        return len(self._since)

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._idle_seconds
        while self._since and next(iter(self._since.values()))[1] <= oldest:
            self._close_oldest()
        self._timer = None
        if self._since:
            due = next(iter(self._since.values()))[1] + self._idle_seconds
            self._timer = loop.call_at(due, self._close_old)

    def _close_oldest(self) -> None:
        connection = next(iter(self._since))
        self.forget(connection)
        connection.abort()
