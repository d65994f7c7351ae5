"""Delivers to one subscription, in the order of the log, one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from random import Random
from typing import assert_never

import aiohttp
import structlog

from catalog.events.concurrency import DeliverySlots
from catalog.events.eventdialects import Tails
from catalog.events.filters import Predicate, compile_filters
from catalog.events.logtail import LogEntry, Rendered
from catalog.events.progress import ProgressWriter
from catalog.events.webhook import Delivered, SinkGone, SinkRefused, post
from catalog.model.backoff import Backoff
from catalog.model.errors import ServerBusy
from catalog.store.changes import Position
from catalog.store.subscriptions import Progress, State, Subscription

_log = structlog.get_logger(__name__)

_BATCH = 100


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTiming:
    """The clock, the sleep and the chance that loops live by."""

    now: Callable[[], datetime] = _now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Random = field(default_factory=Random)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResources:
    """What all deliveries of a process share; `recovered` is `Database.recovered`."""

    tails: Tails
    ledger: ProgressWriter
    session: aiohttp.ClientSession
    slots: DeliverySlots
    backoff: Backoff
    timing: DeliveryTiming
    recovered: Callable[[], Awaitable[None]]


class Delivery:
    """One revision of a subscription being served.

    It is synced while its cursor is within the tail's window, behind while it reads from
    the database, and blocked while it waits after a failure. It keeps nothing in memory
    while it is blocked.
    """

    def __init__(self, subscription: Subscription, means: DeliveryResources) -> None:
        self.revision = subscription.revision
        self.cursor = subscription.cursor
        self.tail = means.tails.of(subscription.definition)
        self._subscription = subscription
        self._means = means
        self._failures = subscription.failures
        self._pause = 0.0
        self._has_ended = False
        # How many events of the change after the cursor are settled already.
        self._settled = 0
        # How many events were acknowledged since that was last recorded.
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
        while not self._has_ended:
            try:
                seen = await self.advance_once()
            # This node's trouble is none of the subscriber's.
            except ServerBusy:
                await self._means.recovered()
            # One subscription's trouble, whatever it is, is shown and does not spread.
            except Exception as error:
                _log.exception("delivery failed unexpectedly", subscription=self._subscription.id)
                await self._refused(SinkRefused(reason=f"internal error: {type(error).__name__}"))
            else:
                if not seen:
                    await self.tail.growth(self.cursor, self._concerns)
            if self._pause:
                await self._means.timing.sleep(self._pause)

    async def advance_once(self) -> int:
        """Deliver what comes next, up to the first failure; how many changes were seen."""
        self._pause = 0.0
        interval = self._subscription.definition.interval
        seen = await (self._advance() if interval is None else self._advance_to_latest(interval))
        # A long run of events that do not match must not keep others waiting.
        await asyncio.sleep(0)
        return seen

    async def _advance(self) -> int:
        limit = 1 if self._failures else _BATCH
        entries = await self.tail.after(self.cursor, limit)
        for entry in entries:
            if not await self._deliver(entry):
                break
        return len(entries)

    async def _advance_to_latest(self, interval: float) -> int:
        """Deliver the latest event that matches in place of all, then pause."""
        latest, position, seen = None, self.cursor, 0
        while entries := await self.tail.after(position, _BATCH):
            matching = (
                rendered
                for entry in reversed(entries)
                for rendered in reversed(entry.events)
                if self._matches(rendered.texts)
            )
            latest = next(matching, latest)
            position, seen = entries[-1].position, seen + len(entries)
        if latest is not None:
            if not await self._post(latest):
                return seen
            self._pause = interval
        if seen:
            await self._pass(position)
        return seen

    def _concerns(self, entries: Sequence[LogEntry]) -> bool:
        """Whether any of these changes is to be delivered; those before it are passed over."""
        for entry in entries:
            if entry.position <= self.cursor:
                continue
            if any(self._matches(rendered.texts) for rendered in entry.events):
                return True
            self.cursor = entry.position
        self._means.ledger.skip(self._progress())
        return False

    async def _pass(self, position: Position) -> None:
        """Everything up to here is settled."""
        self.cursor, self._settled = position, 0
        if self._acknowledged:
            await self._record()
        else:
            self._means.ledger.skip(self._progress())

    async def _deliver(self, entry: LogEntry) -> bool:
        """Whether every matching event of a change was acknowledged."""
        for rendered in entry.events[self._settled :]:
            if self._matches(rendered.texts) and not await self._post(rendered):
                return False
            self._settled += 1
        await self._pass(entry.position)
        return True

    async def _post(self, rendered: Rendered) -> bool:
        definition = self._subscription.definition
        async with self._means.slots.hold():
            answer = await post(
                self._means.session,
                definition,
                self._subscription.credential,
                rendered.message(definition.contentmode),
                now=self._means.timing.now,
            )
        match answer:
            case Delivered():
                self._failures = 0
                self._acknowledged += 1
            case SinkRefused():
                await self._refused(answer)
            case SinkGone():
                await self._gone(answer)
            case _:
                assert_never(answer)
        return isinstance(answer, Delivered)

    async def _refused(self, answer: SinkRefused) -> None:
        self._failures += 1
        waits = self._means.backoff.delay(self._failures, self._means.timing.random)
        self._pause = max(waits, answer.retry_after)
        if self._failures == 1:
            _log.warning(
                "subscriber blocked", subscription=self._subscription.id, reason=answer.reason
            )
        await self._record(error=answer.reason)

    async def _gone(self, answer: SinkGone) -> None:
        self._has_ended = True
        _log.info("subscription ended", subscription=self._subscription.id, reason=answer.reason)
        await self._record(state="ended", error=answer.reason)

    async def _record(self, *, state: State = "active", error: str | None = None) -> None:
        progress = self._progress(state=state, error=error)
        self._acknowledged = 0
        await self._means.ledger.record(progress)

    def _progress(self, *, state: State = "active", error: str | None = None) -> Progress:
        return Progress(
            id=self._subscription.id,
            revision=self.revision,
            cursor=self.cursor,
            delivered=self._acknowledged,
            deliveredat=self._means.timing.now() if self._acknowledged else None,
            state=state,
            failures=self._failures,
            error=error,
        )
