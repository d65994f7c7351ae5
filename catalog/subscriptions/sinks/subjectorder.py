"""Sends many events at a time, but the events of each subject one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import Delivered, SinkAnswer


async def send_by_subject(
    events: Sequence[OutgoingEvent], send_one: Callable[[OutgoingEvent], Awaitable[SinkAnswer]]
) -> list[SinkAnswer]:
    """Send events, each after the delivery of the previous event of its subject.

    A server may refuse one message and accept the next, so the order of a subject holds only if
    each of its events is sent after the server has answered for the previous event.

    Returns:
        an answer for each event up to the first event that was not delivered.
    """
    answers: dict[int, SinkAnswer] = {}
    latest: dict[str, asyncio.Task[None]] = {}

    async def send_after(before: asyncio.Task[None] | None, number: int) -> None:
        if before is not None:
            await before
        # Events after a failure are sent again anyway, and would arrive twice.
        if not any(each < number and _has_failed(answers[each]) for each in answers):
            answers[number] = await send_one(events[number])

    async with asyncio.TaskGroup() as group:
        for number, event in enumerate(events):
            subject = event.texts.get("subject", "")
            latest[subject] = group.create_task(send_after(latest.get(subject), number))
    return _up_to_first_failure(answers, len(events))


def _up_to_first_failure(answers: dict[int, SinkAnswer], count: int) -> list[SinkAnswer]:
    found: list[SinkAnswer] = []
    for number in range(count):
        found.append(answers[number])
        if _has_failed(answers[number]):
            break
    return found


def _has_failed(answer: SinkAnswer) -> bool:
    return not isinstance(answer, Delivered)
