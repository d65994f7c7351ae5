"""How many requests of deliveries are under way at a time."""

from __future__ import annotations

import asyncio
import contextlib

from catalog.events.delivery import DeliverySlots

PATIENT, IMPATIENT = 3600.0, 0.001


async def test_no_more_than_the_slots_are_taken_and_whoever_waits_is_served_in_turn() -> None:
    slots = DeliverySlots(99, count=3, hold_seconds=PATIENT)
    begun: list[int] = []
    may_end = [asyncio.Event() for _ in range(10)]

    async def work(number: int) -> None:
        async with slots.hold(is_proven=True):
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
    slots = DeliverySlots(50, count=2, hold_seconds=IMPATIENT)
    all_are_there = asyncio.Barrier(50)

    async def work() -> None:
        async with slots.hold(is_proven=True), asyncio.timeout(20):
            await all_are_there.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(work())


async def test_a_failure_gives_the_slot_back() -> None:
    slots = DeliverySlots(1, count=1, hold_seconds=PATIENT)
    for _ in range(2):
        try:
            async with asyncio.timeout(10), slots.hold(is_proven=True):
                raise ConnectionError
        except ConnectionError:
            continue


async def test_sinks_that_do_not_accept_leave_half_of_the_connections_to_those_that_do() -> None:
    """Whatever waits for a sink that never answers, others are served at once."""
    slots = DeliverySlots(10, hold_seconds=IMPATIENT)
    hung: list[int] = []

    async def hang(number: int) -> None:
        async with slots.hold(is_proven=False):
            hung.append(number)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(hang(number)) for number in range(100)]
    async with asyncio.timeout(10):
        for _ in range(20):
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(5):
                    await stack.enter_async_context(slots.hold(is_proven=True))
        while len(hung) < 5:
            await asyncio.sleep(0)
        tasks[0].cancel()
        while len(hung) < 6:
            await asyncio.sleep(0)
    assert hung == [0, 1, 2, 3, 4, 5]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
