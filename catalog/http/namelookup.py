"""Looks up the addresses of host names, so that no name holds up another for long."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections import OrderedDict
from typing import TypeAlias, cast

AddressInfo: TypeAlias = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]
]

_MOST_LOOKUPS = 32
_MOST_KNOWN = 4096


class NameLookup:
    """Looks up names in threads of its own.

    A lookup cannot be cancelled, and one of a name whose servers do not answer lasts for many
    seconds. Those of the event loop share a few threads with all else that looks up names, which
    such names would take. Here, names that were not found last, or never looked up, have half of
    the lookups that there may be; those who want the same name share one.
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_MOST_LOOKUPS)
        self._of_unknown = asyncio.Semaphore(_MOST_LOOKUPS // 2)
        self._running: dict[tuple[str, int], asyncio.Future[list[AddressInfo]]] = {}
        self._known: OrderedDict[tuple[str, int], None] = OrderedDict()

    async def addresses(self, host: str, port: int) -> list[AddressInfo]:
        """The addresses of a host for TCP; the caller bounds the time by cancelling.

        Raises:
            OSError: the name has no address.
        """
        key = host, port
        with contextlib.suppress(OSError, UnicodeError):
            # An address needs no lookup, whatever way it is written.
            return _addresses(host, port, flags=socket.AI_NUMERICHOST)
        found = self._running.get(key) or await self._begin(key)
        return await asyncio.shield(found)

    async def _begin(self, key: tuple[str, int]) -> asyncio.Future[list[AddressInfo]]:
        held = (self._free,) if key in self._known else (self._of_unknown, self._free)
        async with contextlib.AsyncExitStack() as stack:
            for each in held:
                await stack.enter_async_context(each)
            if key in self._running:
                return self._running[key]
            # The lookup goes on when the one who began it has been cancelled.
            stack.pop_all()
        future = self._running[key] = asyncio.get_running_loop().create_future()

        def end(_: object) -> None:
            del self._running[key]
            self._remember(key, has_address=future.exception() is None)
            for each in held:
                each.release()

        future.add_done_callback(end)
        # A daemon: the process does not wait for it when it ends.
        threading.Thread(target=_look_up, args=(key, future), daemon=True).start()
        return future

    def _remember(self, key: tuple[str, int], *, has_address: bool) -> None:
        self._known.pop(key, None)
        if has_address:
            self._known[key] = None
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)


def _addresses(host: str, port: int, *, flags: int = 0) -> list[AddressInfo]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return cast("list[AddressInfo]", found)


def _look_up(key: tuple[str, int], future: asyncio.Future[list[AddressInfo]]) -> None:
    found: list[AddressInfo] = []
    failure: OSError | None = None
    try:
        found = _addresses(*key)
    # A part of more than 63 characters cannot be encoded.
    except (OSError, UnicodeError) as error:
        failure = socket.gaierror(socket.EAI_NONAME, f"{type(error).__name__}: {error}")
    # The loop may have been closed meanwhile.
    with contextlib.suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(_settle, future, found, failure)


def _settle(
    future: asyncio.Future[list[AddressInfo]],
    found: list[AddressInfo],
    failure: OSError | None,
) -> None:
    if failure is None:
        future.set_result(found)
    else:
        future.set_exception(failure)
