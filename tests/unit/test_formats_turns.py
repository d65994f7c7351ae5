"""Clients share the processes of checks by the time that each has used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from catalog.formats.checker import Turns


class Clock:
    """The time of the loop, which a test moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Clock]:
    clock = Clock()
    with monkeypatch.context() as patched:
        patched.setattr(asyncio.get_running_loop(), "time", clock)
        yield clock


class Office:
    """Occupies places for clients, and notes in which order they come."""

    def __init__(self, turns: Turns, clock: Clock) -> None:
        self.turns = turns
        self.clock = clock
        self.begun: list[str] = []
        self._ends: list[tuple[str, asyncio.Event]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def ask(self, *names: str) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self._occupy(name)) for name in names]
        self._tasks += tasks
        return tasks

    async def _occupy(self, name: str) -> None:
        async with self.turns.turn(name):
            self.begun.append(name)
            end = asyncio.Event()
            self._ends.append((name, end))
            await end.wait()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)  # every task takes a step

    async def end(self, name: str, *, after: float) -> None:
        """End the first turn of a client that lasts, `after` so many seconds."""
        self.clock.now += after
        place = next(each for each in self._ends if each[0] == name)
        self._ends.remove(place)
        place[1].set()
        await self.settle()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def office(clock: Clock) -> AsyncIterator[Office]:
    office = Office(Turns(2), clock)
    yield office
    await office.close()


async def test_one_place_stays_free_for_another_client(office: Office) -> None:
    office.ask(*["long"] * 5)
    await office.settle()
    assert office.begun == ["long"] * 2
    office.ask("quick")
    await office.settle()
    assert office.begun == ["long", "long", "quick"]


async def test_who_has_used_least_comes_first(office: Office) -> None:
    office.ask(*["long"] * 5, *["longer"] * 5)
    await office.settle()
    assert office.begun == ["long", "long", "longer"]
    office.ask(*["quick"] * 3)
    await office.end("long", after=2)
    for _ in range(3):
        await office.end("quick", after=0.001)
    assert office.begun[3:] == ["quick", "quick", "quick", "longer"]


async def test_a_client_saves_no_time_up_while_it_is_away(office: Office) -> None:
    office.ask("away", "long", "long", "other")
    await office.settle()
    await office.end("away", after=0.1)
    for _ in range(5):
        office.ask("long", "other")
        await office.end("long", after=10)
        await office.end("other", after=10)
    office.ask(*["away"] * 4, *["long"] * 2, *["other"] * 2)
    begun = len(office.begun)
    for _ in range(4):
        await office.end(office._ends[0][0], after=10)
    assert office.begun[begun:].count("away") < 4


async def test_who_does_not_wait_any_more_gets_no_turn(office: Office) -> None:
    office.ask("a", "a")
    await office.settle()
    waiting, _ = office.ask("a", "a")
    await office.settle()
    waiting.cancel()
    await office.end("a", after=1)
    assert office.begun == ["a"] * 3
    await office.end("a", after=1)
    await office.end("a", after=1)
    office.ask("a", "a", "b")
    await office.settle()
    assert office.begun == [*["a"] * 5, "b"], "no place was lost"


@pytest.mark.parametrize("is_granted", [False, True])
async def test_a_cancelled_turn_gives_its_place_back(office: Office, is_granted: bool) -> None:
    office.ask("a", "a")
    await office.settle()
    [waiting] = office.ask("a")
    await office.settle()
    if is_granted:
        office._ends[0][1].set()
        await asyncio.sleep(0)  # the place is handed out, and not taken yet
    waiting.cancel()
    await office.settle()
    office.ask("b")
    await office.settle()
    assert "b" in office.begun
