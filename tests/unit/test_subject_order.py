"""The order in which events of one batch are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import Delivered, SinkAnswer, SinkRefused, send_by_subject
from tests.sinks.opened import event

REFUSED = SinkRefused(reason="no")


async def send(
    subjects: str, turns: Mapping[int, int], refused: set[int]
) -> tuple[list[int], list[SinkAnswer]]:
    """The numbers of the events that were accepted, in order, and the answers.

    Args:
        turns: how many turns of the loop the answer for an event takes.
    """
    accepted: list[int] = []

    async def send_one(sent: OutgoingEvent) -> SinkAnswer:
        number = int(sent.event.get_id().removeprefix("event-"))
        for _ in range(turns.get(number, 0)):
            await asyncio.sleep(0)
        if number in refused:
            return REFUSED
        accepted.append(number)
        return Delivered()

    events = [event(number, subject=subject) for number, subject in enumerate(subjects)]
    return accepted, await send_by_subject(events, send_one)


async def test_a_slow_subject_does_not_hold_back_others() -> None:
    accepted, answers = await send("abab", {0: 20}, set())
    assert accepted == [1, 3, 0, 2]
    assert answers == [Delivered()] * 4


async def test_nothing_is_sent_after_a_refused_event_of_its_subject() -> None:
    accepted, answers = await send("aaaa", {}, {1})
    assert accepted == [0]
    assert answers == [Delivered(), REFUSED]


@given(
    subjects=st.text("abc", min_size=1, max_size=12),
    turns=st.dictionaries(st.integers(0, 11), st.integers(1, 6)),
    refused=st.sets(st.integers(0, 11), max_size=3),
)
def test_each_subject_keeps_its_order_and_the_answers_end_at_the_first_failure(
    subjects: str, turns: Mapping[int, int], refused: set[int]
) -> None:
    accepted, answers = asyncio.run(send(subjects, turns, refused))
    failed = [number for number in range(len(subjects)) if number in refused]
    first = failed[0] if failed else len(subjects)

    assert [each == Delivered() for each in answers] == [True] * first + [False] * bool(failed)
    assert set(range(first)) <= set(accepted)
    for subject in set(subjects):
        of_subject = [number for number, each in enumerate(subjects) if each == subject]
        came = [number for number in accepted if subjects[number] == subject]
        assert came == of_subject[: len(came)]
