"""Paces the delivery of one subscription: batches of due events, and pauses after failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from catalog.model.backoff import Backoff
from catalog.operations.subscriptions import SubscriptionConfig
from catalog.subscriptions.delivery.logtail import LogEntry
from catalog.subscriptions.delivery.progress import DeliveryRecord
from catalog.subscriptions.sinks.outgoing import OutgoingEvent, count_within
from catalog.subscriptions.sinks.sink import SinkRefused
from catalog.subscriptions.stored.subscriptions import Subscription
from catalog.supervisor import LoopTiming

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueEvent:
    """An event that is to be delivered.

    Args:
        entry: the log entry of the event.
        before: the entry before `entry`; `None` if `entry` is the first after the cursor.
        number: the number of the event among the events of the entry.
        is_last: whether no later event of the entry is to be delivered.
    """

    entry: LogEntry
    before: LogEntry | None
    number: int
    is_last: bool
    event: OutgoingEvent

    @property
    def interaction(self) -> str | None:
        """The write that caused the event; further events may come from the same write."""
        return self.event.texts.get("xregcorrelationid")

    @property
    def subject(self) -> str:
        return self.event.texts.get("subject", "")


class BatchSizes:
    """Decides how many events of one subscription are sent at a time, and how long events wait.

    After a failure, and after the final refusal of a batch, events are sent singly. The sink takes
    at most `most_events`.
    """

    def __init__(
        self, config: SubscriptionConfig, record: DeliveryRecord, *, most_events: int
    ) -> None:
        self._config = config
        self._batch = config.batch
        self._record = record
        self._most_events = most_events
        # The number of events to send singly.
        self._singly = 0

    @property
    def most(self) -> int:
        """The largest number of events to send at a time now."""
        if self._record.failures or self._singly:
            return 1
        most = self._most_events
        if self._batch is not None:
            most = min(most, self._batch.count)
        if self._config.maxevents is not None:
            most = min(most, self._config.maxevents - self._record.total)
        return max(most, 1)

    @property
    def most_bytes(self) -> int | None:
        """The largest size of a batch in bytes; `None` without a limit."""
        return None if self._batch is None else self._batch.bytes

    def next(self, due: Sequence[DueEvent]) -> Sequence[DueEvent]:
        """The due events to send now, from the first on."""
        return next_batch(due, self.most, self.most_bytes)

    def is_short(self, due: Sequence[DueEvent]) -> bool:
        """Whether a batch is configured to wait for more events than are due."""
        if self._batch is None or not self._batch.wait or self._record.initial is not None:
            return False
        return 0 < len(due) < self.most and len(self.next(due)) == len(due)

    def waits_until(self, due: Sequence[DueEvent], now: datetime) -> datetime:
        """The time until which a batch of due events may wait for more events."""
        if self._batch is None or not due:
            return now
        # After the clock was set back, older entries wait no longer than new entries.
        return min(due[0].entry.at, now) + timedelta(seconds=self._batch.wait)

    def refused(self, count: int) -> None:
        """Send the next events singly, to find the event that the sink never takes."""
        self._singly = count

    def settled(self, count: int) -> None:
        """Note how many of the next events need no more delivery."""
        self._singly = max(0, self._singly - count)


def next_batch(due: Sequence[DueEvent], most: int, most_bytes: int | None) -> Sequence[DueEvent]:
    """The first batch of due events, of 1 to `most` events and up to `most_bytes` as a JSON array.

    The events of an interaction stay together, unless the interaction is larger than a batch.
    """
    count = min(most, len(due))
    if most_bytes is not None:
        count = count_within([each.event for each in due[:count]], most_bytes)
    if count == len(due) or due[count].interaction is None:
        return due[:count]
    whole = count
    while whole and due[whole - 1].interaction == due[count].interaction:
        whole -= 1
    return due[: whole or count]


class RetryPolicy:
    """The policy of one subscription, which notes failures in the record of the delivery.

    Each pause is the number of seconds without sending.
    """

    def __init__(
        self,
        subscription: Subscription,
        record: DeliveryRecord,
        *,
        backoff: Backoff,
        timing: LoopTiming,
    ) -> None:
        self._id = subscription.id
        self._retry = subscription.definition.config.retry
        self._record = record
        self._backoff = backoff
        self._timing = timing

    def pause_after(self, answer: SinkRefused, *, is_next: bool = True) -> float:
        """Note a refusal; return the pause. A final refusal only concerns its event: no pause.

        Args:
            is_next: whether the refused event is next in the log.
        """
        now = self._timing.now()
        if answer.is_final:
            self._record.attempt_failed(answer.reason, now)
            return 0.0
        if not self._record.failures:
            _log.warning(
                "subscriber blocked",
                subscription=self._id,
                reason=answer.reason,
                cause=answer.cause,
            )
        if answer.is_withheld:
            self._record.waits(answer.reason, now)
        else:
            self._record.refused(answer.reason, now, is_next=is_next)
        return self._back_off(answer.retry_after)

    def pause_because(self, reason: str) -> float:
        """Note a reason to wait other than a sink's answer; return the pause."""
        self._record.waits(reason, self._timing.now())
        return self._back_off()

    def gives_up(self, answer: SinkRefused) -> bool:
        """Whether the refused next event is not tried again."""
        if answer.is_withheld:
            return False
        return answer.is_final or self._is_exhausted

    @property
    def _is_exhausted(self) -> bool:
        """Whether the event was tried as often, or for as long, as `retry` asks for."""
        retry, since = self._retry, self._record.triedsince
        if retry is None or since is None:
            return False
        if retry.attempts is not None and self._record.tried >= retry.attempts:
            return True
        if retry.seconds is None:
            return False
        return self._timing.now() - since >= timedelta(seconds=retry.seconds)

    def _back_off(self, at_least: float = 0.0) -> float:
        """Return the pause, which ends no later than the time for trying the next event."""
        now, retry, since = self._timing.now(), self._retry, self._record.triedsince
        pause = self._backoff.delay(self._record.failures, self._timing.random, at_least=at_least)
        if retry is not None and retry.seconds is not None and since is not None:
            # Else a long pause would keep a hopeless event far beyond the time that was asked for.
            left = retry.seconds - (now - since).total_seconds()
            pause = min(pause, left) if left > 0 else pause
        self._record.nextattemptat = now + timedelta(seconds=pause)
        return pause
