"""The ordinary subscriber of the demo: keeps what it received."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from catalog.client.sink import Event
from catalog.demo.screen import Unexpected

_WAIT_SECONDS = 60


@dataclass(slots=True)
class Subscriber:
    """The events in the order of their arrival."""

    events: list[Event] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    async def wait_for(self, subjects: Collection[str], *, after: int = 0) -> int:
        """Wait until there was an event about each of `subjects`.

        Args:
            subjects: the xids of entities.
            after: how many of the first events do not count.

        Returns:
            how many events there were after those.

        Raises:
            Unexpected: one did not come within a minute.
        """
        lacking = set(subjects)
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                while lacking := lacking - {e.get("subject") for e in self.events[after:]}:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise Unexpected(
                f"an event at the subscriber for each of {len(subjects)} entities",
                f"none for {len(lacking)} of them, such as {min(lacking)}",
            ) from None
        return len(self.events) - after
