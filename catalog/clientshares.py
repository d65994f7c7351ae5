"""Bounds work that is under way for clients: in all, and for each client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from catalog.model.caller import caller
from catalog.model.concorderrors import TooManyAtOnce
from catalog.model.errors import ServerBusy, XRegistryError


class ClientShares:
    """Work of one kind, of which each client may have a share under way.

    A client that has its share under way waits without keeping others from theirs.

    Args:
        things: names the work in a refusal.
        setting: the name of the setting that bounds it in all; that for one client ends with
            `_PER_CLIENT`.
        most: the bound in all.
        most_per_client: the bound for one client.
    """

    def __init__(self, things: str, setting: str, *, most: int, most_per_client: int) -> None:
        self._things = things
        self._setting = setting
        self._most = most
        self._most_per_client = most_per_client
        self._free = asyncio.Semaphore(most)
        # A client's share is kept while it has work under way or waiting.
        self._free_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def take(
        self, path: str, *, client: str | None = None, wait_seconds: float = 0
    ) -> AsyncIterator[None]:
        """Do work for a client in a context.

        Args:
            path: the request's.
            client: the caller of the current task, if it is not given.
            wait_seconds: how long to wait for other work to end.

        Raises:
            TooManyAtOnce: the client has its share under way.
            ServerBusy: all clients together have as much under way as may be.
        """
        until = asyncio.get_running_loop().time() + wait_seconds
        most = self._most_per_client
        own = self._free_of.setdefault(client or caller.get(), asyncio.Semaphore(most))
        refusal = TooManyAtOnce(
            path, limit=str(most), things=self._things, setting=f"{self._setting}_PER_CLIENT"
        )
        busy = f"There are {self._most} {self._things} under way ({self._setting})."
        async with (
            _held(own, until, refusal),
            _held(self._free, until, ServerBusy(path, detail=busy)),
        ):
            yield


@contextlib.asynccontextmanager
async def _held(
    free: asyncio.Semaphore, until: float, refusal: XRegistryError
) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout_at(until if free.locked() else None):
            await free.acquire()
    except TimeoutError:
        raise refusal from None
    try:
        yield
    finally:
        free.release()
