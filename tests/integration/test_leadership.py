"""A role that nobody has is free, wherever the task that was taking it was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import pytest

from catalog.model.caller import node_caller
from catalog.store.database import Database
from catalog.store.leadership import take_over

_HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = ("
_HELD += "SELECT oid FROM pg_database WHERE datname = current_database())"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database.open(database_url, node_caller(), modelsource={}) as database:
        yield database


async def until_roles(url: str, is_so: Callable[[int], bool]) -> None:
    """Wait until as many roles are taken in a database as is wanted."""
    operator = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(20):
            while not is_so(await operator.fetchval(_HELD)):
                await asyncio.sleep(0.005)  # between two looks at the locks
    finally:
        await operator.close()


async def lead(database: Database, has_role: asyncio.Event) -> None:
    async with database.acquire() as connection, take_over(connection, "test") as is_leader:
        assert is_leader
        has_role.set()
        await asyncio.Event().wait()


async def test_a_role_is_free_when_the_answer_that_gives_it_comes_too_late(
    database_url: str, database: Database
) -> None:
    has_role = asyncio.Event()
    async with database.acquire() as connection, take_over(connection, "test") as is_leader:
        assert is_leader  # the statement is prepared from now on
    task = asyncio.create_task(lead(database, has_role))
    await asyncio.sleep(0)  # the statement is on its way
    # While this thread waits for another one, this loop reads nothing that the server sends.
    with ThreadPoolExecutor() as threads:
        taken = until_roles(database_url, lambda count: count > 0)
        threads.submit(asyncio.run, taken).result(timeout=20)
    assert not has_role.is_set()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    await until_roles(database_url, lambda count: count == 0)


async def test_a_role_is_free_wherever_its_taker_is_cancelled(
    database_url: str, database: Database
) -> None:
    for steps in range(40):
        task = asyncio.create_task(lead(database, asyncio.Event()))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await until_roles(database_url, lambda count: count == 0)
    has_role = asyncio.Event()
    task = asyncio.create_task(lead(database, has_role))
    async with asyncio.timeout(20):
        await has_role.wait()
    task.cancel()
    await asyncio.wait([task])
    await until_roles(database_url, lambda count: count == 0)
