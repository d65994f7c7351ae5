"""A search that takes too long is ended, and its answer says what to ask instead."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from tests.integration.conftest import Answer, Node, assert_problem, start_node

SLOW = [
    "/?filter=messagegroups.messages.name=*x*",
    "/messagegroups?filter=messages.name=*x*",
    "/messagegroups?filter=name=*x*",
    "/messagegroups?filter=name=x&inline=messages",
    "/messagegroups?sort=description",
    "/messagegroups/g?filter=messages.name=x",
]


def assert_too_costly(answer: Answer) -> dict[str, Any]:
    assert (answer.status, answer.error) == (400, "search_too_costly"), answer.body
    document = assert_problem(answer)
    assert "longer than 0.05 seconds" in document["title"]
    assert "Ask within one collection" in document["detail"]
    return document


async def is_nobody_waiting(connection: asyncpg.Connection) -> bool:
    waiting = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND wait_event_type = 'Lock'"
    )
    return bool(waiting == 0)


@pytest.mark.parametrize("path", SLOW)
async def test_a_search_that_takes_too_long_is_refused_with_advice_and_ended_in_the_database(
    database_url: str, path: str
) -> None:
    """Nobody can read a table that is locked, which is as slow as it gets."""
    async with start_node(database_url, search_timeout_seconds=0.05) as node:
        await node.put("/messagegroups/g", {"messages": {"m": {"name": "x"}}})
        other = await asyncpg.connect(database_url)
        async with other.transaction():
            await other.execute("LOCK TABLE entities")
            for _ in range(2 * node.context.settings.database_pool_size):
                document = assert_too_costly(await node.send("GET", path))
                assert document["subject"] == path.partition("?")[0]
            async with asyncio.timeout(10):
                while not await is_nobody_waiting(other):
                    await asyncio.sleep(0.01)  # between two looks
        await other.close()
        await answers_again(node, path)


async def answers_again(node: Node, path: str) -> None:
    """As soon as the database is quick enough, whichever connection is used."""
    async with asyncio.timeout(20):
        while (await node.send("GET", path)).status != 200:
            await asyncio.sleep(0.01)  # between two attempts


async def test_what_a_write_shows_is_found_however_long_it_takes(database_url: str) -> None:
    async with start_node(database_url, search_timeout_seconds=1e-9) as node:
        path = "/messagegroups?filter=messages.name=x"
        body = {"g": {"messages": {"m": {"name": "x"}}}, "h": {}}
        answer = await node.send("POST", path, body)
        assert (answer.status, list(answer.json)) == (200, ["g"])
        answer = await node.send("GET", path)
        assert (answer.status, answer.error) == (400, "search_too_costly")
