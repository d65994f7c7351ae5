"""Delivers to one subscription, in the order of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import assert_never

import structlog

from catalog.events.deliveryslots import DeliverySlots, host_of
from catalog.events.eventdialects import Tails
from catalog.events.filters import Predicate, compile_filters
from catalog.events.logtail import LogEntry
from catalog.events.progress import ProgressWriter
from catalog.events.supervisor import LoopTiming
from catalog.model.backoff import Backoff
from catalog.model.errors import ServerBusy
from catalog.model.sinkcredential import TokenCredential
from catalog.sinks.outgoing import OutgoingEvent
from catalog.sinks.protocols import Sinks
from catalog.sinks.sink import Delivered, SinkAnswer, SinkGone, SinkRefused
from catalog.store.changes import ChangesDropped, Position
from catalog.store.deliveryprogress import Progress
from catalog.store.subscriptions import State, Subscription

_log = structlog.get_logger(__name__)

_BATCH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResources:
    """The objects that all deliveries of a process share; `recovered` is `Database.recovered`."""

    tails: Tails
    progress: ProgressWriter
    sinks: Sinks
    slots: DeliverySlots
    backoff: Backoff
    timing: LoopTiming
    recovered: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    """An event that is to be delivered.

    Args:
        before: the position of the change before its own.
        position: that of its change.
        number: its number among the events of its change.
        is_last: whether it is the last one of its change that is to be delivered.
    """

    before: Position
    position: Position
    number: int
    is_last: bool
    event: OutgoingEvent


class Delivery:
    """Delivers to one revision of a subscription.

    It is synced while its cursor is within the tail's window, behind while it reads from the
    database, and blocked while it waits after a failure. A blocked delivery keeps nothing in
    memory.
    """

    def __init__(self, subscription: Subscription, resources: DeliveryResources) -> None:
        self.id = subscription.id
        self.revision = subscription.revision
        self.cursor = subscription.cursor
        self.tail = resources.tails.of(subscription.definition)
        self._subscription = subscription
        self._resources = resources
        self._sink = resources.sinks.open(subscription)
        self._host = host_of(subscription.definition.sink)
        self._failures = subscription.failures
        self._is_proven = subscription.deliveredat is not None and not subscription.failures
        self._pause = 0.0
        self._has_ended = False
        # The number of events of the change after the cursor that need no more delivery.
        self._settled = 0
        # The number of events acknowledged since the last record of it.
        self._acknowledged = 0

    @cached_property
    def _matches(self) -> Predicate:
        definition = self._subscription.definition
        return compile_filters(definition.filters, types=definition.types, source=definition.source)

    def resume(self, cursor: Position) -> None:
        """Go on from `cursor` if that is further than what was saved."""
        self.cursor = max(self.cursor, cursor)

    async def run(self) -> None:
        """Deliver until the sink is gone."""
        try:
            while not self._has_ended:
                await self._run_once()
        finally:
            await self._sink.close()

    async def _run_once(self) -> None:
        try:
            seen = await self.advance_once()
        # The node's own fault is not counted against the sink.
        except ServerBusy:
            await self._resources.recovered()
        # An unexpected error of one subscription must not stop the others.
        except Exception as error:
            _log.exception("delivery failed unexpectedly", subscription=self.id)
            await self._refused(SinkRefused(reason=f"internal error: {type(error).__name__}"))
        else:
            if not seen:
                await self.tail.growth(self.cursor, self._concerns)
        if self._pause:
            await self._resources.timing.sleep(self._pause)

    async def advance_once(self) -> int:
        """Deliver the next changes up to the first failure; return how many were seen."""
        self._pause = 0.0
        interval = self._subscription.definition.config.interval
        advance = self._advance() if interval is None else self._advance_to_latest(interval)
        try:
            seen = await advance
        except ChangesDropped as dropped:
            await self._lose(dropped.begin)
            seen = 1
        # A long run of events that do not match must not block the event loop.
        await asyncio.sleep(0)
        return seen

    async def _advance(self) -> int:
        entries = await self.tail.after(self.cursor, 1 if self._failures else _BATCH)
        due = self._due(entries)
        most = 1 if self._failures else self._sink.most_events
        for first in range(0, len(due), most):
            events = due[first : first + most]
            delivered = await self._send([each.event for each in events])
            if delivered:
                await self._settle(events[delivered - 1])
            if delivered < len(events):
                return len(entries)
        if entries and self.cursor < entries[-1].position:
            await self._pass(entries[-1].position)
        return len(entries)

    def _due(self, entries: Sequence[LogEntry]) -> list[_Due]:
        """The events of changes after the cursor that are still to be delivered."""
        due: list[_Due] = []
        before, settled = self.cursor, self._settled
        for entry in entries:
            found = [
                (number, event)
                for number, event in enumerate(entry.events)
                if number >= settled and self._matches(event.texts)
            ]
            due += (
                _Due(
                    before=before,
                    position=entry.position,
                    number=number,
                    is_last=number == found[-1][0],
                    event=event,
                )
                for number, event in found
            )
            before, settled = entry.position, 0
        return due

    async def _settle(self, due: _Due) -> None:
        """Move the cursor to an event that needs no more delivery."""
        await self._pass(due.position if due.is_last else due.before)
        self._settled = 0 if due.is_last else due.number + 1

    async def _advance_to_latest(self, interval: float) -> int:
        """Deliver only the latest of the events that match, then pause."""
        latest, position, seen = None, self.cursor, 0
        while entries := await self.tail.after(position, _BATCH):
            matching = (
                event
                for entry in reversed(entries)
                for event in reversed(entry.events)
                if self._matches(event.texts)
            )
            latest = next(matching, latest)
            position, seen = entries[-1].position, seen + len(entries)
        if latest is not None:
            if not await self._send([latest]):
                return seen
            self._pause = interval
        if seen:
            await self._pass(position)
        return seen

    async def _lose(self, begin: Position) -> None:
        """Go on where the log begins now: changes before it were not delivered."""
        _log.warning("changes were dropped before their delivery", subscription=self.id)
        self.cursor, self._settled = begin, 0
        await self._record(lostat=self._resources.timing.now())

    def _concerns(self, entries: Sequence[LogEntry]) -> bool:
        """Whether any of these changes is to be delivered; move the cursor past those before it."""
        for entry in entries:
            if entry.position <= self.cursor:
                continue
            if any(self._matches(event.texts) for event in entry.events):
                return True
            self.cursor = entry.position
        self._resources.progress.skip(self._progress())
        return False

    async def _pass(self, position: Position) -> None:
        """Move the cursor to `position`, up to which nothing is left to deliver."""
        self.cursor, self._settled = position, 0
        if self._acknowledged:
            await self._record()
        else:
            self._resources.progress.skip(self._progress())

    async def _send(self, events: Sequence[OutgoingEvent]) -> int:
        """Send events, and return how many of the first were acknowledged."""
        answers: Sequence[SinkAnswer]
        if self._has_expired_token:
            answers = [SinkRefused(reason="the access token of the sink credential has expired")]
        else:
            async with self._resources.slots.hold(self._host, is_proven=self._is_proven):
                answers = await self._sink.send(events)
        answer = answers[-1]
        delivered = sum(isinstance(each, Delivered) for each in answers)
        self._is_proven = isinstance(answer, Delivered)
        self._acknowledged += delivered
        if delivered:
            self._failures = 0
        match answer:
            case Delivered():
                pass
            case SinkRefused():
                await self._refused(answer)
            case SinkGone():
                self._has_ended = True
                _log.info("subscription ended", subscription=self.id, reason=answer.reason)
                await self._record(state="ended", error=answer.reason)
            case _:
                assert_never(answer)
        return delivered

    @property
    def _has_expired_token(self) -> bool:
        credential = self._subscription.credential
        expiresat = credential.expiresat if isinstance(credential, TokenCredential) else None
        return expiresat is not None and expiresat <= self._resources.timing.now()

    async def _refused(self, answer: SinkRefused) -> None:
        self._failures += 1
        self._pause = self._resources.backoff.delay(
            self._failures, self._resources.timing.random, at_least=answer.retry_after
        )
        if self._failures == 1:
            _log.warning(
                "subscriber blocked",
                subscription=self.id,
                reason=answer.reason,
                cause=answer.cause,
            )
        await self._record(error=answer.reason)

    async def _record(
        self, *, state: State = "active", error: str | None = None, lostat: datetime | None = None
    ) -> None:
        progress = self._progress(state=state, error=error, lostat=lostat)
        self._acknowledged = 0
        await self._resources.progress.record(progress)

    def _progress(
        self, *, state: State = "active", error: str | None = None, lostat: datetime | None = None
    ) -> Progress:
        return Progress(
            id=self.id,
            revision=self.revision,
            course=self._subscription.course,
            cursor=self.cursor,
            delivered=self._acknowledged,
            deliveredat=self._resources.timing.now() if self._acknowledged else None,
            state=state,
            failures=self._failures,
            error=error,
            lostat=lostat,
        )
