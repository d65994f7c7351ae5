"""What a restricted client is answered: as if the catalog had never held what is hidden."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import combinations
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.typedefs import Handler

from catalog.model.visibility import Visibility, visibility
from catalog.store.accessrules import AccessRule, add_rule
from replication.routes import routes
from tests.integration.conftest import Node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUPS = (
    "/endpoints/orders",
    "/endpoints/stock",
    "/messagegroups/orders",
    "/messagegroups/stock",
    "/schemagroups/orders",
    "/schemagroups/stock",
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = "https://catalog.example"
_HELD = ("entities", "documents", "tombstones", "changes")
# What differs between two answers of one node, too.
_PASSING = frozenset({"Date", "Concord-Cursor", "Content-Length"})


@web.middleware
async def restrict(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Restrict a request to what the rule shows that its header names."""
    rule = request.headers.get("X-Rule")
    visibility.set(None if rule is None else Visibility((rule,)))
    return await handler(request)


async def fill(node: Node) -> None:
    """Groups of all types, some of which refer to others; versions, documents, tombstones."""
    document = {"type": "object", "properties": {"id": {"type": "string"}}}
    for name in ("orders", "stock"):
        await node.put(f"/schemagroups/{name}", {"labels": {"team": name}})
        schema = f"/schemagroups/{name}/schemas/item"
        for version in ("1", "2"):
            await node.put(
                f"{schema}/versions/{version}$details",
                {"format": "JsonSchema/draft-07", "schema": document, "name": f"{name} {version}"},
            )
        await node.put(f"/messagegroups/{name}", {"name": name, "labels": {"team": name}})
        for message in ("created", "deleted", "gone"):
            await node.put(
                f"/messagegroups/{name}/messages/{message}",
                {
                    "envelope": "CloudEvents/1.0",
                    "envelopemetadata": {"type": {"value": f"com.{name}.{message}"}},
                    "dataschemaxid": schema,
                    "labels": {"team": name},
                },
            )
        await node.send("DELETE", f"/messagegroups/{name}/messages/gone")
        await node.put(
            f"/endpoints/{name}",
            {
                "name": name,
                "usage": ["subscriber"],
                "envelope": "CloudEvents/1.0",
                "messagegroups": [f"/messagegroups/{name}"],
            },
        )
    for here, there in (("orders", "stock"), ("stock", "orders")):
        await node.put(
            f"/endpoints/{here}/messages/borrowed/meta",
            {"xref": f"/messagegroups/{there}/messages/created"},
        )
    await node.put("/messagegroups/away", {})
    await node.send("DELETE", "/messagegroups/away")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def base(shared_database_url: str) -> str:
    """A database that holds everything, which nobody is connected to."""
    async with start_node(shared_database_url, routes=routes, public_url=AUTHORITY) as node:
        await fill(node)
    return shared_database_url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clones(base: str, postgres_url: str) -> AsyncIterator[Any]:
    """A function that copies the database, without what is hidden."""
    server, made = await asyncpg.connect(postgres_url), []

    async def clone(hidden: tuple[str, ...]) -> str:
        name = f"visible_{secrets.token_hex(4)}"
        template = urlsplit(base).path[1:]
        await server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        made.append(name)
        url = urlsplit(base)._replace(path=f"/{name}").geturl()
        connection = await asyncpg.connect(url)
        for relation in _HELD:
            for group in hidden:
                statement = f"DELETE FROM {relation} WHERE xid = $1 OR starts_with(xid, $1 || '/')"
                await connection.execute(statement, group)
        await connection.close()
        return url

    yield clone
    for name in made:
        await server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    await server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole(clones: Any) -> AsyncIterator[Node]:
    """A node that holds everything, and restricts who sends `X-Rule`."""
    url = await clones(())
    async with start_node(url, routes=routes, middlewares=[restrict], public_url=AUTHORITY) as node:
        yield node


def paths() -> list[str]:
    """Reads of every kind: of all collections and entities, with all flags, in all dialects."""
    flags = (
        "",
        "?inline=*",
        "?inline=*&doc",
        "?filter=labels.team=orders",
        "?filter=name=stock&inline=*",
        "?filter=messages.labels.team=stock&inline=messages",
        "?sort=name=desc&limit=1",
        "?limit=1",
    )
    collections = ("endpoints", "messagegroups", "schemagroups")
    found = [f"/{each}{flag}" for each in collections for flag in flags]
    found += [f"/{flag}" for flag in ("", "?inline=*", "?inline=endpoints.messages", "?doc")]
    found += [f"{group}{flag}" for group in GROUPS for flag in ("", "?inline=*", "?doc&inline=*")]
    for name in ("orders", "stock"):
        for each in (
            f"/endpoints/{name}/messages",
            f"/endpoints/{name}/messages/borrowed",
            f"/endpoints/{name}/messages/borrowed/meta",
            f"/endpoints/{name}/messages/borrowed/versions",
            f"/messagegroups/{name}/messages/created",
            f"/messagegroups/{name}/messages/gone",
            f"/messagegroups/{name}/messages?filter=envelope=CloudEvents/1.0",
            f"/schemagroups/{name}/schemas/item",
            f"/schemagroups/{name}/schemas/item/versions?filter=name={name} 2",
            f"/schemagroups/{name}/schemas/item$details?inline=versions",
            f"/messagecatalog/{name}",
            f"/messagecatalog/{name}/messagedefinitions",
            f"/registry04/schemagroups/{name}/schemas/item",
            f"/services/{name}",
        ):
            found.append(each)
    found += ["/export", "/messagecatalog", "/services", "/services?name=stock", "/registry04"]
    found += [f"/replication/digests?format={form}" for form in ("json", "csv", "authorities")]
    return [*found, "/replication/snapshot", "/replication/digests?bits=8"]


async def answer_of(node: Node, path: str, **headers: str) -> tuple[int, Any, bytes]:
    answer = await node.send("GET", path, **headers)
    shown = {name: value for name, value in answer.headers.items() if name not in _PASSING}
    body = answer.body
    if path.startswith("/replication/snapshot"):
        body = b"\n".join(answer.body.splitlines()[:-1])  # the last line is a cursor
        del shown["Etag"]
    return answer.status, shown, body


@pytest.mark.parametrize(
    "seen", [(), *combinations(GROUPS, 1), *[*combinations(GROUPS, 3)][::4], GROUPS]
)
async def test_what_is_hidden_does_not_exist(
    whole: Node, clones: Any, seen: tuple[str, ...]
) -> None:
    rule = AccessRule(
        id=secrets.token_hex(4), who="anonymous", role="reader", createdat=NOW, createdby=""
    )
    async with whole.context.database.transaction() as connection:
        assert await add_rule(connection, rule, seen)
    hidden = tuple(group for group in (*GROUPS, "/messagegroups/away") if group not in seen)
    async with start_node(await clones(hidden), routes=routes, public_url=AUTHORITY) as alone:
        for path in paths():
            expected = await answer_of(alone, path)
            assert await answer_of(whole, path, X_Rule=rule.id) == expected, path
