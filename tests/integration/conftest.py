"""A whole node in this process: its database, its application, and a client that talks to it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import orjson
import pytest
import pytest_asyncio
from aiohttp import ClientResponse, ClientSession, DummyCookieJar, web
from yarl import URL

from catalog import dialects
from catalog.access.authentication import AUTHENTICATION, Authentication
from catalog.api.app import create_app
from catalog.context import Context, SharedState, read_configuration
from catalog.http.background import BACKGROUND_TASKS
from catalog.http.listener import listen
from catalog.http.route import ROUTES, Route
from catalog.model.caller import node_caller
from catalog.model.modelsource import default_model, load_model
from catalog.node.noderuntime import open_database, serve
from catalog.operations.operation import Need
from catalog.reconfiguration.initialmodel import ensure_registry
from catalog.settings import Settings
from catalog.store.changes import LoggedChange, Position, read_changes
from catalog.store.database import Database
from replication.feed.feedrequests import cursor_at
from tests.conftest import copying

SPEC = "https://github.com/xregistry/spec/blob/main/core/spec.md#"
HTTP = "https://github.com/xregistry/spec/blob/main/core/http.md#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response that was read to its end."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error(self) -> str:
        """The name of the error that it reports."""
        return str(self.json["type"]).rpartition("#")[2].rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class NodeClient:
    """Sends requests to a node of this process, which listens as nodes do."""

    app: web.Application
    url: URL
    session: ClientSession

    @classmethod
    @contextlib.asynccontextmanager
    async def of(cls, app: web.Application, settings: Settings) -> AsyncIterator[NodeClient]:
        plain = settings.model_copy(update={"tls_cert": None, "tls_key": None})
        listening = await listen("127.0.0.1", 0)
        session = ClientSession(cookie_jar=DummyCookieJar())
        async with serve(app, plain, listening), session:
            yield cls(app, URL(listening.url), session)

    @property
    def host(self) -> str:
        return self.url.host or ""

    @property
    def port(self) -> int:
        return self.url.port or 0

    def make_url(self, path: str) -> URL:
        return self.url.join(URL(path)) if path else self.url

    def request(self, method: str, path: str, **sent: Any) -> Any:
        return self.session.request(method, self.make_url(path), **sent)

    def get(self, path: str, **sent: Any) -> Any:
        return self.request("GET", path, **sent)

    def post(self, path: str, **sent: Any) -> Any:
        return self.request("POST", path, **sent)

    def put(self, path: str, **sent: Any) -> Any:
        return self.request("PUT", path, **sent)

    def delete(self, path: str, **sent: Any) -> Any:
        return self.request("DELETE", path, **sent)

    def options(self, path: str, **sent: Any) -> Any:
        return self.request("OPTIONS", path, **sent)


@dataclass(slots=True)
class Node:
    """A running node, and what a test asks of it again and again."""

    client: NodeClient
    context: Context
    database: Database = field(init=False)

    def __post_init__(self) -> None:
        self.database = self.context.database

    @property
    def url(self) -> str:
        return str(self.client.make_url("")).rstrip("/")

    async def send(
        self, method: str, path: str, json: Any = None, *, body: Any = None, **headers: str
    ) -> Answer:
        """Send a request; `_` in the name of a header is a hyphen."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if json is not None:
            body = orjson.dumps(json)
            named.setdefault("Content-Type", "application/json")
        return await self.request(method, path, body=body, headers=named)

    async def request(
        self, method: str, path: str, *, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        response: ClientResponse = await self.client.request(
            method,
            path,
            data=body,
            headers=headers,
            allow_redirects=False,
            skip_auto_headers=["Content-Type"],
        )
        async with response:
            return Answer(
                status=response.status, headers=response.headers, body=await response.read()
            )

    async def get(self, path: str) -> Any:
        """The JSON that a GET answers with."""
        answer = await self.send("GET", path)
        assert answer.status == 200, answer.body
        return answer.json

    async def put(self, path: str, json: Any = None, **headers: str) -> Any:
        """The JSON that a PUT answers with."""
        answer = await self.send("PUT", path, {} if json is None else json, **headers)
        assert answer.status in (200, 201), answer.body
        return answer.json

    async def changes(self) -> list[LoggedChange]:
        """The whole log, once all of it can be read.

        What is logged is held back while an older transaction is open in any database of the
        server, and other tests have some.
        """
        async with asyncio.timeout(20):
            while True:
                async with self.database.acquire() as connection:
                    changes = await read_changes(connection, Position(0, 0), 100_000)
                if len(changes) == await self.logged():
                    return changes
                await asyncio.sleep(0.01)  # between two looks at the log

    async def first_cursor(self) -> str:
        """The feed's cursor before the first change of this node's log."""
        async with self.database.acquire() as connection:
            return await cursor_at(self.context, connection, Position(0, 0))

    async def logged(self) -> int:
        """How many changes were logged, whether they can be read already or not."""
        async with self.database.acquire() as connection:
            return int(await connection.fetchval("SELECT count(*) FROM changes"))

    async def state(self) -> tuple[Any, int]:
        """Everything that a write could have left behind."""
        return await self.get("/export"), await self.logged()


def assert_problem(answer: Answer) -> dict[str, Any]:
    """An error document as core/spec.md, "Error Processing" defines it, and nothing else."""
    assert 400 <= answer.status < 500, answer.body
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert "rel=xregistry-root" in answer.headers.getall("Link")[-1]
    document: dict[str, Any] = answer.json
    assert {*document} <= {"type", "title", "detail", "subject", "args", "violations", "instance"}
    assert document["type"].startswith((SPEC, HTTP, "urn:concord:error:")), document
    assert document["title"]
    assert document.get("subject", "/").startswith("/"), document
    assert all(isinstance(value, str) for value in document.get("args", {}).values()), document
    return document


@contextlib.asynccontextmanager
async def start_node(
    dsn: str,
    *,
    modelsource: dict[str, Any] | None = None,
    routes: Iterable[Route] = (),
    authentication: type[Authentication] = Authentication,
    **settings: Any,
) -> AsyncIterator[Node]:
    """A node on a database of its own, listening on a free port of the loopback address.

    Args:
        routes: what it offers beside the native API and the other dialects.
        authentication: knows the callers.
    """
    model = default_model() if modelsource is None else load_model(modelsource)
    async with Database.open(dsn, node_caller(), modelsource=model.source) as database:
        await ensure_registry(database, "test")
        shared = SharedState(
            database=database.shared,
            configuration=await read_configuration(database.shared),
            settings=Settings(**settings),
            public_base="",
            event_dialects=dialects.event_dialects,
            schema_dialect=dialects.schema_dialect,
        )
        app = create_app(shared, [*dialects.routes, *routes])
        begin = app[BACKGROUND_TASKS].begin
        app[AUTHENTICATION] = authentication(shared.settings, database.shared, begin)
        async with shared.checker, NodeClient.of(app, shared.settings) as client:
            shared.public_base = str(client.make_url("")).rstrip("/")
            yield Node(client, shared.for_node())


def needs_of(app: web.Application) -> dict[str, dict[str, Need]]:
    """The right that each path of an application needs of each method; `*` is any other method."""
    needs: dict[str, dict[str, Need]] = {}
    for route in app[ROUTES]:
        operation = route.operation
        path = operation.template + ("{end}" if operation.has_slashes else "")
        methods = needs.setdefault(path, {})
        methods[operation.method] = operation.needs
        if operation.method == "GET" and operation.has_head:
            methods["HEAD"] = operation.needs
    return needs


@contextlib.asynccontextmanager
async def start_fresh_node(dsn: str) -> AsyncIterator[Node]:
    """A node on a database that the server's own process has begun."""
    async with open_database(Settings(database_url=dsn)):
        pass
    async with start_node(dsn) as node:
        yield node


async def new_database(postgres_url: str, template: str) -> AsyncIterator[str]:
    """Yields one database with nothing in it, and drops it."""
    name = f"{template}_{secrets.token_hex(4)}"
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(copying(template, name))
        yield urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
        await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await connection.close()


@pytest.fixture
async def other_database_url(postgres_url: str, template: str) -> AsyncIterator[str]:
    """A second database, for tests about two catalogs."""
    async for url in new_database(postgres_url, template):
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_database_url(postgres_url: str, template: str) -> AsyncIterator[str]:
    """A database for all tests of a module: for those that write nothing, or clean up."""
    async for url in new_database(postgres_url, template):
        yield url


def fresh_node(**settings: Any) -> Callable[..., Any]:
    """A fixture: a node for each test, started with arguments of `start_node`."""

    @pytest.fixture
    async def node(database_url: str) -> AsyncIterator[Node]:
        async with start_node(database_url, **settings) as running:
            yield running

    return node


def shared_node(**settings: Any) -> Callable[..., Any]:
    """A fixture: a node for all tests of a module, started with arguments of `start_node`."""

    @pytest_asyncio.fixture(scope="module", loop_scope="module")
    async def node(shared_database_url: str) -> AsyncIterator[Node]:
        async with start_node(shared_database_url, **settings) as running:
            yield running

    return node


node = fresh_node()
