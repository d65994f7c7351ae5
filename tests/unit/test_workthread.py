"""Long work goes on beside the loop, and ends when nobody waits for it."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from catalog.load.workthread import (
    Abandoned,
    Slices,
    aside,
    begin_work,
    check_wanted,
    in_thread,
    note_request_bytes,
)


async def test_short_work_is_done_at_once() -> None:
    assert await aside(1, threading.get_ident) == threading.get_ident()


async def test_work_on_many_entities_is_done_in_the_thread() -> None:
    assert await aside(1000, threading.get_ident) != threading.get_ident()


async def test_all_work_of_a_large_request_is_done_in_the_thread() -> None:
    note_request_bytes(1_000_000)
    assert await aside(0, threading.get_ident) != threading.get_ident()


async def test_work_sees_the_context_of_its_request_and_its_errors_arrive() -> None:
    given: ContextVar[str] = ContextVar("given")
    given.set("192.0.2.1")
    assert await in_thread(given.get) == "192.0.2.1"
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 // 0)


async def test_the_loop_goes_on_beside_long_work() -> None:
    begun, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> bool:
        loop.call_soon_threadsafe(begun.set)
        return may_end.wait(20)

    running = asyncio.create_task(in_thread(work))
    await begun.wait()
    may_end.set()
    assert await running


async def test_work_that_nobody_waits_for_ends_at_its_next_step() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            while True:
                check_wanted()
        except Abandoned:
            loop.call_soon_threadsafe(ended.set)

    running = asyncio.create_task(in_thread(work))
    await begun.wait()
    running.cancel()
    async with asyncio.timeout(20):
        await ended.wait()
    check_wanted()  # no other work ends


async def test_a_client_with_much_work_lets_others_have_their_turn() -> None:
    """Ten pieces of one client wait; the piece of another comes after the first of them."""
    order: list[str] = []
    may_begin = threading.Event()

    def work(client: str) -> None:
        may_begin.wait(20)
        order.append(client)

    async def ask(client: str) -> None:
        begin_work(client)
        await in_thread(work, client)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(ask("greedy"))
        tasks.create_task(ask("modest"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        may_begin.set()
    assert order.index("modest") <= 1


async def test_work_on_the_loop_lets_others_run_between_its_slices() -> None:
    runs = 0

    async def other() -> None:
        nonlocal runs
        while True:
            runs += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    slices = Slices()
    while runs < 3:
        await slices.breathe()
    running.cancel()
