"""A read at a replica waits for a write at its source, whatever happens in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from catalog.http.positionwait import LINK_WAITS
from catalog.http.stream import WAITING_READS
from catalog.store.databasewatch import Watch
from replication.routes import routes
from tests.integration.conftest import Answer, Node, start_node
from tests.integration.federation import databases, eventually, link, link_is, running

QUICK = {"backoff_initial_seconds": 0.05, "backoff_cap_seconds": 0.2}
MESSAGE = "/messagegroups/g/messages/m"
SCHEMA = {"Content-Type": "application/json", "xRegistry-format": "JsonSchema/draft-07"}


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Three fresh nodes that do not know each other."""
    async with databases(postgres_url, template, 3) as urls, contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(start_node(url, routes=routes, **QUICK)) for url in urls
        ]


async def write(node: Node, path: str, text: str) -> str:
    """Write an entity; return the position."""
    answer = await node.send("PUT", path, {"description": text})
    assert answer.status in (200, 201), answer.body
    position: str = answer.headers["Concord-Position"]
    return position


async def read(
    node: Node, path: str, position: str, *, method: str = "GET", seconds: int = 20
) -> Answer:
    return await node.send(method, path, Concord_Wait_For=position, Prefer=f"wait={seconds}")


def waiting(node: Node) -> int:
    """How many reads wait."""
    return node.client.app[LINK_WAITS].waiting  # type: ignore[union-attr]


class Cable:
    """A way to a node that can be cut, with all connections on it, and mended."""

    def __init__(self, node: Node) -> None:
        parts = urlsplit(node.url)
        self._to = parts.hostname, parts.port
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_cut = False
        self.url = ""

    @contextlib.asynccontextmanager
    async def laid(self) -> AsyncIterator[Cable]:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            yield self
            self.cut()

    def cut(self) -> None:
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._is_cut = False

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        to_reader, to_writer = await asyncio.open_connection(*self._to)
        self._writers |= {writer, to_writer}
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(_pipe(reader, to_writer), _pipe(to_reader, writer))
        self._writers -= {writer, to_writer}


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.close()


# It makes hundreds of writes at one node, and has each of them replicated.
@pytest.mark.timeout(240)
@pytest.mark.parametrize("mode", ["pull", "events"])
async def test_a_waiting_read_always_sees_the_write(nodes: list[Node], mode: str) -> None:
    source, target, _ = nodes
    await link(target, source, mode=mode)
    is_over = False

    async def make_noise() -> None:
        while not is_over:
            await write(source, "/messagegroups/noise/messages/m", "noise")
            await target.get("/messagegroups")

    async with running(target), running(source, deliveries=True), asyncio.TaskGroup() as group:
        group.create_task(make_noise())
        for number in range(100):
            position = await write(source, MESSAGE, f"text {number}")
            answer = await read(target, MESSAGE, position)
            assert answer.status == 200, answer.body
            assert answer.json["description"] == f"text {number}"
        is_over = True


async def test_all_kinds_of_reads_wait(nodes: list[Node]) -> None:
    source, target, _ = nodes
    await link(target, source)
    async with running(target):
        await read(target, "/", await write(source, MESSAGE, "first"))
        paths = [
            "/messagegroups/g/messages",
            "/messagegroups/g?inline=*",
            "/export",
            "/messagegroups",
        ]
        paths += ["/messagegroups?filter=messages.description=w*", "/", MESSAGE]
        for number, path in enumerate(paths):
            before = await target.send("GET", path)
            position = await write(source, f"/messagegroups/g{number}/messages/m", f"w{number}")
            position = await write(source, MESSAGE, f"w{number}")
            answer = await read(target, path, position)
            assert answer.status == 200
            assert answer.body != before.body, path
            again = await target.send("GET", path)
            assert again.body == answer.body, path
            assert answer.headers["Concord-Position"]
        position = await write(source, "/messagegroups/new/messages/m", "new")
        answer = await read(target, "/messagegroups/new/messages/m", position, method="HEAD")
        assert answer.status == 200
        deleted = await source.send("DELETE", MESSAGE)
        answer = await read(target, MESSAGE, deleted.headers["Concord-Position"])
        assert answer.status == 404
        schema = "/schemagroups/s/schemas/s"
        written = await source.request("PUT", schema, body=b"{}", headers=SCHEMA)
        answer = await read(target, schema, written.headers["Concord-Position"])
        assert (answer.status, answer.body) == (200, b"{}")
        written = await source.send("PUT", "/messagecatalog/c", {"format": "CloudEvents"})
        answer = await read(target, "/messagecatalog/c", written.headers["Concord-Position"])
        assert answer.status == 200


