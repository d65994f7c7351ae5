"""Batches: as many events as fit, with those of one interaction together."""

from __future__ import annotations

from datetime import UTC, datetime

from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from catalog.store.changes import Position
from catalog.subscriptions.delivery.batchesandretries import DueEvent, next_batch
from catalog.subscriptions.delivery.logtail import LogEntry
from catalog.subscriptions.sinks.outgoing import OutgoingEvent

AT = datetime(2026, 1, 1, tzinfo=UTC)


def due_of(interactions: str, data: str = "") -> list[DueEvent]:
    """One event for each letter, which names its interaction; `-` has none."""
    found = []
    for number, name in enumerate(interactions):
        attributes = {"id": str(number), "source": "s", "type": "t"}
        if name != "-":
            attributes["xregcorrelationid"] = name
        event = OutgoingEvent(CloudEvent(attributes, data or None))
        entry = LogEntry(Position(1, number), AT, lambda: [])
        found.append(DueEvent(entry=entry, before=None, number=0, is_last=True, event=event))
    return found


def sizes(interactions: str, most: int) -> list[int]:
    due, found = due_of(interactions), []
    while due:
        batch = next_batch(due, most, None)
        found.append(len(batch))
        due = due[len(batch) :]
    return found


def test_an_interaction_that_fits_is_not_divided() -> None:
    assert sizes("aabbbcc", 4) == [2, 3, 2]
    assert sizes("aabbcc", 4) == [4, 2]


def test_one_that_fits_in_no_batch_fills_batches_of_its_own() -> None:
    assert sizes("abbbbbbc", 3) == [1, 3, 3, 1]


def test_events_without_an_interaction_fill_every_batch() -> None:
    assert sizes("-----", 2) == [2, 2, 1]


def test_a_batch_stays_within_its_bytes_unless_one_event_is_larger() -> None:
    due = due_of("---", "x" * 1000)
    size = len(due[0].event.structured)
    assert len(next_batch(due, 10, len(f"[{'x' * size},{'x' * size}]"))) == 2
    assert len(next_batch(due, 10, 2 * size + 2)) == 1
    assert len(next_batch(due, 10, 1)) == 1


@given(interactions=st.text("ab-", min_size=1, max_size=30), most=st.integers(1, 8))
def test_batches_are_never_empty_never_too_large_and_miss_nothing(
    interactions: str, most: int
) -> None:
    found = sizes(interactions, most)
    assert sum(found) == len(interactions)
    assert all(1 <= size <= most for size in found)
