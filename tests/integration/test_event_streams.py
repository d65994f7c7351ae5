"""Streams of events: what each caller is told, where a stream resumes, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio
from aiohttp import ClientTimeout

from catalog.client import Client
from catalog.operations.access import CREATE_TOKEN, DELETE_TOKEN, NewToken, PathGrant
from catalog.operations.events import EventsQuery
from tests.integration.auditing import as_role
from tests.integration.conftest import Node, new_database, start_node

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
_STREAMS, _SECONDS = 8, 20
# A new group is a change of the registry, too.
_OF_GROUPS = '?filter={"prefix":{"subject":"/messagegroups/"}}'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(
        shared_database_url, event_streams=_STREAMS, request_timeout_seconds=2
    ) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(postgres_url: str, template: str) -> AsyncIterator[Node]:
    """A node with groups that not everybody sees, and whose admin has a token."""
    async for dsn in new_database(postgres_url, template):
        async with start_node(dsn, open=False) as running:
            yield running


class Stream:
    """A stream of a node, read block by block."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self.id = ""

    async def block(self) -> dict[str, str]:
        """The fields of the next block with data; the id of the stream moves on."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(_SECONDS):
            while True:
                line = (await self._content.readline()).decode()
                assert line, "the stream has ended"
                name, _, value = line.strip().partition(": ")
                if name:
                    fields[name] = value
                    continue
                self.id = fields.get("id", self.id)
                if "data" in fields:
                    return fields
                fields = {}

    async def event(self) -> Any:
        return orjson.loads((await self.block())["data"])

    async def subjects(self, last: str) -> list[str]:
        """The subjects of the next events, up to that of a subject."""
        found: list[str] = []
        while not found or found[-1] != last:
            found.append((await self.event())["subject"])
        return found


@contextlib.asynccontextmanager
async def stream_of(node: Node, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    """An open stream, once it has told where it begins."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    timeout = ClientTimeout(total=None)
    async with node.client.get(f"/-/events{query}", headers=named, timeout=timeout) as answer:
        assert answer.status == 200, await answer.read()
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        stream = Stream(answer.content)
        while not stream.id:
            name, _, value = (await answer.content.readline()).decode().strip().partition(": ")
            stream.id = value if name == "id" else ""
        yield stream


async def test_a_stream_tells_each_change_and_resumes_after_the_last_event(node: Node) -> None:
    async with stream_of(node, _OF_GROUPS) as stream:
        await node.put("/messagegroups/told.one")
        first = await stream.event()
        assert first["subject"] == "/messagegroups/told.one"
        assert first["type"] == "io.xregistry.group.created"
        assert first["sequence"] == stream.id
        seen = stream.id
    await node.put("/messagegroups/told.two")
    await node.put("/messagegroups/told.three")
    async with stream_of(node, _OF_GROUPS, Last_Event_ID=seen) as stream:
        told = await stream.subjects("/messagegroups/told.three")
    assert told == ["/messagegroups/told.two", "/messagegroups/told.three"]


async def test_filters_are_those_of_a_subscription(node: Node) -> None:
    query = (
        '?filter={"prefix":{"subject":"/messagegroups/wanted"}}'
        "&type=io.xregistry.group.created&type=io.xregistry.group.updated"
    )
    async with stream_of(node, query) as stream:
        for name in ("unwanted", "wanted.one", "other", "wanted.two"):
            await node.put(f"/messagegroups/{name}")
        await node.put("/messagegroups/wanted.two", {"name": "changed"})
        told = [await stream.event() for _ in range(3)]
    assert [event["subject"].rpartition("/")[2] for event in told] == [
        *("wanted.one", "wanted.two", "wanted.two")
    ]
    for fault in ("filter={", 'filter={"like":{"subject":"a"}}', "from=yesterday", "unknown=1"):
        answer = await node.send("GET", f"/-/events?{fault}")
        assert answer.status == 400, answer.body
    answer = await node.send("GET", f"/-/events?source={node.url}/audit")
    assert "may be" in answer.json["args"]["error_detail"]


