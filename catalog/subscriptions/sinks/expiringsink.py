"""Sinks that stop: at the expiry of an access token, or since secrets cannot be decrypted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import Delivered, Sink, SinkAnswer, SinkRefused
from catalog.subscriptions.stored.sinkcredentials import BETWEEN_EARLY_REFRESHES, StoredCredential


class ClosedSink:
    """Refuses each event for now, with a reason."""

    most_events = 1

    def __init__(self, reason: str, cause: str) -> None:
        self._refusal = SinkRefused(reason=reason, cause=cause, is_withheld=True)

    async def send(self, _: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        return [self._refusal]

    async def close(self) -> None:
        """Do nothing: there is no connection."""


# A refresh rarely takes longer; a new token reopens the sink at once.
_REFRESH_SECONDS = 10.0


class ExpiringSink:
    """A sink that refuses events once the access token of its credential has expired.

    A token that the sink refuses before its expiry is refreshed as well, if the credential has a
    refresh token. The next early refresh needs an event that the sink has accepted in between: a
    sink that refuses every token causes no further refreshes.

    Args:
        deliveredat: the time at which the sink last accepted an event.
    """

    def __init__(
        self,
        sink: Sink,
        stored: StoredCredential,
        now: Callable[[], datetime],
        *,
        deliveredat: datetime | None = None,
    ) -> None:
        self.most_events = sink.most_events
        self._sink = sink
        self._stored = stored
        self._now = now
        self._deliveredat = deliveredat
        self._earlyat = stored.earlyat

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        expiresat = self._stored.expiresat
        if expiresat is not None and expiresat <= self._now():
            return [SinkRefused(reason=self._reason, is_withheld=True)]
        answers = await self._sink.send(events)
        if isinstance(answers[0], Delivered):
            self._deliveredat = self._now()
        last = answers[-1]
        if isinstance(last, SinkRefused) and last.is_unauthorized and self._may_refresh():
            self._earlyat = self._now()
            return [*answers[:-1], self._refreshing(last)]
        return answers

    async def close(self) -> None:
        await self._sink.close()

    def _may_refresh(self) -> bool:
        if self._stored.type != "REFRESHTOKEN" or self._stored.failures:
            return False
        if self._earlyat is None:
            return True
        is_proven = self._deliveredat is not None and self._deliveredat > self._earlyat
        return is_proven and self._now() - self._earlyat >= BETWEEN_EARLY_REFRESHES

    def _refreshing(self, answer: SinkRefused) -> SinkRefused:
        return replace(
            answer,
            is_withheld=True,
            retry_after=max(answer.retry_after, _REFRESH_SECONDS),
            refusedtoken=self._stored.revision,
        )

    @property
    def _reason(self) -> str:
        reason = "the access token of the sink credential has expired"
        if self._stored.type != "REFRESHTOKEN":
            return reason
        return f"{reason}: {self._stored.error or 'it is being refreshed'}"
