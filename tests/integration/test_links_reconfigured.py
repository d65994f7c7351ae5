"""Links after a change of the model: what it had no type for comes once it has one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    eventually,
    execute,
    link,
    link_history_is,
    link_is,
    members,
    running,
)

SHELVES = {
    "singular": "shelf",
    "resources": {"books": {"singular": "book", "hasdocument": False}},
}


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Two nodes that do not know each other; the first one has a type of its own."""
    async with members(postgres_url, template, 2, pull_interval_seconds=600) as [source, target]:
        await add_shelves(source)
        yield [source, target]


async def add_shelves(node: Node) -> None:
    model: dict[str, Any] = await node.get("/modelsource")
    await node.put("/modelsource", {"groups": {**model["groups"], "shelves": SHELVES}})


async def fill(node: Node, *, books: int) -> None:
    """A shelf with books, and a group of a type that every node has."""
    await node.put("/messagegroups/g", {})
    await node.put("/shelves/s", {})
    body = {f"b{number}": {} for number in range(books)}
    answer = await node.send("POST", "/shelves/s/books", body)
    assert answer.status == 200, answer.body


async def conflicts(node: Node) -> int:
    return int((await node.get("/replication/links/from"))["conflicts"])


@pytest.mark.parametrize("mode", ["events", "pull"])
async def test_what_the_model_had_no_type_for_comes_at_once_when_it_has_one(
    nodes: list[Node], mode: str
) -> None:
    source, target = nodes
    await fill(source, books=1)
    await link(target, source, id="from", mode=mode)
    async with running(target):
        await link_is(target, "from", "current")
        assert await conflicts(target) == 3
        await add_shelves(target)
        await eventually(lambda: carries(target, source), 10)
    assert await conflicts(target) == 0
    await link_history_is(target, "from", "copied")


async def test_however_much_was_refused_comes_when_the_model_has_a_type_for_it(
    nodes: list[Node],
) -> None:
    source, target = nodes
    await fill(source, books=600)
    await link(target, source, id="from", mode="events")
    async with running(target):
        await link_is(target, "from", "current")
        assert await conflicts(target) == 1201
        await add_shelves(target)
        await eventually(lambda: carries(target, source))
    assert await conflicts(target) == 0


async def test_what_was_refused_beyond_what_is_remembered_comes_with_a_complete_copy(
    nodes: list[Node],
) -> None:
    source, target = nodes
    made = await link(target, source, id="from", mode="events")
    await execute(
        target,
        """INSERT INTO conflicts (link, authority, origin, xid, epoch, verdict, detail, at)
        SELECT $1, $2, '/shelves/' || n, '/shelves/' || n, 1, 'collided', 'it did', now()
        FROM generate_series(1, 10000) n""",
        made["id"],
        source.database.node.authority,
    )
    await fill(source, books=1)
    async with running(target):
        await link_is(target, "from", "current")
        assert await conflicts(target) == 10000
        await add_shelves(target)
        await link_history_is(target, "from", "copied", "resynchronise", "copied")
    assert await carries(target, source)
