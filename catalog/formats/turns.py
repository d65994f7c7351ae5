"""Shares a bounded number of places among clients, by the time that each client has used."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

_MOST_REMEMBERED = 1000


@dataclass(slots=True)
class _Client:
    # The seconds of the turns that have ended.
    used: float = 0.0
    # The start times of the turns that are under way.
    turns: list[float] = field(default_factory=list)
    waiting: deque[asyncio.Future[float]] = field(default_factory=deque)

    def used_until(self, now: float) -> float:
        return self.used + sum(now - begun for begun in self.turns)


class Turns:
    """The turns of clients to occupy a place.

    A place goes to the waiting client that has used the least time. A client with long turns
    therefore delays another client by a single turn at most, regardless of the number of turns
    that the first client waits for. A new client begins with the time of the client that had the
    last turn, so that absence earns no credit.

    Args:
        each: the most places that a single client may occupy at a time. The number of places is
            `each` + 1: one place always stays free for a second client.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._free = each + 1
        self._clients: dict[str, _Client] = {}
        self._last_used = 0.0

    @contextlib.asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait for a turn of a client; the turn lasts as long as the context."""
        client = self._clients.setdefault(name, _Client())
        if not (client.turns or client.waiting):
            client.used = max(client.used, self._last_used)
        begun = await self._wait(client)
        try:
            yield
        finally:
            self._end(client, begun)

    async def _wait(self, client: _Client) -> float:
        place: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        client.waiting.append(place)
        self._hand_out()
        try:
            return await place
        except asyncio.CancelledError:
            # A place may be granted and the waiting task cancelled before the task resumes: the
            # place must go back.
            if place.cancelled():
                self._hand_out()
            else:
                self._end(client, place.result())
            raise

    def _end(self, client: _Client, begun: float) -> None:
        client.turns.remove(begun)
        client.used += asyncio.get_running_loop().time() - begun
        self._free += 1
        self._hand_out()

    def _hand_out(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._free:
            ready = [c for c in self._clients.values() if c.waiting and len(c.turns) < self._each]
            if not ready:
                break
            client = min(ready, key=lambda each: each.used_until(now))
            place = client.waiting.popleft()
            if place.cancelled():
                continue
            place.set_result(now)
            self._last_used = max(self._last_used, client.used)
            client.turns.append(now)
            self._free -= 1
        self._forget_idle()

    def _forget_idle(self) -> None:
        """Forget the times of idle clients when every place is free, or the clients are too many.

        With every place free, no client waits, and the used times decide nothing.
        """
        is_idle = self._free > self._each
        if is_idle or len(self._clients) > _MOST_REMEMBERED:
            active = {name: c for name, c in self._clients.items() if c.turns or c.waiting}
            self._clients = active