async def test_a_dialect_tells_changes_in_its_own_terms(node: Node) -> None:
    async with stream_of(node, f"?source={node.url}/messagecatalog") as stream:
        await node.put("/messagegroups/translated")
        event = await stream.event()
    assert event["type"] == "io.cloudevents.messagecatalog.updated.v1"
    assert event["subject"].startswith("/messagecatalog/")


async def test_the_client_follows_a_stream(node: Node) -> None:
    async with Client.open(node.url) as client:
        followed = orjson.dumps({"prefix": {"subject": "/messagegroups/followed"}}).decode()
        query = EventsQuery.model_validate({"from": "earliest", "filter": [followed]})
        await node.put("/messagegroups/followed")
        async with contextlib.aclosing(client.events(query)) as events:
            async with asyncio.timeout(_SECONDS):
                assert (await anext(events))["subject"] == "/messagegroups/followed"
                await node.put("/messagegroups/followed.next")
                assert (await anext(events))["subject"] == "/messagegroups/followed.next"


async def test_a_client_has_a_bounded_number_of_streams(node: Node) -> None:
    async with contextlib.AsyncExitStack() as streams:
        for _ in range(_STREAMS // 4):
            await streams.enter_async_context(stream_of(node))
        answer = await node.send("GET", "/-/events")
        assert (answer.status, answer.error) == (429, "too_many_at_once")
        assert "CONCORD_EVENT_STREAMS" in answer.json["title"] + str(answer.json.get("detail"))


async def test_a_slow_reader_is_ended_with_a_reason(node: Node) -> None:
    messages = {
        f"m{number}": {"description": "x" * 100, "labels": {f"label{i}": "" for i in range(20)}}
        for number in range(100)
    }
    # Many small writes: the node answers each within its two seconds, also on a busy machine.
    for number in range(12):
        await node.put(f"/messagegroups/slow{number}", {"messages": messages})
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, (node.client.host, node.client.port))
    host = f"{node.client.host}:{node.client.port}"
    request = f"GET /-/events?from=earliest HTTP/1.1\r\nHost: {host}\r\n\r\n"
    await loop.sock_sendall(client, request.encode())
    await asyncio.sleep(4)  # the reader reads nothing for longer than the node waits
    received = bytearray()
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(_SECONDS):
            while piece := await loop.sock_recv(client, 65536):
                received += piece
    client.close()
    assert b"event: end\ndata: the events were not read in time" in received[-400:]


async def test_a_stream_tells_what_its_caller_may_see_and_ends_with_the_token(
    guarded: Node,
) -> None:
    """The caller of some groups is told of these groups, and a revoked token tells of nothing."""
    admin = (await as_role(guarded, "admin")).text
    narrow = NewToken(grants=(PathGrant(role="reader", path="/messagegroups/shown"),))
    async with Client.open(guarded.url, token=admin) as client:
        made = await client.call(CREATE_TOKEN, narrow)
        bearer = f"Bearer {made.token}"
        async with stream_of(guarded, _OF_GROUPS, Authorization=bearer) as stream:
            for name in ("hidden", "shown", "hidden.too"):
                await client.put(f"/messagegroups/{name}", {})
            await client.put("/messagegroups/shown", {"name": "changed"})
            told = [(await stream.event())["subject"] for _ in range(2)]
            assert told == ["/messagegroups/shown"] * 2
            await client.call(DELETE_TOKEN, id=made.id)
            end = await stream.block()
            assert end["event"] == "end"
            assert "credential" in end["data"]
        answer = await guarded.send("GET", "/-/events", Authorization=bearer)
        assert answer.status == 401


async def test_a_node_that_stops_ends_its_streams(shared_database_url: str) -> None:
    async with start_node(shared_database_url) as stopping, stream_of(stopping) as stream:
        await stopping.client.app.shutdown()
        assert (await stream.block())["data"] == "the node stops"
