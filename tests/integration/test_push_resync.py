"""Links that push and have lost their place compare digests, and push only what differs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    drop_log,
    eventually,
    execute,
    link_history_is,
    link_is,
    members,
    running,
)
from tests.integration.meteredsource import MeteredSource, metered

DIGESTS, ENTITIES = "/replication/digests", "/replication/entities"
MESSAGES = 60


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """A source, and a target that accepts its pushes."""
    async with members(postgres_url, template, 2, pull_interval_seconds=0.3) as [source, target]:
        body = {"authority": source.database.node.authority, "id": "in", "mode": "accept"}
        answer = await target.send("POST", "/replication/links", body)
        assert answer.status == 201, answer.body
        await source.put("/messagegroups/g")
        messages = {f"m{number}": {"description": "as it was"} for number in range(MESSAGES)}
        answer = await source.send("POST", "/messagegroups/g/messages", messages)
        assert answer.status == 200, answer.body
        # What other transactions hide in the log is pushed again once it can be read.
        await source.changes()
        yield source, target


async def pushed(source: Node, way: MeteredSource) -> int:
    """Push everything; return the bytes that it took."""
    body = {"id": "out", "target": way.url, "mode": "push"}
    answer = await source.send("POST", "/replication/links", body)
    assert answer.status == 201, answer.body
    async with running(source):
        await link_is(source, "out", "current")
    taken = way.sent
    way.forget()
    return taken


async def write_meanwhile(source: Node) -> None:
    """A change, a creation, and a deletion of which the log says nothing any more."""
    path = "/messagegroups/g/messages"
    await source.put(f"{path}/m0", {"description": "changed"})
    await source.put(f"{path}/new")
    assert (await source.send("DELETE", f"{path}/m1")).status == 204
    await source.changes()
    await drop_log(source)


async def test_what_is_pushed_again_grows_with_what_differs(pair: tuple[Node, Node]) -> None:
    source, target = pair
    async with metered(target) as way:
        everything = await pushed(source, way)
        before = await source.get("/replication/links/out")
        # A request whose answer was late is sent again.
        assert everything / 4 < before["bytes"] <= everything
        await write_meanwhile(source)
        async with running(source):
            await link_history_is(source, "out", "compared", "resynchronise", "copied")
            await eventually(lambda: carries(target, source))
        assert way.requests[DIGESTS] > 0
        assert way.sent < everything / 4
    [compared, *_] = (await source.get("/replication/links/out"))["history"]
    assert compared["detail"].startswith("6 of 121 origins differ")


async def test_equal_catalogs_push_nothing(pair: tuple[Node, Node]) -> None:
    source, target = pair
    async with metered(target) as way:
        everything = await pushed(source, way)
        assert (await source.send("POST", "/replication/links/out/reset", {})).status == 200
        async with running(source):
            await link_history_is(source, "out", "compared", "copied")
            await link_is(source, "out", "current")
        assert way.requests[DIGESTS] > 0
        # Now and then the target is told that it is current.
        assert way.sent < everything / 4


@pytest.mark.parametrize("doubts", [True, False])
async def test_a_target_that_doubts_or_tells_no_digests_gets_everything(
    pair: tuple[Node, Node], doubts: bool
) -> None:
    source, target = pair
    async with metered(target) as way:
        await pushed(source, way)
        if doubts:
            # The target's operator wants everything compared with what its authority says.
            assert (await target.send("POST", "/replication/links/in/reset", {})).status == 200
        else:
            way.without = frozenset({DIGESTS})
            await execute(source, "UPDATE links SET cursor = NULL")
        await write_meanwhile(source)
        async with running(source):
            await link_history_is(source, "out", "copied", "copied")
            await eventually(lambda: carries(target, source))
        assert way.requests[DIGESTS] == 0
    [copied, *_] = (await source.get("/replication/links/out"))["history"]
    assert int(copied["detail"].removesuffix(" copies")) > 2 * MESSAGES
