"""Delivers to one subscription, in the order of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import structlog

from catalog.access.creatorrights import CreatorRights
from catalog.context import Context
from catalog.model.errors import ServerBusy
from catalog.store.changes import ChangesDropped, Position
from catalog.subscriptions.delivery.audience import Audience
from catalog.subscriptions.delivery.batchesandretries import BatchSizes, DueEvent, RetryPolicy
from catalog.subscriptions.delivery.eventdialects import Tails
from catalog.subscriptions.delivery.filters import Predicate, compile_filters, required_of
from catalog.subscriptions.delivery.logtail import LogEntry, Waiter
from catalog.subscriptions.delivery.progress import DeliveryRecord, ProgressWriter
from catalog.subscriptions.delivery.sinkcalls import DeliverySlots, SinkCalls
from catalog.subscriptions.delivery.undelivered import UndeliveredEvents
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import SinkAnswer, SinkGone, SinkRefused, Sinks
from catalog.subscriptions.stored.subscriptions import Subscription
from catalog.supervisor import LoopTiming, backoff_from

_log = structlog.get_logger(__name__)

_BATCH = 100
_LONGEST_SLEEP_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResources:
    """The objects that the deliveries of a process share."""

    context: Context
    tails: Tails
    progress: ProgressWriter
    sinks: Sinks
    slots: DeliverySlots
    timing: LoopTiming
    rights: CreatorRights


class Delivery:
    """Delivers to one revision of a subscription.

    A delivery is synced while its cursor is within the tail's window, behind while the delivery
    reads from the database, and blocked while waiting after a failure. A blocked delivery keeps no
    events in memory.
    """

    def __init__(self, subscription: Subscription, resources: DeliveryResources) -> None:
        database, settings = resources.context.database, resources.context.settings
        self.id = subscription.id
        self.revision = subscription.revision
        self.tail = resources.tails.of(subscription.definition)
        self.record = DeliveryRecord.of(subscription)
        self._subscription = subscription
        self._config = subscription.definition.config
        self._resources = resources
        self._timing = resources.timing
        self._audience = Audience(subscription, rights=resources.rights, database=database)
        self._undelivered = UndeliveredEvents(
            database, subscription, self._audience, most=settings.dead_letters
        )
        self._calls = SinkCalls(
            subscription,
            resources.sinks.open(subscription),
            slots=resources.slots,
            progress=resources.progress,
            timing=resources.timing,
            timeout_seconds=settings.delivery_timeout_seconds,
            tracing=resources.context.shared.tracing,
        )
        self._retries = RetryPolicy(
            subscription, self.record, backoff=backoff_from(settings), timing=resources.timing
        )
        self._sizes = BatchSizes(self._config, self.record, most_events=self._calls.most_events)
        self._pause = 0.0
        self._has_ended = False

    @cached_property
    def _matches(self) -> Predicate:
        definition = self._subscription.definition
        return compile_filters(definition.filters, types=definition.types, source=definition.source)

    async def run(self) -> None:
        """Deliver until the subscription ends."""
        try:
            await self._wait_for_start()
            while not self._has_ended:
                await self._run_once()
        finally:
            await self._calls.close()

    async def _wait_for_start(self) -> None:
        """Wait for `startsAt` if earlier events are to be delivered then."""
        config = self._config
        if config.startsat is None or not (config.start or config.initialevents):
            return
        while (seconds := (config.startsat - self._timing.now()).total_seconds()) > 0:
            await self._timing.sleep(min(seconds, _LONGEST_SLEEP_SECONDS))

    async def _run_once(self) -> None:
        try:
            seen = await self.advance_once()
        # The node's own fault is not counted against the sink.
        except ServerBusy:
            await self._resources.context.database.recovered()
        # An unexpected error of one subscription must not stop further deliveries.
        except Exception as error:
            _log.exception("delivery failed unexpectedly", subscription=self.id)
            self._wait_after(f"internal error: {type(error).__name__}")
            await self._save()
        else:
            if not seen:
                await self.tail.growth(self.record.cursor, self._waiter(self._pass))
        if self._pause:
            await self._timing.sleep(self._pause)

    async def advance_once(self) -> int:
        """Deliver the next changes up to the first failure; return the number of changes seen."""
        self._pause = 0.0
        if await self._is_over():
            return 1
        interval = self._config.interval
        try:
            seen = await self._redeliver() if self._undelivered.may_have_due else 0
            if not seen:
                latest = interval is not None
                seen = await (self._advance_to_latest(interval) if latest else self._advance())
        except ChangesDropped as dropped:
            _log.warning("changes were dropped before their delivery", subscription=self.id)
            self.record.lost(dropped.begin, self._timing.now())
            await self._save()
            seen = 1
        # A long run of events that do not match must not block the event loop.
        await asyncio.sleep(0)
        return seen

    async def _is_over(self) -> bool:
        """Whether the subscription got its last event or expired. `expire` updates the row."""
        config = self._config
        if config.maxevents is not None and self.record.total >= config.maxevents:
            self.record.end(f"{config.maxevents} events were delivered, as many as it wanted")
            await self._save()
            self._has_ended = True
        elif config.expiresat is not None and config.expiresat <= self._timing.now():
            self._has_ended = True
        return self._has_ended

    # From the log to the sink

    async def _advance(self) -> int:
        due, last = await self._collect()
        if last is None:
            return 0
        while due and not self._has_ended and not self._pause:
            due = due[await self._settle_next(due) :]
            if await self._is_over():
                break
            # The rest is collected again, to wait for a full batch.
            if self._sizes.is_short(due):
                return 1
        if not due:
            self.record.pass_entry(last)
            await self._save()
        return 1

    async def _advance_to_latest(self, interval: float | None) -> int:
        """Deliver only the latest matching event, then pause."""
        latest, last, seen = None, None, 0
        position = self.record.cursor
        while entries := await self._after(position, _BATCH):
            for due in self._due(entries):
                latest = due
            last, seen = entries[-1], seen + len(entries)
            position = last.position
        if latest is not None:
            if not await self._settle_next([latest]):
                return seen
            self._pause = self._pause or interval or 0.0
        if last is not None and not self._has_ended:
            self.record.pass_entry(last)
            await self._save()
        return seen

    async def _collect(self) -> tuple[Sequence[DueEvent], LogEntry | None]:
        """The due events, and the last entry that was read; waits for a full batch if asked to."""
        # After a failure, events are sent one by one: further entries would be read in vain.
        limit = 1 if self.record.failures else max(_BATCH, self._sizes.most)
        entries = await self._read(limit)
        if not entries:
            return [], None
        due, last = self._due(entries), entries[-1]
        until = self._sizes.waits_until(due, self._timing.now())
        while self._sizes.is_short(due):
            left = (until - self._timing.now()).total_seconds()
            if left <= 0:
                break
            if more := await self._after(last.position, limit):
                due += self._due(more, last)
                last = more[-1]
                await asyncio.sleep(0)
            elif not await self._grows_within(left, last):
                break
        return due, last

    async def _read(self, limit: int) -> Sequence[LogEntry]:
        record = self.record
        if record.initial is not None:
            entries = await self.tail.initial(self.id, record.cursor, record.initial, limit)
            if entries:
                return await self._audience.told(entries)
            record.finish_initial()
            await self._save()
        return await self._after(record.cursor, limit)

    async def _after(self, position: Position, limit: int) -> Sequence[LogEntry]:
        return await self._audience.told(await self.tail.after(position, limit))

    async def _grows_within(self, seconds: float, last: LogEntry) -> bool:
        """Whether an event to deliver comes after an entry within so many seconds."""
        waiter = self._waiter(lambda _: None)
        waiting = [
            asyncio.ensure_future(self.tail.growth(last.position, waiter)),
            asyncio.ensure_future(self._timing.sleep(seconds)),
        ]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return waiting[0] in done
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _due(self, entries: Sequence[LogEntry], before: LogEntry | None = None) -> list[DueEvent]:
        """The events still to be delivered; `before` is the entry before, `None` the cursor."""
        due: list[DueEvent] = []
        settled = self.record.settled if before is None else 0
        for entry in entries:
            found = [(number, event) for number, event in self._wanted(entry) if number >= settled]
            due += (
                DueEvent(
                    entry=entry,
                    before=before,
                    number=number,
                    is_last=number == found[-1][0],
                    event=event,
                )
                for number, event in found
            )
            before, settled = entry, 0
        return due

    def _wanted(self, entry: LogEntry) -> list[tuple[int, OutgoingEvent]]:
        """The events of an entry to deliver, with their numbers."""
        config, startsat = self._config, self._config.startsat
        has_earlier = config.start or config.initialevents
        if startsat is not None and not has_earlier and entry.at < startsat:
            return []
        return [(number, event) for number, event in enumerate(entry.events) if self._wants(event)]

    def _wants(self, event: OutgoingEvent) -> bool:
        if not self._matches(event.texts):
            return False
        # A subscription to the events of subscriptions gets no events about itself.
        return not (
            self._subscription.log == "subscriptions"
            and event.texts.get("subject") == self._subscription.path
        )

    def _waiter(self, passed: Callable[[Position], None]) -> Waiter:
        """A waiter for events to deliver."""

        def concerns(entries: Sequence[LogEntry]) -> bool:
            cursor = self.record.cursor
            return any(self._wanted(entry) for entry in entries if entry.position > cursor)

        required = required_of(self._subscription.definition)
        return Waiter(required=required, concerns=concerns, passed=passed)

    def _pass(self, position: Position) -> None:
        """Move the cursor past changes without events to deliver."""
        if position > self.record.cursor:
            self.record.cursor = position
            progress, _ = self.record.take()
            self._resources.progress.skip(progress)

    # One step: a batch is sent, or kept behind dead letters

    async def _settle_next(self, due: Sequence[DueEvent]) -> int:
        """Send the first due events, or keep those that wait; return how many are settled."""
        is_blocked = self._undelivered.is_blocked(due[0].subject)
        count = 1
        while count < len(due) and self._undelivered.is_blocked(due[count].subject) == is_blocked:
            count += 1
        if is_blocked:
            settled = await self._keep_waiting(due[:count])
        else:
            settled = await self._deliver(self._sizes.next(due[:count]))
        await self._save()
        return settled

    async def _keep_waiting(self, due: Sequence[DueEvent]) -> int:
        kept = await self._undelivered.keep_waiting(due, at=self._timing.now())
        if kept:
            self.record.gave_up(kept)
            self._settled(due[:kept])
        if kept < len(due):
            self._wait_for_room()
        return kept

    async def _deliver(self, due: Sequence[DueEvent]) -> int:
        accepted, answer = await self._calls.send([each.event for each in due])
        if accepted:
            self.record.accepted(accepted, self._timing.now())
            self._settled(due[:accepted])
        self._end_if_gone(answer)
        if isinstance(answer, SinkRefused):
            return accepted + await self._refused(due[accepted:], answer)
        return accepted

    async def _refused(self, due: Sequence[DueEvent], answer: SinkRefused) -> int:
        """Handle the refusal of the first due event; return the number of settled events."""
        # Read before `pause_after`, which counts the attempt unless the refusal is final.
        attempts = self.record.tried + 1
        self._pause = self._retries.pause_after(answer)
        if len(due) > 1:
            # Each event of the batch may be the cause of the refusal.
            if answer.is_final:
                self._sizes.refused(len(due))
            return 0
        if not self._retries.gives_up(answer):
            return 0
        return await self._give_up(due[0], attempts, answer.reason)

    async def _give_up(self, due: DueEvent, attempts: int, reason: str) -> int:
        """Keep an event as a dead letter; return the number of kept events, 0 without room."""
        now = self._timing.now()
        kept = await self._undelivered.keep(due, at=now, attempts=attempts, reason=reason)
        if not kept:
            self._wait_for_room()
            return 0
        self.record.gave_up(1)
        self._settled([due])
        return 1

    def _settled(self, due: Sequence[DueEvent]) -> None:
        """Move the cursor to the last of the events that need no more delivery."""
        self._sizes.settled(len(due))
        last = due[-1]
        if last.is_last:
            self.record.pass_entry(last.entry)
            return
        # Later events of the entry are due: the cursor stays before the entry, so that a restart
        # repeats events of the entry and loses none.
        if last.before is not None:
            self.record.pass_entry(last.before)
        self.record.settled = last.number + 1

    # Dead letters to deliver again

    async def _redeliver(self) -> int:
        """Send the first due dead letters; return the number of dead letters read."""
        letters = await self._undelivered.next_due(self._sizes.most, self._sizes.most_bytes)
        if not letters:
            return 0
        accepted, answer = await self._calls.send([*letters.values()])
        now = self._timing.now()
        await self._undelivered.settle([*letters], accepted, answer, at=now)
        if accepted:
            self.record.accepted(accepted, now, is_next=False)
        self._end_if_gone(answer)
        if isinstance(answer, SinkRefused):
            self._pause = self._retries.pause_after(answer, is_next=False)
        await self._save()
        return len(letters)

    # Causes for the subscription to wait or end

    def _wait_for_room(self) -> None:
        most = self._resources.context.settings.dead_letters
        self._wait_after(f"it has {most} dead letters, the most that are kept: deal with some")

    def _wait_after(self, reason: str) -> None:
        """Pause for a reason other than a sink's answer."""
        self._pause = self._retries.pause_because(reason)

    def _end_if_gone(self, answer: SinkAnswer) -> None:
        if not isinstance(answer, SinkGone):
            return
        _log.info("subscription ended", subscription=self.id, reason=answer.reason)
        self._has_ended = True
        self.record.attempt_failed(answer.reason, self._timing.now())
        self.record.error = answer.reason
        self.record.end(answer.reason)

    async def _save(self) -> None:
        progress, is_due = self.record.take()
        if is_due:
            await self._resources.progress.record(progress)
        else:
            self._resources.progress.skip(progress)
