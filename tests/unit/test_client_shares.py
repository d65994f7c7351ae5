"""Shares of clients in work of one kind: who waits, and who is refused with which limit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from catalog.clientshares import ClientShares
from catalog.model.caller import caller
from catalog.model.concorderrors import TooManyAtOnce
from catalog.model.errors import ServerBusy


@pytest.fixture
def shares() -> ClientShares:
    return ClientShares("streams", "CONCORD_STREAMS", most=3, most_per_client=2)


@contextlib.asynccontextmanager
async def taken(shares: ClientShares, *clients: str) -> AsyncIterator[None]:
    """One share for each mention of a client."""
    async with contextlib.AsyncExitStack() as stack:
        for client in clients:
            caller.set(client)
            await stack.enter_async_context(shares.take("/export"))
        yield


async def test_a_client_with_its_share_is_refused_with_its_limit(shares: ClientShares) -> None:
    async with taken(shares, "a", "a"):
        with pytest.raises(TooManyAtOnce) as refused:
            await taken(shares, "a").__aenter__()
        assert "2 streams" in refused.value.title
        assert "CONCORD_STREAMS_PER_CLIENT" in refused.value.title
        async with taken(shares, "b"):
            pass


async def test_all_clients_together_are_refused_as_the_node_is_busy(shares: ClientShares) -> None:
    async with taken(shares, "a", "a", "b"):
        with pytest.raises(ServerBusy) as refused:
            await taken(shares, "c").__aenter__()
        assert refused.value.detail == "There are 3 streams under way (CONCORD_STREAMS)."


async def test_a_refused_client_holds_nothing(shares: ClientShares) -> None:
    async with taken(shares, "a", "a", "b"):
        for client in "abc":
            with pytest.raises((TooManyAtOnce, ServerBusy)):
                await taken(shares, client).__aenter__()
    async with taken(shares, "c", "c", "a"):
        pass


async def test_a_client_that_waits_for_itself_keeps_no_other_waiting(shares: ClientShares) -> None:
    async def take(client: str) -> None:
        caller.set(client)
        async with shares.take("/export", wait_seconds=30):
            begun.append(client)
            await ended.wait()

    begun: list[str] = []
    ended = asyncio.Event()
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        for client in "aaaaab":
            tasks.create_task(take(client))
        while len(begun) < 3:
            await asyncio.sleep(0)
        assert begun == ["a", "a", "b"]
        ended.set()
    assert len(begun) == 6
