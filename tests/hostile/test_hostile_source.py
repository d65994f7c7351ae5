"""A catalog that a node follows sends what nobody can keep, or never ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from catalog.client import BadAnswer, Client
from catalog.client.retry import ONCE
from catalog.model.entity import Entity
from replication.feed.feedlines import write_copy, write_end
from tests.e2e.nodes import NodeProcess
from tests.hostile.bystander import bystander
from tests.hostile.conftest import StartNode, peak_memory_of

AUTHORITY = "urn:hostile"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LINK = "/replication/links/hostile"


def group(number: int, **attributes: Any) -> bytes:
    xid = f"/messagegroups/g{number}"
    return write_copy(
        Entity(
            xid=xid,
            kind="group",
            authority=AUTHORITY,
            origin=xid,
            epoch=1,
            attributes=attributes or {"description": "x" * 200},
            createdat=NOW,
            modifiedat=NOW,
        ).sealed()
    )


Lines = Callable[[], AsyncIterator[bytes]]


async def nothing() -> AsyncIterator[bytes]:
    yield write_end("c0")


async def endless() -> AsyncIterator[bytes]:
    for number in itertools.count():
        yield group(number)


async def one_long_line() -> AsyncIterator[bytes]:
    yield b'{"xid":"'
    while True:
        yield b"x" * 65536


async def many_values() -> AsyncIterator[bytes]:
    yield b'{"attributes":{"a":[' + b"[]," * 10_000_000 + b"[]]}}\n"
    yield write_end("c0")


@dataclass
class Source:
    """A catalog whose answers are what a test says; it counts the pages that were asked for."""

    snapshot: Lines = nothing
    changes: Lines = nothing
    pages: int = 0
    url: str = ""
    _instance: str = field(default_factory=lambda: str(uuid.uuid4()))

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/replication", self._shake_hands)
        app.router.add_get("/replication/snapshot", self._send_snapshot)
        app.router.add_get("/replication/changes", self._send_changes)
        return app

    async def _shake_hands(self, _: web.Request) -> web.Response:
        said = {"software": "hostile", "instance": self._instance, "authority": AUTHORITY}
        log = {"dropped": "0.0", "now": "1.1"}
        return web.json_response({**said, "digestversion": 1, "offers": ["changes"], "log": log})

    async def _send_snapshot(self, request: web.Request) -> web.StreamResponse:
        return await self._send(request, self.snapshot)

    async def _send_changes(self, request: web.Request) -> web.StreamResponse:
        self.pages += 1
        return await self._send(request, self.changes)

    async def _send(self, request: web.Request, lines: Lines) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            async for line in lines():
                await response.write(line)
            await response.write_eof()
        return response


@contextlib.asynccontextmanager
async def serving(source: Source) -> AsyncIterator[Source]:
    async with TestServer(source.application()) as server:
        source.url = str(server.make_url("")).rstrip("/")
        yield source


async def follow(victim: NodeProcess, source: Source) -> None:
    async with aiohttp.ClientSession() as session:
        body = {"id": "hostile", "source": source.url, "mode": "pull"}
        async with session.post(f"{victim.url}/replication/links?force", json=body) as answer:
            assert answer.status == 201, await answer.text()


async def link_now(victim: NodeProcess) -> dict[str, Any]:
    async with aiohttp.ClientSession(victim.url) as session, session.get(LINK) as answer:
        shown: dict[str, Any] = await answer.json()
        return shown


async def link_is(victim: NodeProcess, *states: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while (link := await link_now(victim))["state"] not in states:
            await asyncio.sleep(0.05)  # between two looks
    return link


async def test_an_endless_snapshot_slows_no_write_and_ends_at_the_limit(
    start_victim: StartNode,
) -> None:
    async with (
        start_victim(CONCORD_LINK_COPIES="6000") as victim,
        serving(Source(snapshot=endless)) as source,
    ):
        async with bystander(victim.url) as seen:
            await follow(victim, source)
            link = await link_is(victim, "refused")
        seen.assert_served(seconds=1.0)
        assert "more than 6,000 entities" in link["error"]
        assert "CONCORD_LINK_COPIES" in link["error"]
        assert 0 < link["applied"] <= 6000
        assert [event["event"] for event in link["history"]] == ["stopped"]


async def test_an_answer_ends_at_the_limit_of_its_bytes(start_victim: StartNode) -> None:
    async with (
        start_victim(CONCORD_LINK_BYTES="1000000") as victim,
        serving(Source(snapshot=endless)) as source,
    ):
        await follow(victim, source)
        link = await link_is(victim, "refused")
        assert "CONCORD_LINK_BYTES" in link["error"]


async def test_a_page_without_an_end_ends_at_the_limit_of_a_page(victim: NodeProcess) -> None:
    async with serving(Source(changes=endless)) as source:
        await follow(victim, source)
        link = await link_is(victim, "refused")
        assert "more entities than were asked for" in link["error"]


async def test_a_line_without_an_end_takes_no_memory(victim: NodeProcess) -> None:
    before = peak_memory_of(victim)
    async with serving(Source(snapshot=one_long_line)) as source:
        await follow(victim, source)
        link = await link_is(victim, "refused", "waiting")
        assert "a line of more than" in link["error"]
    assert peak_memory_of(victim) - before < 150e6


async def test_a_line_of_too_many_values_is_not_parsed(victim: NodeProcess) -> None:
    before = peak_memory_of(victim)
    async with serving(Source(snapshot=many_values)) as source:
        async with bystander(victim.url) as seen:
            await follow(victim, source)
            link = await link_is(victim, "current")
        seen.assert_served(seconds=1.0)
        assert link["conflicts"] == 1
    assert peak_memory_of(victim) - before < 200e6


async def test_pages_that_bring_nothing_are_asked_for_at_a_pace(victim: NodeProcess) -> None:
    numbers = itertools.count()

    async def empty() -> AsyncIterator[bytes]:
        yield write_end(f"c{next(numbers)}")

    async with serving(Source(changes=empty)) as source:
        async with bystander(victim.url) as seen:
            await follow(victim, source)
            await asyncio.sleep(4)  # the time of the attack
        seen.assert_served(seconds=1.0)
        assert source.pages < 90


async def read_snapshot(client: Client) -> None:
    async for _ in client.snapshot_lines():
        pass


@pytest.mark.parametrize("piece", [b"x", b"\n"])
async def test_a_source_that_dribbles_is_given_up(piece: bytes) -> None:
    async def dribble() -> AsyncIterator[bytes]:
        while True:
            yield piece
            await asyncio.sleep(0.05)  # the pace of the attack

    async with (
        serving(Source(snapshot=dribble)) as source,
        aiohttp.ClientSession() as session,
    ):
        client = Client(source.url, session, retry=ONCE, timeout_seconds=0.2)
        with pytest.raises(BadAnswer, match="bytes a second"):
            await asyncio.wait_for(read_snapshot(client), 10)
