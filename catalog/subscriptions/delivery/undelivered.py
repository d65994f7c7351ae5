"""The dead letters of one subscription: keeps what cannot be delivered, and delivers it again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.store.database import Database
from catalog.subscriptions.delivery.audience import Audience
from catalog.subscriptions.delivery.batches import DueEvent
from catalog.subscriptions.sinks.outgoing import OutgoingEvent, count_within
from catalog.subscriptions.sinks.sink import SinkAnswer, SinkRefused
from catalog.subscriptions.stored.deadletters import (
    DeadLetter,
    FailedEvent,
    add,
    blocked_subjects,
    read_due,
    remove,
    set_dead,
)
from catalog.subscriptions.stored.subscriptions import Subscription

_FORMAT = JSONFormat()


class UndeliveredEvents:
    """The events that the sink of one subscription did not take.

    With the order `wait`, later events of a subject are kept here behind an earlier one, and are
    delivered after it.

    Args:
        most: the most events that are kept.
    """

    def __init__(
        self, database: Database, subscription: Subscription, audience: Audience, *, most: int
    ) -> None:
        self._database = database
        self._audience = audience
        self._id = subscription.id
        self._is_ordered = subscription.definition.config.order == "wait"
        self._most = most
        self._blocked: frozenset[str] = frozenset()
        # Up to this number, each is sent alone, since a batch of them was refused.
        self._singly_to = 0
        self.may_have_due = True

    def is_blocked(self, subject: str) -> bool:
        """Whether events of a subject have to wait behind one that is kept here."""
        return subject in self._blocked

    async def keep(self, due: DueEvent, *, at: datetime, attempts: int, reason: str) -> bool:
        """Keep an event that cannot be delivered; whether there was room for it."""
        failed = _failed(due, at=at, attempts=attempts, reason=reason, waits=False)
        is_kept = await self._add([failed]) == 1
        if is_kept and self._is_ordered:
            self._blocked |= {failed.subject}
        return is_kept

    async def keep_waiting(self, due: Sequence[DueEvent], *, at: datetime) -> int:
        """Keep events of blocked subjects; return how many of the first found room."""
        reason = "an earlier event of its subject could not be delivered"
        kept = await self._add(
            [_failed(each, at=at, attempts=0, reason=reason, waits=True) for each in due]
        )
        # What they would wait for may have been deleted meanwhile.
        self.may_have_due = True
        return kept

    async def next_due(self, most: int, most_bytes: int | None) -> dict[int, OutgoingEvent]:
        """The first of what is to be delivered again, as many as are sent at a time.

        Returns:
            the events by their numbers, in their order; without any, nothing is left.
        """
        letters = await self._read_due(most)
        while hidden := await self._audience.hidden({each.xid for each in letters if each.xid}):
            await self._withhold([each for each in letters if each.xid in hidden])
            letters = await self._read_due(most)
        self.may_have_due = bool(letters)
        if letters and letters[0].number <= self._singly_to:
            letters = letters[:1]
        events = [_event_of(each) for each in letters]
        if events and most_bytes is not None:
            events = events[: count_within(events, most_bytes)]
        return {each.number: event for each, event in zip(letters, events, strict=False)}

    async def _read_due(self, most: int) -> list[DeadLetter]:
        async with self._database.acquire() as connection:
            letters = await read_due(connection, self._id, most)
            if not letters and self._is_ordered:
                self._blocked = await blocked_subjects(connection, self._id)
        return letters

    async def _withhold(self, letters: Sequence[DeadLetter]) -> None:
        """Deliver nothing that the creator of the subscription may not see any more."""
        async with self._database.transaction() as connection:
            for each in letters:
                await set_dead(
                    connection,
                    self._id,
                    each.number,
                    reason="the creator of the subscription may not see what it is about",
                    at=each.at,
                    attempts=0,
                    holds_subject=self._is_ordered,
                )

    async def settle(
        self, numbers: Sequence[int], accepted: int, answer: SinkAnswer, *, at: datetime
    ) -> None:
        """Note what became of events that were sent again, after which others are next.

        Args:
            accepted: how many of the first were delivered.
            answer: the last answer of the sink.
        """
        delivered, left = numbers[:accepted], numbers[accepted:]
        failed, reason = None, ""
        if isinstance(answer, SinkRefused) and not answer.is_withheld:
            if len(left) > 1:
                # Each may be the one that the sink does not take.
                self._singly_to = left[-1]
            else:
                failed, reason = left[0], answer.reason
        if not delivered and failed is None:
            return
        async with self._database.transaction() as connection:
            if delivered:
                await remove(connection, self._id, delivered)
            if failed is not None:
                is_ordered = self._is_ordered
                await set_dead(
                    connection, self._id, failed, reason=reason, at=at, holds_subject=is_ordered
                )

    async def _add(self, events: Sequence[FailedEvent]) -> int:
        async with self._database.transaction() as connection:
            return await add(connection, self._id, events, most=self._most)


def _failed(due: DueEvent, *, at: datetime, attempts: int, reason: str, waits: bool) -> FailedEvent:
    return FailedEvent(
        event=due.event.structured,
        eventid=due.event.texts["id"],
        subject=due.subject,
        xid=due.entry.xid,
        at=at,
        attempts=attempts,
        reason=reason,
        waits=waits,
    )


def _event_of(letter: DeadLetter) -> OutgoingEvent:
    event = _FORMAT.read(CloudEvent, letter.event)
    assert isinstance(event, CloudEvent)
    return OutgoingEvent(event)
