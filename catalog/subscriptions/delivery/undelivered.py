"""The dead letters of one subscription: keeps undeliverable events, and delivers them again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.operations.deliveries import DeadLetterState
from catalog.store.database import Database
from catalog.subscriptions.delivery.audience import Audience
from catalog.subscriptions.delivery.batchesandretries import DueEvent
from catalog.subscriptions.sinks.outgoing import OutgoingEvent, count_within
from catalog.subscriptions.sinks.sink import SinkAnswer, SinkRefused
from catalog.subscriptions.stored import deadletters
from catalog.subscriptions.stored.deadletters import DeadLetter, FailedEvent
from catalog.subscriptions.stored.subscriptions import Subscription

_FORMAT = JSONFormat()


class UndeliveredEvents:
    """The events that the sink of one subscription did not take, `most` at the most.

    With the order `wait`, later events of a subject are kept behind an earlier dead letter, and are
    delivered afterwards.
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
        # After the refusal of a batch, dead letters with numbers up to this are sent one by one.
        self._singly_to = 0
        self.may_have_due = True

    def is_blocked(self, subject: str) -> bool:
        """Whether events of a subject have to wait behind a dead letter."""
        return subject in self._blocked

    async def keep(self, due: DueEvent, *, at: datetime, attempts: int, reason: str) -> bool:
        """Keep an undeliverable event; return whether there was room."""
        failed = _failed(due, at=at, attempts=attempts, reason=reason)
        is_kept = await self._add([failed]) == 1
        if is_kept and self._is_ordered:
            self._blocked |= {failed.subject}
        return is_kept

    async def keep_waiting(self, due: Sequence[DueEvent], *, at: datetime) -> int:
        """Keep events of blocked subjects; return how many of the first events found room."""
        reason = "an earlier event of its subject could not be delivered"
        kept = await self._add(
            [_failed(each, at=at, attempts=0, reason=reason, state="waiting") for each in due]
        )
        # The dead letter before the events may have been deleted in the meantime.
        self.may_have_due = True
        return kept

    async def next_due(self, most: int, most_bytes: int | None) -> dict[int, OutgoingEvent]:
        """The first dead letters to deliver again, by number, as many as are sent at a time."""
        letters = await self._read_due(most)
        # Withheld dead letters give way to further dead letters, which have to be checked too.
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
            letters = await deadletters.read_due(connection, self._id, most)
            # Read just before new events are sent, which have to wait behind dead letters.
            if not letters and self._is_ordered:
                self._blocked = await deadletters.blocked_subjects(connection, self._id)
        return letters

    async def _withhold(self, letters: Sequence[DeadLetter]) -> None:
        """Mark letters as dead again: the creator of the subscription may no longer see them."""
        async with self._database.transaction() as connection:
            for each in letters:
                await deadletters.set_dead(
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
        """Note the last answer to sending dead letters again, of which the first were accepted."""
        delivered, left = numbers[:accepted], numbers[accepted:]
        failed, reason = None, ""
        if isinstance(answer, SinkRefused) and not answer.is_withheld:
            if len(left) > 1:
                # Each dead letter of the batch may be the cause of the refusal.
                self._singly_to = left[-1]
            else:
                failed, reason = left[0], answer.reason
        if not delivered and failed is None:
            return
        async with self._database.transaction() as connection:
            if delivered:
                await deadletters.remove(connection, self._id, delivered)
            if failed is not None:
                is_ordered = self._is_ordered
                await deadletters.set_dead(
                    connection, self._id, failed, reason=reason, at=at, holds_subject=is_ordered
                )

    async def _add(self, events: Sequence[FailedEvent]) -> int:
        async with self._database.transaction() as connection:
            return await deadletters.add(connection, self._id, events, most=self._most)


def _failed(
    due: DueEvent, *, at: datetime, attempts: int, reason: str, state: DeadLetterState = "dead"
) -> FailedEvent:
    return FailedEvent(
        event=due.event.structured,
        eventid=due.event.texts["id"],
        subject=due.subject,
        xid=due.entry.xid,
        at=at,
        attempts=attempts,
        reason=reason,
        state=state,
    )


def _event_of(letter: DeadLetter) -> OutgoingEvent:
    event = _FORMAT.read(CloudEvent, letter.event)
    assert isinstance(event, CloudEvent)
    return OutgoingEvent(event)
