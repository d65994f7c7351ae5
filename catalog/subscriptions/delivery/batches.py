"""Divides the events that are due into batches, and says when each is sent."""

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
        entry: the entry of the log that it belongs to.
        before: the entry before that one, if it was read with it.
        number: its number among the events of its entry.
        is_last: whether it is the last one of its entry that is to be delivered.
    """

    entry: LogEntry
    before: LogEntry | None
    number: int
    is_last: bool
    event: OutgoingEvent

    @property
    def interaction(self) -> str | None:
        """The write that caused the event, with which other events may have come."""
        return self.event.texts.get("xregcorrelationid")

    @property
    def subject(self) -> str:
        return self.event.texts.get("subject", "")


class BatchSizes:
    """Decides how many events of one subscription are sent at a time, and how long they wait.

    After a failure, events are sent one by one, as are those of a batch that was refused for good.

    Args:
        most_events: the most events that the sink takes at a time.
    """

    def __init__(
        self, config: SubscriptionConfig, record: DeliveryRecord, *, most_events: int
    ) -> None:
        self._config = config
        self._batch = config.batch
        self._record = record
        self._most_events = most_events
        # How many of the next events are sent one by one.
        self._singly = 0

    @property
    def most(self) -> int:
        """The most events that are sent at a time now."""
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
        """The most bytes that they have together."""
        return None if self._batch is None else self._batch.bytes

    def next(self, due: Sequence[DueEvent]) -> Sequence[DueEvent]:
        """The first of the events that are due, which are sent now."""
        return next_batch(due, self.most, self.most_bytes)

    def is_short(self, due: Sequence[DueEvent]) -> bool:
        """Whether these are fewer events than a batch takes that is to wait for more."""
        if self._batch is None or not self._batch.wait or self._record.initial is not None:
            return False
        return 0 < len(due) < self.most and len(self.next(due)) == len(due)

    def waits_until(self, due: Sequence[DueEvent], now: datetime) -> datetime:
        """The time until which a batch of these may wait for more events."""
        if self._batch is None or not due:
            return now
        # What was logged before the clock was set back waits no longer than what is logged now.
        return min(due[0].entry.at, now) + timedelta(seconds=self._batch.wait)

    def refused(self, count: int) -> None:
        """Send so many events one by one, to find the one that the sink never takes."""
        self._singly = count

    def settled(self, count: int) -> None:
        """Note that so many of the next events need no more delivery."""
        self._singly = max(0, self._singly - count)


def next_batch(due: Sequence[DueEvent], most: int, most_bytes: int | None) -> Sequence[DueEvent]:
    """The first of the events that are due, at least one.

    Those of one interaction stay together, unless they are too many for any batch.

    Args:
        most_bytes: the most bytes of their JSON as one array.
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
