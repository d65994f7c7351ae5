"""How many requests of deliveries are under way at a time."""

from __future__ import annotations

import asyncio

from catalog.events.delivery import DeliverySlots

PATIENT, IMPATIENT = 3600.0, 0.001


async def test_no_more_than_the_slots_are_taken_and_whoever_waits_is_served_in_turn() -> None:
    slots = DeliverySlots(3, hold_seconds=PATIENT)
    begun: list[int] = []
    may_end = [asyncio.Event() for _ in range(10)]

    async def work(number: int) -> None:
        async with slots.hold():
            begun.append(number)
            await may_end[number].wait()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(number)) for number in range(10)]
        for number in range(10):
            async with asyncio.timeout(10):
                while len(begun) < min(number + 3, 10):
                    await asyncio.sleep(0)
            assert begun == list(range(min(number + 3, 10)))
            may_end[number].set()
            await tasks[number]


async def test_who_waits_long_for_an_answer_gives_the_slot_to_the_next() -> None:
    """As many as there are can wait for sinks that hang."""
    slots = DeliverySlots(2, hold_seconds=IMPATIENT)
    all_are_there = asyncio.Barrier(50)

    async def work() -> None:
        async with slots.hold(), asyncio.timeout(20):
            await all_are_there.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(work())


async def test_a_failure_gives_the_slot_back() -> None:
    slots = DeliverySlots(1, hold_seconds=PATIENT)
    for _ in range(2):
        try:
            async with asyncio.timeout(10), slots.hold():
                raise ConnectionError
        except ConnectionError:
            continue
