"""The pools of connections: one purpose does not use up those of another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from catalog.model.caller import caller
from catalog.model.errors import ServerBusy
from catalog.store.connections import Connections
from tests.integration.conftest import Node
from tests.integration.federation import lines, start_member


@pytest.fixture
async def member(database_url: str) -> AsyncIterator[Node]:
    async with start_member(database_url, request_timeout_seconds=2) as node:
        yield node


@contextlib.asynccontextmanager
async def used_up(pool: Connections) -> AsyncIterator[None]:
    """All connections of a pool are lent."""
    async with contextlib.AsyncExitStack() as stack:
        with contextlib.suppress(ServerBusy):
            while True:
                await stack.enter_async_context(pool.acquire(timeout=0.1))
        yield


@pytest.mark.parametrize("purpose", ["streams", "feed", "duties"])
async def test_requests_do_not_need_the_connections_of_others(member: Node, purpose: str) -> None:
    async with used_up(getattr(member.database.pools, purpose)):
        await member.put("/messagegroups/g")
        await member.get("/messagegroups?limit=5")
        await member.get("/messagegroups/g?filter=messagegroupid=g")


@pytest.mark.parametrize("purpose", ["requests", "feed", "duties"])
async def test_streams_do_not_need_the_connections_of_others(member: Node, purpose: str) -> None:
    async with used_up(getattr(member.database.pools, purpose)):
        for path in ("/export", "/?inline=*", "/replication/snapshot", "/replication/digests"):
            answer = await member.send("GET", path)
            assert answer.status == 200, path


async def test_pages_of_the_feed_do_not_need_the_connections_of_requests(member: Node) -> None:
    after = (await lines(member, "/replication/snapshot"))[-1]["cursor"]
    async with used_up(member.database.pools.requests), used_up(member.database.pools.streams):
        assert await lines(member, f"/replication/changes?after={after}")


async def test_tasks_of_no_client_have_connections_of_their_own(member: Node) -> None:
    async with used_up(member.database.pools.requests), member.database.transaction():
        pass
    caller.set("192.0.2.1")
    assert member.database.pool is member.database.pools.requests
    assert await asyncio.create_task(_pool_of_a_child(member)) is member.database.pools.requests


async def _pool_of_a_child(member: Node) -> Connections:
    return member.database.pool
