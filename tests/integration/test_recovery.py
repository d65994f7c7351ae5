"""A node takes its own entities back from its replicas."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from catalog.model.modelsource import default_model
from catalog.store.database import Database
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    link,
    link_is,
    own_rows,
    running,
    start_member,
    write_some,
)

AUTHORITY = "urn:test:lost"
MESSAGE = "/messagegroups/g/messages/m0"


@contextlib.asynccontextmanager
async def start_as(dsn: str, authority: str = AUTHORITY, **settings: Any) -> AsyncIterator[Node]:
    """A node that is this authority."""
    async with Database.open(dsn, modelsource=default_model().source, authority=authority):
        pass
    async with start_member(dsn, **settings) as node:
        yield node


async def recover(node: Node, *sources: Node) -> None:
    """Begin a recovery."""
    body = {"sources": [source.url for source in sources]}
    answer = await node.send("POST", "/replication/recovery", body)
    assert answer.status == 202, answer.body


async def recovery_is(node: Node, state: str) -> Any:
    """Wait until a recovery is in a state."""

    async def is_there() -> bool:
        return bool((await node.get("/replication/recovery"))["state"] == state)

    await eventually(is_there)
    return await node.get("/replication/recovery")


async def write_history(node: Node) -> None:
    """Entities that changed, that were deleted, and that were deleted and created again."""
    await write_some(node, "g")
    for number in range(3):
        await node.put(MESSAGE, {"description": f"change {number}"})
    await node.put("/messagegroups/gone/messages/m")
    assert (await node.send("DELETE", "/messagegroups/gone")).status == 204
    await node.put("/messagegroups/g/messages/again")
    assert (await node.send("DELETE", "/messagegroups/g/messages/again")).status == 204
    await node.put("/messagegroups/g/messages/again", {"description": "second life"})


async def follow(target: Node, source: Node) -> None:
    await link(target, source, id="from")
    async with running(target):
        await eventually(lambda: carries(target, source))


@pytest.fixture
async def urls(postgres_url: str, template: str) -> AsyncIterator[list[str]]:
    async with databases(postgres_url, template, 4) as made:
        yield made


async def test_a_lost_node_comes_back_from_a_replica_and_goes_on_above_all_epochs(
    urls: list[str],
) -> None:
    async with start_member(urls[1]) as replica:
        async with start_as(urls[0]) as lost:
            await write_history(lost)
            await follow(replica, lost)
            before = await own_rows(lost)
        async with start_as(urls[2]) as fresh, running(fresh):
            await recover(fresh, replica)
            done = await recovery_is(fresh, "done")
            assert await own_rows(fresh) == before
            assert (done["writes"], done["refused"], done["diverged"]) == ("open", 0, 0)
            assert done["taken"] == len(before)
            answer = await fresh.send("GET", "/schemagroups/g/schemas/s")
            assert answer.body == b'{"type": "object"}'
            for path in (MESSAGE, "/messagegroups/gone", "/messagegroups/gone/messages/m"):
                await fresh.put(path, {"description": "afterwards"})
            after = await own_rows(fresh)
            changed = {o for o in before if after[o] != before[o]}
            assert all(after[o][0] > before[o][0] for o in changed)
            assert (AUTHORITY, "/messagegroups/gone/messages/m/versions/1") in before
            body = {"source": fresh.url, "mode": "pull"}
            assert (await replica.send("PUT", "/replication/links/from", body)).status == 200
            async with running(replica):
                await eventually(lambda: carries(replica, fresh))
                await link_is(replica, "from", "current")
            assert (await replica.get("/replication/links/from"))["conflicts"] == 0
