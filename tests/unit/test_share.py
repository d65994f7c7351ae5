"""Shares of keys in places and bytes: who waits, whose turn it is, and who is refused."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.load.limiter import Bytes, Share, Things
from catalog.model.concorderrors import TooManyAtOnce
from catalog.model.errors import ServerBusy

STREAMS = Things("streams", "CONCORD_STREAMS")
KEYS = st.sampled_from(["", "a", "b", "c"])


@pytest.fixture
def share() -> Share:
    return Share(3, per_key=2, things=STREAMS)


@contextlib.asynccontextmanager
async def taken(share: Share, *keys: str) -> AsyncIterator[None]:
    """One place for each mention of a key."""
    async with contextlib.AsyncExitStack() as stack:
        for key in keys:
            await stack.enter_async_context(share.hold(key, wait_seconds=0, path="/export"))
        yield


async def test_a_key_that_has_its_part_is_refused_with_its_limit(share: Share) -> None:
    async with taken(share, "a", "a"):
        with pytest.raises(TooManyAtOnce) as refused:
            await taken(share, "a").__aenter__()
        assert "2 streams" in refused.value.title
        assert "CONCORD_STREAMS" in refused.value.title
        async with taken(share, "b"):
            pass


async def test_all_keys_together_are_refused_as_the_node_is_busy(share: Share) -> None:
    async with taken(share, "a", "a", "b"):
        with pytest.raises(ServerBusy) as refused:
            await taken(share, "c").__aenter__()
        assert refused.value.detail == "There are 3 streams under way (CONCORD_STREAMS)."


async def test_a_bound_without_a_setting_names_none() -> None:
    share = Share(2, per_key=1, things=Things("streams"))
    async with taken(share, "a"):
        with pytest.raises(TooManyAtOnce) as refused:
            await taken(share, "a").__aenter__()
        assert refused.value.title.endswith("(fixed).")


async def test_a_refused_key_holds_nothing(share: Share) -> None:
    async with taken(share, "a", "a", "b"):
        for key in "abc":
            with pytest.raises((TooManyAtOnce, ServerBusy)):
                await taken(share, key).__aenter__()
            with pytest.raises((TooManyAtOnce, ServerBusy)):
                await share.take(key, wait_seconds=0.001)
    assert (share.used, share.waiting) == (0, 0)
    async with taken(share, "c", "c", "a"):
        pass


async def test_a_key_that_waits_for_itself_keeps_no_other_waiting(share: Share) -> None:
    async def take(key: str) -> None:
        async with share.hold(key, wait_seconds=30):
            begun.append(key)
            await ended.wait()

    begun: list[str] = []
    ended = asyncio.Event()
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        for key in "aaaaab":
            tasks.create_task(take(key))
        while len(begun) < 3:
            await asyncio.sleep(0)
        assert begun == ["a", "a", "b"]
        ended.set()
    assert len(begun) == 6


async def test_keys_take_turns_however_many_of_one_wait() -> None:
    share, order = Share(1), list[str]()

    async def take(key: str) -> None:
        async with share.hold(key):
            order.append(key)

    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks, share.hold("x"):
        for key in "aaaabbc":
            tasks.create_task(take(key))
        while share.waiting < 7:
            await asyncio.sleep(0)
    assert "".join(order) == "abcabaa"


@given(
    asked=st.lists(st.tuples(KEYS, st.booleans()), max_size=40),
    per_key=st.integers(1, 4),
    leaves_free=st.booleans(),
)
def test_no_bound_is_exceeded_and_everybody_is_served_or_gives_up(
    asked: list[tuple[str, bool]], per_key: int, leaves_free: bool
) -> None:
    """Tasks take places, some of them are cancelled while they wait or hold one."""

    async def run() -> None:
        share = Share(4, per_key=per_key, leaves_free=leaves_free)
        held: Counter[str] = Counter()

        async def take(key: str) -> None:
            async with share.hold(key):
                held[key] += 1
                try:
                    assert sum(held.values()) <= share.used <= 4
                    assert not key or leaves_free or held[key] <= per_key
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                finally:
                    held[key] -= 1

        tasks = []
        for key, is_cancelled in asked:
            tasks.append(asyncio.create_task(take(key)))
            await asyncio.sleep(0)
            if is_cancelled:
                tasks[len(tasks) // 2].cancel()
        async with asyncio.timeout(10):
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert not {*map(type, results)} - {type(None), asyncio.CancelledError}
        assert (share.used, share.waiting) == (0, 0)

    asyncio.run(run())


def test_bytes_are_bounded_for_each_key_and_in_all() -> None:
    held = Bytes(100, per_key=60, things=STREAMS)
    held.take("a", 60)
    with pytest.raises(TooManyAtOnce) as refused:
        held.take("a", 1)
    assert refused.value.arguments["limit"] == "60"
    held.take("b", 40)
    with pytest.raises(ServerBusy):
        held.take("c", 1)
    held.give_back("a", 10)
    held.take("c", 10)
    assert held.used == 100
