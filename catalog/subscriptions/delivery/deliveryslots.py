"""Limits the number of concurrent requests to sinks, in all and for each host."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from catalog.http.outboundaddress import split_hosts
from catalog.load.limiter import Share

# Sending a request and reading its answer takes a fraction of a millisecond each. With a few
# requests at a time, clients of the same process wait a few milliseconds at most.
_SLOTS = 4
# An eighth of the default connections: a host in trouble leaves most of the connections free.
_PER_HOST = 32
_HOLD_SECONDS = 0.005


class DeliverySlots:
    """Limits the requests to sinks that are in flight.

    Each request takes a connection, out of `connections` in all and `per_host` for the host.
    Unproven sinks, whose last answer was not an acceptance or which have not answered yet, take at
    most half of either limit, so that unresponsive sinks never hold back sinks that accept events.

    Only a few requests at a time are being sent or have their answers read, so that clients of the
    process wait less. A request releases its slot as soon as the sink has answered, or after a few
    milliseconds without an answer: waiting for a sink costs only a connection.

    Args:
        connections: the largest number of requests in flight.
        per_host: the largest number of requests in flight to one host.
        count: the number of slots.
        hold_seconds: the longest time in a slot.
    """

    def __init__(
        self,
        connections: int,
        *,
        per_host: int = _PER_HOST,
        count: int = _SLOTS,
        hold_seconds: float = _HOLD_SECONDS,
    ) -> None:
        self.connections = Share(connections, per_key=per_host)
        self.slots = Share(count)
        self.hold_seconds = hold_seconds

    def hold(self, host: str, *, is_proven: bool) -> _Held:
        """A context to enter when a connection and a slot are free.

        Args:
            host: the result of `host_of` for the sink's URL.
            is_proven: whether the sink accepted the last events.
        """
        return _Held(self, host, is_proven=is_proven)


class _Held:
    """A connection and a slot; the slot may be released before the connection.

    The context is entered for each event and each sink: nested contexts of contextlib take several
    times as long.
    """

    __slots__ = ("_early", "_has_slot", "_host", "_slots", "_within_half")

    def __init__(self, slots: DeliverySlots, host: str, *, is_proven: bool) -> None:
        self._slots = slots
        self._host = host
        self._within_half = not is_proven
        self._has_slot = False

    async def __aenter__(self) -> None:
        slots = self._slots
        await slots.connections.take(self._host, within_half=self._within_half)
        try:
            await slots.slots.take()
        except BaseException:
            slots.connections.give_back(self._host, within_half=self._within_half)
            raise
        self._has_slot = True
        loop = asyncio.get_running_loop()
        self._early = loop.call_later(slots.hold_seconds, self._give_slot_back)

    async def __aexit__(self, *_: object) -> None:
        self._early.cancel()
        self._give_slot_back()
        self._slots.connections.give_back(self._host, within_half=self._within_half)

    def _give_slot_back(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._slots.slots.give_back()


def host_of(url: str) -> str:
    """The host and port of a sink's URL, to which requests count: the first host of several."""
    return urlsplit(split_hosts(url)[0]).netloc.rpartition("@")[2].lower()
