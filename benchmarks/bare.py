"""The physical baseline: aiohttp handlers that do only the indispensable part of the work.

It runs as a process of its own on uvloop, with the same embedded PostgreSQL as a node,
durable in the same way, and with as many database connections.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import orjson
import uvloop
from aiohttp import web

from catalog.settings import Settings
from catalog.store.embeddedpostgres import start_embedded

_TABLES = """
    CREATE TABLE IF NOT EXISTS entities (xid text PRIMARY KEY, attributes jsonb NOT NULL);
    CREATE TABLE IF NOT EXISTS versions (xid text PRIMARY KEY, attributes jsonb NOT NULL);
    CREATE TABLE IF NOT EXISTS changes (
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, xid text NOT NULL, at text NOT NULL
    );
"""
_INSERTS = (
    "INSERT INTO entities (xid, attributes) VALUES ($1, $2::jsonb)",
    "INSERT INTO versions (xid, attributes) VALUES ($1, $2::jsonb)",
    "INSERT INTO changes (xid, at) VALUES ($1, $2)",
)
_ROWS = "SELECT xid, attributes::text FROM entities ORDER BY xid"
_ROWS_AT_ONCE = 500
_LARGEST = 256 * 1024 * 1024
_numbers = itertools.count()

POOL: web.AppKey[asyncpg.Pool] = web.AppKey("pool", asyncpg.Pool)
BODY: web.AppKey[bytes] = web.AppKey("body", bytes)
AHEAD: web.AppKey[asyncio.Queue[str]] = web.AppKey("ahead", asyncio.Queue)


async def get(request: web.Request) -> web.Response:
    """Answer with the same bytes as a node."""
    return web.Response(body=request.app[BODY], content_type="application/json")


async def put(request: web.Request) -> web.Response:
    """Run one transaction of three inserts."""
    body = await request.read()
    xid = f"{request.path}?{next(_numbers)}"
    text = body.decode()
    async with request.app[POOL].acquire() as connection, connection.transaction():
        await connection.execute(_INSERTS[0], xid, text)
        await connection.execute(_INSERTS[1], xid, text)
        await connection.execute(_INSERTS[2], xid, "now")
    if AHEAD in request.app:
        request.app[AHEAD].put_nowait(request.path)
    return web.Response(body=body, content_type="application/json")


async def rows(request: web.Request) -> web.StreamResponse:
    """Stream all rows in order, unchanged."""
    response = web.StreamResponse()
    await response.prepare(request)
    async with request.app[POOL].acquire() as connection, connection.transaction():
        cursor = await connection.cursor(_ROWS)
        while found := await cursor.fetch(_ROWS_AT_ONCE):
            await response.write("\n".join(row[1] for row in found).encode())
    return response


async def post(request: web.Request) -> web.Response:
    """Parse a document, copy a row for each of its entities and a row for its change."""
    document = orjson.loads(await request.read())
    await _copy(request.app[POOL], _rows(document))
    return web.Response(status=204)


async def pull(request: web.Request) -> web.Response:
    """Read a source's snapshot, and copy it as `post` does."""
    async with (
        aiohttp.ClientSession(raise_for_status=True) as session,
        session.get(request.query["snapshot"]) as response,
    ):
        lines = (await response.read()).splitlines()
    rows = list(_rows_of_lines(lines))
    await _copy(request.app[POOL], rows)
    return web.json_response({"entities": len(rows)})


async def _copy(pool: asyncpg.Pool, rows: Iterable[tuple[str, str]]) -> None:
    prefix = f"/{next(_numbers)}"
    entities = [(prefix + xid, attributes) for xid, attributes in rows]
    changes = [(xid, "now") for xid, _ in entities]
    async with pool.acquire() as connection, connection.transaction():
        await connection.copy_records_to_table("entities", records=entities)
        await connection.copy_records_to_table("changes", records=changes, columns=["xid", "at"])


def _rows(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for gid, group in document["messagegroups"].items():
        yield f"/messagegroups/{gid}", "{}"
        for rid, message in group["messages"].items():
            xid = f"/messagegroups/{gid}/messages/{rid}"
            yield xid, "{}"
            yield f"{xid}/versions/1", orjson.dumps(message).decode()


def _rows_of_lines(lines: list[bytes]) -> Iterator[tuple[str, str]]:
    for line in lines:
        entity = orjson.loads(line)
        if "xid" in entity:
            yield entity["xid"], orjson.dumps(entity.get("attributes", {})).decode()


@contextlib.asynccontextmanager
async def _database(directory: Path) -> AsyncIterator[asyncpg.Pool]:
    server = await start_embedded(directory)
    try:
        async with asyncpg.create_pool(
            server.dsn,
            min_size=1,
            max_size=Settings.model_fields["database_pool_size"].default,
            server_settings={"synchronous_commit": "on", "jit": "off"},
        ) as pool:
            await pool.execute(_TABLES)
            yield pool
    finally:
        await server.stop()


async def _run_ahead(queue: asyncio.Queue[str], target: str) -> None:
    """Forward the path of every write to the next server, one at a time."""
    async with aiohttp.ClientSession() as session:
        while True:
            path = await queue.get()
            async with session.put(target + path, data=b"{}") as response:
                await response.read()


async def serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM."""
    app = web.Application(client_max_size=_LARGEST)
    app[BODY] = arguments.body.read_bytes() if arguments.body else b"{}"
    app.add_routes(
        [
            web.post("/pull", pull),
            web.get("/rows", rows),
            web.get("/{path:.*}", get),
            web.put("/{path:.*}", put),
            web.post("/{path:.*}", post),
        ]
    )
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        if arguments.directory:
            app[POOL] = await stack.enter_async_context(_database(arguments.directory))
        running = []
        if arguments.ahead:
            app[AHEAD] = asyncio.Queue()
            running.append(group.create_task(_run_ahead(app[AHEAD], arguments.ahead)))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", arguments.port).start()
        await stop.wait()
        for task in running:
            task.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--body", type=Path, help="a file with the answer to every GET")
    parser.add_argument("--directory", type=Path, help="the data directory of its PostgreSQL")
    parser.add_argument("--ahead", help="the URL that gets a PUT after every transaction")
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
