"""Divides due events into batches, and determines the time to send each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from catalog.operations.subscriptions import SubscriptionConfig
from catalog.subscriptions.delivery.deliveryrecord import DeliveryRecord
from catalog.subscriptions.delivery.logtail import LogEntry
from catalog.subscriptions.sinks.outgoing import OutgoingEvent, count_within


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

    After a failure, and after the final refusal of a batch, events are sent singly.

    Args:
        most_events: the largest number of events that the sink takes at a time.
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
            most = min(most, self._config.maxevents - self._record.delivered)
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
    """The first batch of due events, with at least one event.

    The events of an interaction stay together, unless the interaction is larger than a batch.

    Args:
        most: the largest number of events.
        most_bytes: the largest size in bytes of the events as a JSON array.
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
