"""Every route answers in the time of a request, whatever holds the database up."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg
import orjson
import pytest
import pytest_asyncio

from catalog.store.embeddedpostgres import start_embedded
from replication.routes import routes as replication_routes
from tests.fuzz.requests import routes_of
from tests.integration.conftest import Node, start_node
from tests.pages import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECONDS = 0.3
LONGEST = 10.0
AT_ONCE = 8
BODIES = {
    "/subscriptions": {"sink": "http://127.0.0.1:1/", "protocol": "HTTP"},
    "/replication/links": {"id": "a", "source": "http://127.0.0.1:1", "mode": "pull"},
    "/replication/": {"origins": [{"authority": "urn:x", "origin": "/messagegroups/a"}]},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hung(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    """A node whose tables are all locked by somebody else.

    It has a server of its own: a transaction holds back the change logs of a whole server.
    """
    server = await start_embedded(tmp_path_factory.mktemp("hung"))
    try:
        async with (
            start_node(
                server.dsn,
                routes=replication_routes,
                request_timeout_seconds=SECONDS,
                reconfiguration_timeout_seconds=SECONDS,
                search_timeout_seconds=SECONDS,
            ) as node,
            _locked(server.dsn),
        ):
            yield node
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def _locked(url: str) -> AsyncIterator[None]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            names = await connection.fetch(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            )
            tables = ", ".join(f'"{row["tablename"]}"' for row in names)
            await connection.execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


async def test_every_route_answers_while_the_database_hangs(hung: Node) -> None:
    # A busy machine takes longer to make the document than a request may here.
    routes = routes_of(orjson.loads((ROOT / "docs/openapi.json").read_bytes()))
    assert len(routes) > 150
    turns = asyncio.Semaphore(AT_ONCE)

    async def ask(method: str, path: str) -> int:
        async with turns, asyncio.timeout(LONGEST):
            return await _status_of(hung, method, path)

    asked = [ask(route.method, re.sub(r"\{\w+\}", "a", route.path)) for route in routes]
    statuses = Counter(await asyncio.gather(*asked))
    assert all(status < 500 or status == 503 for status in statuses), statuses
    assert statuses[503] > 50, "the lock reaches the routes"


async def _status_of(node: Node, method: str, path: str) -> int:
    if method in ("GET", "HEAD"):
        return (await node.send(method, path)).status
    body = next((body for start, body in BODIES.items() if path.startswith(start)), {})
    return (await node.send(method, path, body)).status
