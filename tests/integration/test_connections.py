"""The pools of connections: one purpose does not use up those of another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from catalog.model.caller import node_caller
from catalog.model.errors import ServerBusy
from catalog.store.database import Database
from tests.e2e.nodes import until
from tests.integration.conftest import Node
from tests.integration.federation import lines, start_member


@pytest.fixture
async def member(database_url: str) -> AsyncIterator[Node]:
    async with start_member(database_url, request_timeout_seconds=2) as node:
        yield node


@contextlib.asynccontextmanager
async def used_up(member: Node, purpose: str) -> AsyncIterator[None]:
    """All connections of a pool are lent."""
    pool = getattr(member.database.pools, purpose)
    async with contextlib.AsyncExitStack() as stack:
        with contextlib.suppress(ServerBusy):
            while True:
                await stack.enter_async_context(member.database.acquire(pool, timeout=0.1))
        yield


def database_for(member: Node, client: str) -> Database:
    """The database of a node for a client who sees everything."""
    return member.database.for_caller(replace(node_caller(), client=client))


@pytest.mark.parametrize("purpose", ["streams", "feed", "tasks"])
async def test_requests_do_not_need_the_connections_of_others(member: Node, purpose: str) -> None:
    async with used_up(member, purpose):
        await member.put("/messagegroups/g")
        await member.get("/messagegroups?limit=5")
        await member.get("/messagegroups/g?filter=messagegroupid=g")


@pytest.mark.parametrize("purpose", ["requests", "feed", "tasks"])
async def test_streams_do_not_need_the_connections_of_others(member: Node, purpose: str) -> None:
    async with used_up(member, purpose):
        for path in ("/export", "/?inline=*", "/replication/snapshot", "/replication/digests"):
            answer = await member.send("GET", path)
            assert answer.status == 200, path


async def test_a_user_that_ends_between_the_parts_of_a_statement_leaves_no_transaction(
    member: Node,
) -> None:
    """asyncpg lets the server begin one when it prepares a statement, and ends it by the next."""

    async def end_early() -> None:
        async with member.database.acquire() as connection:
            await connection.prepare("SELECT count(*) FROM entities")
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await end_early()
    async with member.database.snapshot() as connection:
        assert await connection.fetchval("SELECT count(*) FROM entities")


async def test_pages_of_the_feed_do_not_need_the_connections_of_requests(member: Node) -> None:
    after = (await lines(member, "/replication/snapshot"))[-1]["cursor"]
    async with used_up(member, "requests"), used_up(member, "streams"):
        assert await lines(member, f"/replication/changes?after={after}")


async def test_tasks_of_the_node_have_connections_of_their_own(member: Node) -> None:
    async with used_up(member, "requests"), member.database.transaction():
        pass
    client = database_for(member, "192.0.2.1")
    async with used_up(member, "tasks"), client.transaction():
        assert client.pools.requests.used == 1


async def test_a_client_takes_no_more_connections_than_it_leaves_to_others(member: Node) -> None:
    """Of ten, the first client has five, the second three, and two more have one each."""
    pool = member.database.pools.requests
    async with contextlib.AsyncExitStack() as stack:
        for number, share in enumerate([5, 3, 1, 1], start=1):
            client, before = database_for(member, f"192.0.2.{number}"), pool.used
            with contextlib.suppress(ServerBusy):
                while True:
                    await stack.enter_async_context(client.acquire(timeout=0.3))
            assert pool.used - before == share
        assert pool.used == pool.limit


async def test_a_connection_goes_to_the_client_that_has_the_fewest(member: Node) -> None:
    pool, order = member.database.pools.requests, list[str]()

    async def wait_as(client: str) -> None:
        async with database_for(member, client).acquire():
            order.append(client)

    async with asyncio.TaskGroup() as tasks, contextlib.AsyncExitStack() as busy:
        first = database_for(member, "192.0.2.1")
        for _ in range(5):
            await busy.enter_async_context(first.acquire())
        async with used_up(member, "requests"):
            for client in ["192.0.2.1"] * 3 + ["192.0.2.2"]:
                tasks.create_task(wait_as(client))
            gone = tasks.create_task(wait_as("192.0.2.3"))
            await until(lambda: pool.waiting == 5)
            gone.cancel()
            await until(lambda: pool.waiting == 4)
        await until(lambda: order)
        assert order == ["192.0.2.2"]
    assert order[1:] == ["192.0.2.1"] * 3
    assert (pool.used, pool.waiting) == (0, 0)
