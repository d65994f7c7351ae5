"""Divides the events that are due into what is sent to a sink at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.events.logtail import LogEntry
from catalog.sinks.outgoing import OutgoingEvent, count_within


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
