"""The planner knows of large writes soon after they were answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from catalog.store.statistics import Statistics
from tests.integration.conftest import Node
from tests.integration.federation import eventually, link, running, start_member

MANY = 2600  # messages, each of which has a version
HAS_STATISTICS = """
    SELECT count(DISTINCT tablename) = 2 FROM pg_stats
    WHERE tablename IN ('entities', 'changes') AND attname IN ('xid', 'txid')"""


@pytest.fixture
async def counted(node: Node) -> AsyncIterator[Node]:
    """A node that keeps its statistics."""
    keeping = asyncio.create_task(Statistics(node.database).run())
    yield node
    keeping.cancel()
    await asyncio.wait([keeping])


async def _has_statistics(node: Node) -> bool:
    async with node.database.acquire() as connection:
        return bool(await connection.fetchval(HAS_STATISTICS))


async def test_a_large_import_is_followed_by_statistics(counted: Node) -> None:
    await counted.put("/messagegroups/small", {"messages": {"m": {}}})
    assert not await _has_statistics(counted)
    await counted.put("/messagegroups/g", {"messages": {f"m{n}": {} for n in range(MANY)}})
    await eventually(lambda: _has_statistics(counted))


async def test_a_bootstrap_is_followed_by_statistics(
    database_url: str, other_database_url: str
) -> None:
    async with start_member(other_database_url) as target, start_member(database_url) as source:
        await source.put("/messagegroups/g", {"messages": {f"m{n}": {} for n in range(MANY)}})
        keeping = asyncio.create_task(Statistics(target.database).run())
        await link(target, source)
        async with running(target):
            await eventually(lambda: _has_statistics(target))
        keeping.cancel()
        await asyncio.wait([keeping])
