"""Limits how many requests to sinks are under way, in all and for each host."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

from catalog.http.outboundaddress import split_hosts

# Sending a request and reading its answer takes a fraction of a millisecond each. With a few
# requests at a time, clients of the same process wait a few milliseconds at most.
_SLOTS = 4
_HOLD_SECONDS = 0.005


class DeliverySlots:
    """Limits the requests to sinks that are in flight.

    Each has one of the connections that there may be, and one of those that its host may have.
    Sinks whose last answer was no acceptance, or that never gave one, have no more than half of
    either, so that they hold back nobody who accepts events however many of them never answer.
    Whoever waits for a host holds none of the connections that others wait for.

    A few requests at a time are sent or have their answers read, so that clients of the process
    wait less. Such a slot is given back as soon as the sink has answered, or after a few
    milliseconds in which it has not: waiting for a sink costs a connection and nothing else.
    Waiting deliveries get each of these in turn.

    Args:
        connections: the most requests that are in flight.
        per_host: the most of them that go to one host.

    `hosts` are those that have a request or wait for one.
    """

    def __init__(
        self,
        connections: int,
        *,
        per_host: int,
        count: int = _SLOTS,
        hold_seconds: float = _HOLD_SECONDS,
    ) -> None:
        self._all = _Connections(connections)
        self._per_host = per_host
        self.hosts: dict[str, _Connections] = {}
        self._free = asyncio.Semaphore(count)
        self._hold_seconds = hold_seconds

    def hold(self, host: str, *, is_proven: bool) -> _Held:
        """A context to enter when a connection and a slot are free.

        Args:
            host: what `host_of` makes of the sink's URL.
            is_proven: whether the sink accepted what it was sent last.
        """
        return _Held(self, host, is_proven=is_proven)

    async def take(self, host: str, *, is_proven: bool) -> list[asyncio.Semaphore]:
        """Take what `give_back` takes back; the slot is the last."""
        at_host = self.hosts.get(host)
        if at_host is None:
            at_host = self.hosts[host] = _Connections(self._per_host)
        at_host.users += 1
        taken: list[asyncio.Semaphore] = []
        try:
            for each in (*at_host.of(is_proven), *self._all.of(is_proven), self._free):
                await each.acquire()
                taken.append(each)
        except BaseException:
            self.give_back(host, taken)
            raise
        return taken

    def give_back(self, host: str, taken: Sequence[asyncio.Semaphore]) -> None:
        for each in taken:
            each.release()
        at_host = self.hosts[host]
        at_host.users -= 1
        if not at_host.users:
            del self.hosts[host]

    @property
    def hold_seconds(self) -> float:
        return self._hold_seconds


class _Connections:
    """The connections that there may be, of which half are for sinks that accept events.

    `users` counts those who have one or wait for one.
    """

    def __init__(self, most: int) -> None:
        self.users = 0
        free, unproven = asyncio.Semaphore(most), asyncio.Semaphore(max(1, most // 2))
        self._of_proven, self._of_others = (free,), (unproven, free)

    def of(self, is_proven: bool) -> Sequence[asyncio.Semaphore]:
        """The semaphores to acquire for a connection, in this order."""
        return self._of_proven if is_proven else self._of_others


class _Held:
    """A connection and a slot; the slot may be given back before the connection.

    It is entered for each event and each sink: nested contexts of contextlib take several times
    as long.
    """

    __slots__ = ("_early", "_host", "_is_proven", "_slots", "_taken")

    def __init__(self, slots: DeliverySlots, host: str, *, is_proven: bool) -> None:
        self._slots = slots
        self._host = host
        self._is_proven = is_proven
        self._taken: list[asyncio.Semaphore] = []

    async def __aenter__(self) -> None:
        self._taken = await self._slots.take(self._host, is_proven=self._is_proven)
        delay = self._slots.hold_seconds
        self._early = asyncio.get_running_loop().call_later(delay, self._give_slot_back)

    async def __aexit__(self, *_: object) -> None:
        self._early.cancel()
        self._slots.give_back(self._host, self._taken)

    def _give_slot_back(self) -> None:
        self._taken.pop().release()


def host_of(url: str) -> str:
    """The host and port of a sink's URL, under which its requests count: the first of several."""
    return urlsplit(split_hosts(url)[0]).netloc.rpartition("@")[2].lower()
