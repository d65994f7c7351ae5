"""The sink of a subscription whose secrets cannot be decrypted: such a sink sends nothing."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import SinkAnswer, SinkRefused


class ClosedSink:
    """Refuses each event for now, with a reason."""

    most_events = 1

    def __init__(self, reason: str, cause: str) -> None:
        self._refusal = SinkRefused(reason=reason, cause=cause, is_withheld=True)

    async def send(self, _: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        return [self._refusal]

    async def close(self) -> None:
        """Do nothing: there is no connection."""
