"""How many requests of deliveries are under way at a time."""

from __future__ import annotations

import asyncio
import contextlib

from catalog.subscriptions.delivery.sinkcalls import DeliverySlots, host_of

PATIENT, IMPATIENT = 3600.0, 0.001
HOST = "sink.example:443"


async def test_no_more_than_the_slots_are_taken_and_whoever_waits_is_served_in_turn() -> None:
    slots = DeliverySlots(99, per_host=99, count=3, hold_seconds=PATIENT)
    begun: list[int] = []
    may_end = [asyncio.Event() for _ in range(10)]

    async def work(number: int) -> None:
        async with slots.hold(HOST, is_proven=True):
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
    slots = DeliverySlots(50, per_host=50, count=2, hold_seconds=IMPATIENT)
    all_are_there = asyncio.Barrier(50)

    async def work() -> None:
        async with slots.hold(HOST, is_proven=True), asyncio.timeout(20):
            await all_are_there.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(work())


async def test_a_failure_gives_the_slot_back() -> None:
    slots = DeliverySlots(1, per_host=1, count=1, hold_seconds=PATIENT)
    for _ in range(2):
        try:
            async with asyncio.timeout(10), slots.hold(HOST, is_proven=True):
                raise ConnectionError
        except ConnectionError:
            continue


async def test_sinks_that_do_not_accept_leave_half_of_the_connections_to_those_that_do() -> None:
    """Whatever waits for a sink that never answers, others are served at once."""
    slots = DeliverySlots(10, per_host=10, hold_seconds=IMPATIENT)
    hung: list[int] = []

    async def hang(number: int) -> None:
        async with slots.hold(HOST, is_proven=False):
            hung.append(number)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(hang(number)) for number in range(100)]
    async with asyncio.timeout(10):
        for _ in range(20):
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(5):
                    await stack.enter_async_context(slots.hold(HOST, is_proven=True))
        while len(hung) < 5:
            await asyncio.sleep(0)
        tasks[0].cancel()
        while len(hung) < 6:
            await asyncio.sleep(0)
    assert hung == [0, 1, 2, 3, 4, 5]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_one_host_leaves_connections_to_others_however_many_want_it() -> None:
    slots = DeliverySlots(10, per_host=4, hold_seconds=IMPATIENT)
    reached: list[str] = []

    async def hang(host: str) -> None:
        async with slots.hold(host, is_proven=True):
            reached.append(host)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(hang(HOST)) for _ in range(100)]
    tasks += [asyncio.create_task(hang("other.example")) for _ in range(4)]
    async with asyncio.timeout(10):
        while len(reached) < 8:
            await asyncio.sleep(0)
        tasks[0].cancel()
        while len(reached) < 9:
            await asyncio.sleep(0)
        async with slots.hold("third.example", is_proven=True):
            assert sorted(reached) == [*["other.example"] * 4, *[HOST] * 5]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (slots.connections.used, slots.connections.waiting, slots.slots.used) == (0, 0, 0)


async def test_of_the_connections_to_a_host_half_are_for_sinks_that_accept_events() -> None:
    slots = DeliverySlots(100, per_host=4, hold_seconds=IMPATIENT)
    hung = [slots.hold(HOST, is_proven=False) for _ in range(3)]
    waiting = [asyncio.create_task(each.__aenter__()) for each in hung]
    async with asyncio.timeout(10):
        await asyncio.gather(*waiting[:2])
        async with slots.hold(HOST, is_proven=True), slots.hold(HOST, is_proven=True):
            assert not waiting[2].done()
        await hung[0].__aexit__()
        await waiting[2]


async def test_whoever_gives_up_waiting_leaves_nothing_taken() -> None:
    slots = DeliverySlots(1, per_host=1, count=1, hold_seconds=PATIENT)
    for is_proven in (True, False):
        async with slots.hold(HOST, is_proven=is_proven):
            waiting = [
                asyncio.create_task(slots.hold(host, is_proven=proven).__aenter__())
                for host in (HOST, "other.example")
                for proven in (True, False)
            ]
            for _ in range(10):
                await asyncio.sleep(0)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
        async with asyncio.timeout(10), slots.hold("other.example", is_proven=False):
            pass
    assert (slots.connections.used, slots.connections.waiting, slots.slots.used) == (0, 0, 0)


def test_requests_count_for_the_host_and_port_of_a_url() -> None:
    assert host_of("https://Sink.example/a?b=c@d") == "sink.example"
    assert host_of("https://sink.example:8443") == "sink.example:8443"
    assert host_of("mqtt://[2001:db8::1]:1883/topic") == "[2001:db8::1]:1883"


def test_a_sink_with_several_hosts_counts_under_its_first() -> None:
    assert host_of("kafka://a.example:1,[::1]:2,b.example/t") == "a.example:1"