async def test_a_read_tells_that_its_link_is_cut_and_waits_until_it_is_mended(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    async with Cable(source).laid() as cable:
        created = await target.send(
            "POST", "/replication/links", {"source": cable.url, "mode": "pull"}
        )
        id = created.json["id"]
        async with running(target):
            await read(target, MESSAGE, await write(source, MESSAGE, "before"))
            cable.cut()
            await link_is(target, id, "waiting")
            position = await write(source, MESSAGE, "after")
            at_once = await read(target, MESSAGE, position, seconds=0)
            assert at_once.status == 503
            answer = await read(target, MESSAGE, position, seconds=1)
            assert (answer.status, answer.error) == (503, "position_not_reached")
            assert answer.headers["Retry-After"] == "1"
            told = answer.json["args"]
            assert told["link"] == id
            assert told["position"] == position
            assert told["source"] == cable.url
            assert told["reached"] < position
            assert told["seconds"] == "1"
            late = asyncio.create_task(read(target, MESSAGE, position))
            await eventually(lambda: _waits(target, 1))
            cable.mend()
            answer = await late
            assert (answer.status, answer.json["description"]) == (200, "after")
            assert waiting(target) == 0


async def _waits(node: Node, number: int) -> bool:
    return waiting(node) == number


async def test_a_link_that_does_not_bring_the_write_comes_to_it_all_the_same(
    nodes: list[Node],
) -> None:
    source, target, _ = nodes
    await link(target, source, scope=["/messagegroups/in"])
    async with running(target):
        await read(target, "/", await write(source, "/messagegroups/in/messages/m", "in"))
        for number in range(5):
            position = await write(source, "/messagegroups/out/messages/m", f"{number}")
            async with asyncio.timeout(5):
                answer = await read(target, "/messagegroups/out", position)
            assert answer.status == 404


async def test_a_read_waits_for_several_positions(nodes: list[Node]) -> None:
    one, two, target = nodes
    await link(target, one)
    await link(target, two)
    async with running(target):
        first = await write(one, "/messagegroups/one/messages/m", "one")
        second = await write(two, "/messagegroups/two/messages/m", "two")
        answer = await read(target, "/messagegroups", f"{first}, {second}")
        assert [*answer.json] == ["one", "two"]


async def test_a_reader_behind_a_relay_asks_the_relay_first(nodes: list[Node]) -> None:
    source, hub, target = nodes
    await link(hub, source)
    await link(target, hub, authorities=[source.database.node.authority])
    async with running(hub, target):
        for number in range(20):
            position = await write(source, MESSAGE, f"text {number}")
            refused = await read(target, MESSAGE, position)
            assert (refused.status, refused.error) == (400, "unknown_position")
            relayed = await read(hub, "/replication", position, method="HEAD")
            answer = await read(target, MESSAGE, relayed.headers["Concord-Position"])
            assert answer.json["description"] == f"text {number}"


async def test_a_read_waits_in_another_process_than_the_link(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one, routes=routes, **QUICK) as source,
        start_node(two, routes=routes, **QUICK) as target,
        start_node(two, routes=routes, cache_staleness_seconds=3600, **QUICK) as other,
        watched(target, other),
    ):
        await link(target, source)
        async with running(target):
            for number in range(20):
                position = await write(source, MESSAGE, f"text {number}")
                answer = await read(other, MESSAGE, position)
                assert answer.json["description"] == f"text {number}"
                await other.get("/messagegroups")
            for number in range(20):
                path = f"/messagegroups/own{number}"
                written = await target.send("PUT", path, {})
                position = written.headers["Concord-Position"]
                answer = await read(other, "/messagegroups?limit=500", position, seconds=0)
                assert f"own{number}" in answer.json
            source_model = await target.get("/modelsource")
            source_model["groups"]["fleets"] = {"singular": "fleet"}
            written = await target.send("PUT", "/modelsource", source_model)
            position = written.headers["Concord-Position"]
            assert (await read(other, "/fleets", position, seconds=0)).status == 200


@contextlib.asynccontextmanager
async def watched(*nodes: Node) -> AsyncIterator[None]:
    """Let processes notify each other."""
    tasks = [asyncio.create_task(Watch(node.database.shared).run()) for node in nodes]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_waiting_reads_are_few_and_hold_nothing(postgres_url: str, template: str) -> None:
    bounds = {"read_wait_seconds": 2.0, "database_pool_size": 1}
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_node(one, routes=routes) as source,
        start_node(two, routes=routes, **bounds) as target,
    ):
        await link(target, source)
        async with running(target):
            await read(target, "/", await write(source, MESSAGE, "first"))
        position = await write(source, MESSAGE, "second")
        for _ in range(97):
            assert target.client.app[WAITING_READS].take_now("127.0.0.1")
        reads = [asyncio.create_task(read(target, MESSAGE, position)) for _ in range(3)]
        await eventually(lambda: _waits(target, 3))
        refused = await read(target, MESSAGE, position)
        assert (refused.status, refused.error) == (429, "too_many_at_once")
        assert (await target.get(MESSAGE))["description"] == "first"
        answers = await asyncio.gather(*reads)
        assert {answer.status for answer in answers} == {503}
        assert {answer.json["args"]["seconds"] for answer in answers} == {"2"}
        assert waiting(target) == 0


async def test_a_link_that_is_deleted_ends_the_waits_for_it(nodes: list[Node]) -> None:
    source, target, _ = nodes
    id = (await link(target, source))["id"]
    async with running(target):
        await read(target, "/", await write(source, MESSAGE, "first"))
    position = await write(source, MESSAGE, "second")
    waiter = asyncio.create_task(read(target, MESSAGE, position))
    await eventually(lambda: _waits(target, 1))
    assert (await target.send("DELETE", f"/replication/links/{id}")).status == 200
    answer = await waiter
    assert (answer.status, answer.error) == (400, "unknown_position")
