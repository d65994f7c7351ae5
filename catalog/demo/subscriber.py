"""The subscriber of the demo, which keeps the events that it receives."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from catalog.client.sink import Event
from catalog.demo.output import Unexpected

_WAIT_SECONDS = 60


@dataclass(slots=True)
class Subscriber:
    """The events, in the order of their arrival."""

    events: list[Event] = field(default_factory=list)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(self, event: Event) -> None:
        self.events.append(event)
        self._arrived.set()

    async def wait_for(self, subjects: Collection[str], *, after: int = 0) -> int:
        """Wait until an event about each of `subjects` has arrived.

        Args:
            subjects: the xids of entities.
            after: the number of first events that do not count.

        Returns:
            the number of events after those.

        Raises:
            Unexpected: an event has not arrived within a minute.
        """
        lacking = set(subjects)
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while lacking := lacking - {e.get("subject") for e in self.events[after:]}:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise Unexpected(
                f"an event at the subscriber for each of {len(subjects)} entities",
                f"none for {len(lacking)} of them, such as {min(lacking)}",
            ) from None
        return len(self.events) - after
