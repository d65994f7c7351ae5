"""What is spoilt or lost on the way of a push comes again, whatever the two sides know of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    link,
    link_is,
    running,
    start_member,
)

SPOILS = {
    "content": (b'"description":"true"', b'"description":"lies"'),
    "another origin": (b'"origin":"/messagegroups/h"', b'"origin":"/messagegroups/i"'),
    "a known origin": (b'"origin":"/messagegroups/h"', b'"origin":"/messagegroups/g"'),
    "another authority": (b'"authority":"urn', b'"authority":"urm'),
    "no JSON": (b'"xid":"/messagegroups/h"', b',xid":"/messagegroups/h"'),
}


@dataclass(slots=True)
class SpoilingWay:
    """A way to a node that alters what is pushed, and loses answers to it, while it is told to."""

    target: Node
    session: ClientSession
    url: str = ""
    spoils: tuple[bytes, bytes] | None = None
    mutes: bool = False
    spoilt: int = 0
    muted: int = 0

    async def pass_on(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.spoils is not None and self.spoils[0] in body:
            body = body.replace(*self.spoils)
            self.spoilt += 1
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.startswith("Concord-") or name == "Content-Type"
        }
        async with self.session.request(
            request.method, f"{self.target.url}{request.path_qs}", data=body, headers=headers
        ) as answer:
            answered = await answer.read()
        if self.mutes and body:
            self.muted += 1
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=answer.status, body=answered, content_type=answer.content_type)


@asynccontextmanager
async def spoiling_way(target: Node) -> AsyncIterator[SpoilingWay]:
    async with ClientSession() as session:
        way = SpoilingWay(target, session)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", way.pass_on)
        async with TestServer(app) as server:
            way.url = str(server.make_url("")).rstrip("/")
            yield way


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Three fresh nodes; the first one has a group `g`."""
    async with AsyncExitStack() as stack:
        urls = await stack.enter_async_context(databases(postgres_url, template, 3))
        members = [
            await stack.enter_async_context(start_member(url, pull_interval_seconds=0.3))
            for url in urls
        ]
        await members[0].put("/messagegroups/g", {})
        yield members


async def join(source: Node, target: Node, url: str, **definition: object) -> None:
    authority = source.database.node.authority
    body = {"id": "from", "mode": "accept", "authority": authority, "authorities": ["*"]}
    answer = await target.send("POST", "/replication/links", body)
    assert answer.status == 201, answer.body
    made = {"id": "to", "target": url, "mode": "push", **definition}
    answer = await source.send("POST", "/replication/links", made)
    assert answer.status == 201, answer.body


async def conflicts_at(node: Node, id: str) -> dict[str, str]:
    shown = await node.get(f"/replication/links/{id}/conflicts")
    return {each["origin"]: each["verdict"] for each in shown["conflicts"]}


def has_conflicts(node: Node, id: str, *origins: str) -> Callable[[], Awaitable[bool]]:
    async def has_them() -> bool:
        return {*await conflicts_at(node, id)} == {*origins}

    return has_them


@pytest.mark.parametrize(
    ("spoils", "is_muted"),
    [*((spoils, False) for spoils in SPOILS), ("content", True), ("no JSON", True)],
)
async def test_a_copy_that_was_spoilt_on_its_way_comes_again(
    nodes: list[Node], spoils: str, is_muted: bool
) -> None:
    source, target, _ = nodes
    async with spoiling_way(target) as way:
        await join(source, target, way.url)
        async with running(source):
            await link_is(source, "to", "current")
            way.spoils, way.mutes = SPOILS[spoils], is_muted
            await source.put("/messagegroups/h", {"description": "true"})

            async def has_come() -> bool:
                return way.spoilt > 0 and way.muted >= is_muted

            await eventually(has_come)
            # The pusher may have sent it again before its answer was there, spoilt again.
            way.spoils, way.mutes = None, False
            await eventually(lambda: carries(target, source))
            await eventually(has_conflicts(source, "to"))
            await eventually(has_conflicts(target, "from"))


async def test_a_conflict_whose_answer_was_lost_ends_with_its_cause(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await target.put("/messagegroups/h", {})
    async with spoiling_way(target) as way:
        await join(source, target, way.url)
        async with running(source):
            await link_is(source, "to", "current")
            way.mutes = True
            await source.put("/messagegroups/h", {"description": "collides"})
            await eventually(has_conflicts(target, "from", "/messagegroups/h"))
        # The pusher ended before it got an answer.
        way.mutes = False
        async with running(source):
            await eventually(has_conflicts(source, "to", "/messagegroups/h"))
            assert (await target.send("DELETE", "/messagegroups/h")).status == 204
            await eventually(lambda: carries(target, source))
            await eventually(has_conflicts(source, "to"))
            await eventually(has_conflicts(target, "from"))


async def test_a_copy_that_arrives_does_not_end_the_conflict_of_a_push(nodes: list[Node]) -> None:
    author, relay, target = nodes
    await target.put("/messagegroups/g", {})
    await link(relay, author, id="follow")
    async with spoiling_way(target) as way:
        await join(relay, target, way.url, authorities=["*"])
        async with running(relay):
            await eventually(has_conflicts(relay, "to", "/messagegroups/g"))
            # The relay gets all that it has again.
            path = "/replication/links/follow/reset"
            assert (await relay.send("POST", path, {"full": True})).status == 200
            await link_is(relay, "follow", "current")
        async with running(relay):
            assert (await target.send("DELETE", "/messagegroups/g")).status == 204
            await eventually(lambda: carries(target, author))
