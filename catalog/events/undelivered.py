"""The dead letters of one subscription: keeps what cannot be delivered, and delivers it again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from catalog.sinks.outgoing import OutgoingEvent
from catalog.sinks.sink import Delivered, SinkAnswer
from catalog.store.database import Database
from catalog.store.deadletters import (
    DeadLetter,
    FailedEvent,
    add,
    blocked_subjects,
    read_due,
    remove,
    set_dead,
)
from catalog.store.subscriptions import Subscription

_FORMAT = JSONFormat()
_AT_ONCE = 20

Send = Callable[[OutgoingEvent], Awaitable[SinkAnswer]]


class UndeliveredEvents:
    """The events that the sink of one subscription did not take.

    With the order `wait`, later events of a subject are kept here behind an earlier one, and are
    delivered after it.

    Args:
        most: the most events that are kept.
    """

    def __init__(self, database: Database, subscription: Subscription, *, most: int) -> None:
        self._database = database
        self._id = subscription.id
        self._is_ordered = subscription.definition.config.order == "wait"
        self._most = most
        self._blocked: frozenset[str] = frozenset()
        self.may_have_due = True

    def is_blocked(self, subject: str) -> bool:
        """Whether events of a subject have to wait behind one that is kept here."""
        return subject in self._blocked

    async def keep(self, event: OutgoingEvent, *, at: datetime, attempts: int, reason: str) -> bool:
        """Keep an event that cannot be delivered; whether there was room for it."""
        failed = _failed(event, at=at, attempts=attempts, reason=reason, waits=False)
        is_kept = await self._add([failed]) == 1
        if is_kept and self._is_ordered:
            self._blocked |= {failed.subject}
        return is_kept

    async def keep_waiting(self, events: Sequence[OutgoingEvent], *, at: datetime) -> int:
        """Keep events of blocked subjects; return how many of the first found room."""
        reason = "an earlier event of its subject could not be delivered"
        kept = await self._add(
            [_failed(each, at=at, attempts=0, reason=reason, waits=True) for each in events]
        )
        # What they would wait for may have been deleted meanwhile.
        self.may_have_due = True
        return kept

    async def redeliver_once(
        self, send: Send, now: Callable[[], datetime], most: int | None = None
    ) -> int:
        """Send some of what is to be delivered again, up to the first failure.

        Args:
            most: the most that may be sent.

        Returns:
            how many were seen; with 0, nothing is left.
        """
        async with self._database.pool.acquire(timeout=30) as connection:
            letters = await read_due(connection, self._id, min(most or _AT_ONCE, _AT_ONCE))
            if not letters and self._is_ordered:
                self._blocked = await blocked_subjects(connection, self._id)
        self.may_have_due = bool(letters)
        delivered: list[int] = []
        for letter in letters:
            answer = await send(_event_of(letter))
            if not isinstance(answer, Delivered):
                await self._settle(delivered, letter, answer.reason, now())
                break
            delivered.append(letter.number)
        else:
            await self._settle(delivered)
        return len(letters)

    async def _settle(
        self,
        delivered: Sequence[int],
        failed: DeadLetter | None = None,
        reason: str = "",
        at: datetime | None = None,
    ) -> None:
        if not delivered and failed is None:
            return
        async with self._database.transaction() as connection:
            if delivered:
                await remove(connection, self._id, delivered)
            if failed is not None and at is not None:
                await set_dead(
                    connection,
                    self._id,
                    failed.number,
                    reason=reason,
                    at=at,
                    holds_subject=self._is_ordered,
                )

    async def _add(self, events: Sequence[FailedEvent]) -> int:
        async with self._database.transaction() as connection:
            return await add(connection, self._id, events, most=self._most)


def _failed(
    event: OutgoingEvent, *, at: datetime, attempts: int, reason: str, waits: bool
) -> FailedEvent:
    return FailedEvent(
        event=event.structured,
        eventid=event.texts["id"],
        subject=event.texts.get("subject", ""),
        at=at,
        attempts=attempts,
        reason=reason,
        waits=waits,
    )


def _event_of(letter: DeadLetter) -> OutgoingEvent:
    event = _FORMAT.read(CloudEvent, letter.event)
    assert isinstance(event, CloudEvent)
    return OutgoingEvent(event)
