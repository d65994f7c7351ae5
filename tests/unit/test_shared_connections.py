"""Connections that sinks share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from catalog.subscriptions.sinks.sharedconnections import SharedConnections

LONG, SHORT = 3600.0, 0.001


@dataclass
class Opened:
    key: str
    is_open: bool = True

    async def close(self) -> None:
        self.is_open = False


@dataclass
class Opener:
    """Opens connections, and remembers them; what it waits for can be set."""

    opened: list[Opened] = field(default_factory=list)
    attempts: int = 0
    before: Callable[[], Awaitable[object]] | None = None

    async def connect(self, key: str) -> Opened:
        self.attempts += 1
        if self.before is not None:
            await self.before()
        self.opened.append(Opened(key))
        return self.opened[-1]

    def shared(
        self, *, connect_seconds: float = 20, most_idle: int = 10, idle_seconds: float = LONG
    ) -> SharedConnections[str, Opened]:
        return SharedConnections(
            self.connect,
            connect_seconds=connect_seconds,
            most_idle=most_idle,
            idle_seconds=idle_seconds,
        )


async def test_all_who_hold_a_key_at_a_time_and_later_have_the_same_connection() -> None:
    opener = Opener()
    shared = opener.shared()

    async def use() -> Opened:
        async with shared.hold("a") as connection:
            await asyncio.sleep(0)
            assert connection.is_open
            return connection

    found = await asyncio.gather(*(use() for _ in range(20)))
    assert {id(each) for each in [*found, await use()]} == {id(opener.opened[0])}
    await shared.close()
    assert not opener.opened[0].is_open


async def test_a_connection_that_has_ended_is_replaced() -> None:
    opener = Opener()
    shared = opener.shared()
    async with shared.hold("a") as first:
        first.is_open = False
        async with shared.hold("a") as second:
            assert second is not first
    async with shared.hold("a") as third:
        assert third is second
    await shared.close()
    assert opener.attempts == 2


async def test_who_waits_for_the_same_failure_gets_it_and_the_next_tries_again() -> None:
    failing = asyncio.Event()

    async def fail() -> None:
        await failing.wait()
        raise ConnectionRefusedError

    opener = Opener(before=fail)
    shared = opener.shared()

    async def use() -> None:
        async with shared.hold("a"):
            pass

    users = [asyncio.create_task(use()) for _ in range(5)]
    while not opener.attempts:
        await asyncio.sleep(0)
    failing.set()
    found = await asyncio.gather(*users, return_exceptions=True)
    assert [type(each) for each in found] == [ConnectionRefusedError] * 5
    assert opener.attempts == 1
    opener.before = None
    await use()
    assert opener.attempts == 2
    await shared.close()


async def test_a_name_that_cannot_be_looked_up_is_a_server_that_cannot_be_reached() -> None:
    async def look_up() -> None:
        f"{'a' * 64}.example".encode("idna")

    opener = Opener(before=look_up)
    shared = opener.shared()
    with pytest.raises(OSError, match="label"):
        async with shared.hold("a"):
            pass
    await shared.close()


async def test_an_attempt_that_takes_too_long_is_given_up() -> None:
    opener = Opener(before=asyncio.Event().wait)
    shared = opener.shared(connect_seconds=SHORT)
    with pytest.raises(TimeoutError):
        async with shared.hold("a"):
            pass
    await shared.close()


async def test_one_who_stops_waiting_does_not_stop_the_others() -> None:
    may_open = asyncio.Event()
    opener = Opener(before=may_open.wait)
    shared = opener.shared()

    async def use() -> bool:
        async with shared.hold("a") as connection:
            return connection.is_open

    first, second = asyncio.create_task(use()), asyncio.create_task(use())
    while not opener.attempts:
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    may_open.set()
    assert await second
    assert opener.attempts == 1
    await shared.close()


async def test_an_attempt_that_nobody_waits_for_is_given_up() -> None:
    opener = Opener(before=asyncio.Event().wait)
    shared = opener.shared()

    async def use() -> None:
        async with shared.hold("a"):
            pass

    only = asyncio.create_task(use())
    while not opener.attempts:
        await asyncio.sleep(0)
    only.cancel()
    await asyncio.wait([only])
    await shared.close()
    assert opener.opened == []


async def test_idle_connections_are_closed_after_a_while() -> None:
    opener = Opener()
    shared = opener.shared(idle_seconds=SHORT)
    async with shared.hold("a") as connection:
        pass
    async with asyncio.timeout(10):
        while connection.is_open:
            await asyncio.sleep(0.001)  # between two looks at the connection
    await shared.close()


async def test_no_more_idle_connections_are_kept_than_allowed() -> None:
    opener = Opener()
    shared = opener.shared(most_idle=2)
    for key in ("a", "b", "a", "c", "d"):
        async with shared.hold(key):
            pass
    async with asyncio.timeout(10):
        while sum(each.is_open for each in opener.opened) > 2:
            await asyncio.sleep(0)
    assert [each.key for each in opener.opened if each.is_open] == ["c", "d"]
    await shared.close()
    assert not any(each.is_open for each in opener.opened)
