"""Bounds the memory of request bodies, from their arrival to the answer."""

from __future__ import annotations

import asyncio
from collections import Counter

from aiohttp import web

from catalog.config import Settings
from catalog.model.caller import caller
from catalog.model.concorderrors import TooManyAtOnce
from catalog.model.errors import ServerBusy

# The beginning of a body is not counted: whatever large bodies take, small ones are accepted.
_UNCOUNTED = 64 * 1024


class BodyMemory:
    """The bytes of bodies that a node holds, in all and for each client."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.max_body_memory_bytes
        self._most_of_client = settings.max_client_body_memory_bytes
        self._held = 0
        self._of_client: Counter[str] = Counter()
        # One step of inflating is done at a time, so that it does not matter to anybody else how
        # many bodies are inflated; they take turns.
        self.inflating = asyncio.Lock()

    def take(self, client: str, size: int) -> None:
        """Count `size` bytes more.

        Raises:
            TooManyAtOnce: the client holds as much as one may.
            ServerBusy: all clients hold as much as they may.
        """
        if self._of_client[client] + size > self._most_of_client:
            raise TooManyAtOnce(
                limit=str(self._most_of_client),
                things="bytes of bodies of one client",
                setting="CONCORD_MAX_CLIENT_BODY_MEMORY_BYTES",
            )
        if self._held + size > self._most:
            raise ServerBusy(
                detail=f"Requests under way have {self._most} bytes of bodies, the most at a time "
                "(CONCORD_MAX_BODY_MEMORY_BYTES)."
            )
        self._held += size
        self._of_client[client] += size

    def give_back(self, client: str, size: int) -> None:
        self._held -= size
        self._of_client[client] -= size
        if not self._of_client[client]:
            del self._of_client[client]


class HeldBody:
    """The body of one request, as it grows."""

    def __init__(self, memory: BodyMemory) -> None:
        self.content: bytes | None = None
        self._memory = memory
        self._client = caller.get()
        self._counted = 0

    def grow(self, size: int) -> None:
        """Count the body with `size` bytes, unless it was larger already.

        Raises:
            TooManyAtOnce, ServerBusy: see `BodyMemory.take`.
        """
        more = size - _UNCOUNTED - self._counted
        if more > 0:
            self._memory.take(self._client, more)
            self._counted += more

    def release(self) -> None:
        self.content = None
        self._memory.give_back(self._client, self._counted)
        self._counted = 0


BODY_MEMORY: web.AppKey[BodyMemory] = web.AppKey("body_memory", BodyMemory)
_HELD: web.RequestKey[HeldBody] = web.RequestKey("held_body", HeldBody)


def held_body(request: web.Request) -> HeldBody:
    """The body of a request, which is empty at first."""
    if _HELD not in request:
        request[_HELD] = HeldBody(request.app[BODY_MEMORY])
    return request[_HELD]


def release_body(request: web.Request) -> None:
    """Release the body of a request that was answered."""
    if _HELD in request:
        request[_HELD].release()
