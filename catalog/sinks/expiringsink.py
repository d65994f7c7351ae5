"""A sink that sends nothing once its access token has expired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from catalog.sinks.outgoing import OutgoingEvent
from catalog.sinks.sink import Sink, SinkAnswer, SinkRefused
from catalog.store.sinkcredentials import StoredCredential


class ExpiringSink:
    """A sink that refuses all events once the access token of its credential has expired."""

    def __init__(self, sink: Sink, stored: StoredCredential, now: Callable[[], datetime]) -> None:
        self.most_events = sink.most_events
        self._sink = sink
        self._stored = stored
        self._now = now

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        expiresat = self._stored.expiresat
        if expiresat is not None and expiresat <= self._now():
            return [SinkRefused(reason=self._reason, is_withheld=True)]
        return await self._sink.send(events)

    async def close(self) -> None:
        await self._sink.close()

    @property
    def _reason(self) -> str:
        reason = "the access token of the sink credential has expired"
        if self._stored.type != "REFRESHTOKEN":
            return reason
        return f"{reason}: {self._stored.error or 'it is being refreshed'}"
