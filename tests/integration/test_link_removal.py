"""Links are removed with or without what they brought, also if their peers are dead or hang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.conftest import Node
from tests.integration.federation import (
    digest_rows,
    eventually,
    link_is,
    members,
    own_rows,
    running,
    write_some,
)
from tests.integration.meteredsource import follow, metered


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """Two fresh nodes that do not know each other."""
    async with members(postgres_url, template, 2) as [target, source]:
        yield target, source


async def is_gone(node: Node, id: str) -> bool:
    return (await node.send("GET", f"/replication/links/{id}")).status == 404


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("hangs", [False, True])
async def test_a_link_is_removed_whatever_its_source_does(
    pair: tuple[Node, Node], drop: bool, hangs: bool
) -> None:
    target, source = pair
    await write_some(source, "g")
    async with metered(source) as way:
        await follow(target, way)
        async with running(target):
            await link_is(target, "from", "current")
            before = await digest_rows(target)
            assert before.keys() == (await own_rows(source)).keys()
            hanging = asyncio.Event()

            async def hang() -> None:
                hanging.set()
                await asyncio.Event().wait()

            if hangs:
                way.meanwhile = hang
            else:
                way.refusals = [(503, {})] * 1000
            assert (await target.send("POST", "/replication/links/from/run", {})).status == 200
            if hangs:
                await hanging.wait()
            else:
                await link_is(target, "from", "waiting")
            path = f"/replication/links/from{'?drop' if drop else ''}"
            assert (await target.send("DELETE", path)).status == (202 if drop else 200)
            await eventually(lambda: is_gone(target, "from"))
    assert await digest_rows(target) == ({} if drop else before)


async def test_a_link_that_pushes_is_removed_though_its_target_is_dead(
    pair: tuple[Node, Node],
) -> None:
    _, source = pair
    body = {"id": "out", "target": "http://127.0.0.1:1", "mode": "push"}
    assert (await source.send("POST", "/replication/links?force", body)).status == 201
    async with running(source):
        await link_is(source, "out", "waiting")
        assert (await source.send("DELETE", "/replication/links/out")).status == 200
        await eventually(lambda: is_gone(source, "out"))
