"""Several nodes in this process that replicate from each other over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import orjson

from catalog.api.app import create_app
from catalog.context import SharedState, read_configuration
from catalog.model.caller import node_caller
from catalog.model.modelsource import default_model
from catalog.reconfiguration.initialmodel import ensure_registry
from catalog.settings import Settings
from catalog.store.changes import Retention
from catalog.store.database import Database
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from catalog.subscriptions.delivery.retention import drop_once, passed_time_for
from catalog.supervisor import LoopTiming
from replication.routes import routes
from replication.scheduler import run_links
from tests.conftest import copying
from tests.integration.conftest import Node, NodeClient

Rows = dict[tuple[str, str], tuple[int, str, str]]


LINK = {
    "id": "eu",
    "direction": "in",
    "mode": "events",
    **{name: [] for name in ("authorities", "scope", "types", "labels", "trust", "history")},
    **{name: {} for name in ("map", "addresses", "errors")},
    "prefix": "",
    "state": "new",
    **dict.fromkeys(("applied", "bytes", "conflicts", "failures"), 0),
    "rate": 0.0,
}
"""A link as a node shows it, which has done nothing yet."""


@contextlib.asynccontextmanager
async def start_member(dsn: str, **settings: Any) -> AsyncIterator[Node]:
    """A node with its replication API; its links and deliveries run only where asked for."""
    model = default_model()
    quick = {"backoff_initial_seconds": 0.05, "backoff_cap_seconds": 0.2, **settings}
    async with Database.open(dsn, node_caller(), modelsource=model.source) as database:
        await ensure_registry(database, "test")
        shared = SharedState(
            database=database.shared,
            configuration=await read_configuration(database.shared),
            settings=Settings(**quick),
            public_base="",
        )
        app = create_app(shared, routes)
        async with shared.checker, NodeClient.of(app, shared.settings) as client:
            shared.public_base = str(client.make_url("")).rstrip("/")
            yield Node(client, shared.for_node())


@contextlib.asynccontextmanager
async def running(
    *nodes: Node, deliveries: bool = False, timing: LoopTiming | None = None
) -> AsyncIterator[None]:
    """Run the links of these nodes; leaving is as sudden as losing the process."""
    timing = timing or quick_timing()
    tasks = [asyncio.create_task(run_links(n.context, timing=timing)) for n in nodes]
    if deliveries:
        tasks += [asyncio.create_task(run_deliveries(n.context)) for n in nodes]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=10)


def quick_timing() -> LoopTiming:
    return LoopTiming(sleep=lambda seconds: asyncio.sleep(min(seconds, 0.1)), random=Random(0))


@contextlib.asynccontextmanager
async def databases(postgres_url: str, template: str, count: int) -> AsyncIterator[list[str]]:
    names = [f"{template}_{secrets.token_hex(4)}" for _ in range(count)]
    connection = await asyncpg.connect(postgres_url)
    try:
        for name in names:
            await connection.execute(copying(template, name))
        yield [urlsplit(postgres_url)._replace(path=f"/{name}").geturl() for name in names]
        for name in names:
            await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def members(
    postgres_url: str, template: str, count: int, **settings: Any
) -> AsyncIterator[list[Node]]:
    """Fresh nodes that do not know each other."""
    async with contextlib.AsyncExitStack() as stack:
        urls = await stack.enter_async_context(databases(postgres_url, template, count))
        yield [await stack.enter_async_context(start_member(url, **settings)) for url in urls]


async def link(target: Node, source: Node, **definition: Any) -> dict[str, Any]:
    """Let `target` follow `source`."""
    return await _add_link(target, {"source": source.url, "mode": "pull", **definition})


async def _add_link(node: Node, definition: dict[str, Any]) -> dict[str, Any]:
    answer = await node.send("POST", "/replication/links", definition)
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


def authority_of(node: Node) -> str:
    return node.database.node.authority


async def accept(target: Node, source: Node, **definition: Any) -> dict[str, Any]:
    """Let `target` accept what `source` pushes."""
    return await _add_link(
        target, {"mode": "accept", "authority": authority_of(source), **definition}
    )


async def push(source: Node, target: Node, **definition: Any) -> dict[str, Any]:
    """Let `source` push to `target`."""
    return await _add_link(source, {"target": target.url, "mode": "push", **definition})


async def eventually(condition: Callable[[], Awaitable[bool]], timeout_seconds: float = 20) -> None:
    async with asyncio.timeout(timeout_seconds):
        while not await condition():
            await asyncio.sleep(0.02)  # between two looks


async def link_is(node: Node, id: str, state: str) -> None:
    """Wait until a link is in a state."""

    async def is_there() -> bool:
        return bool((await node.get(f"/replication/links/{id}"))["state"] == state)

    await eventually(is_there)


async def link_history_is(node: Node, id: str, *events: str) -> None:
    """Wait until these events happened to a link, the newest first, among others.

    A copy may come in several parts, and each is told. Neither a link's state nor what the node
    holds says that the link is done: both may be so before its work begins, and the feed may bring
    what the work is about to bring.
    """

    async def is_so() -> bool:
        history = (await node.get(f"/replication/links/{id}"))["history"]
        happened = iter(event["event"] for event in history)
        return all(event in happened for event in events)

    await eventually(is_so)


async def digest_rows(node: Node, *, verify: bool = False) -> Rows:
    """What a node holds: by authority and origin, the epoch, whether it is deleted, the digest."""
    answer = await node.send("GET", f"/replication/digests?format=csv&verify={str(verify).lower()}")
    assert answer.status == 200, answer.body
    return {
        (row["authority"], row["origin"]): (int(row["epoch"]), row["deleted"], row["digest"])
        for row in csv.DictReader(answer.body.decode().splitlines())
    }


async def own_rows(node: Node) -> Rows:
    """What a node holds of its own."""
    rows = await digest_rows(node)
    return {
        origin: row for origin, row in rows.items() if origin[0] == node.database.node.authority
    }


async def carries(target: Node, *sources: Node) -> bool:
    """Whether `target` holds exactly what the sources control."""
    held = await digest_rows(target)
    expected: Rows = {}
    for source in sources:
        expected |= await own_rows(source)
    return {o: row for o, row in held.items() if o[0] != target.database.node.authority} == expected


async def lines(node: Node, path: str, **request: Any) -> list[dict[str, Any]]:
    """The lines of a feed's answer."""
    answer = await node.send(request.pop("method", "GET"), path, **request)
    assert answer.status == 200, answer.body
    return [orjson.loads(line) for line in answer.body.splitlines()]


async def execute(node: Node, statement: str, *arguments: Any) -> None:
    """Damage a node's database, or look after it, behind the node's back."""
    async with node.database.acquire() as connection:
        await connection.execute(statement, *arguments)


async def drop_log(node: Node) -> None:
    """Drop the whole log but its newest row, as retention does where it keeps no more."""
    await node.changes()
    age = timedelta(days=1)
    least = Retention(age=age, count=1, held_age=age, held_count=1)
    await drop_once(node.database, least, passed_time_for(node.context.settings))


async def write_some(node: Node, group: str, *, messages: int = 2) -> None:
    """A group of messages and a schema with a document."""
    for number in range(messages):
        await node.put(
            f"/messagegroups/{group}/messages/m{number}", {"description": f"message {number}"}
        )
    answer = await node.request(
        "PUT",
        f"/schemagroups/{group}/schemas/s",
        body=b'{"type": "object"}',
        headers={"Content-Type": "application/json", "xRegistry-format": "JsonSchema/draft-07"},
    )
    assert answer.status == 201, answer.body
