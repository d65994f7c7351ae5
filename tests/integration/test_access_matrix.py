"""Every route asks for what the table says, of every role; a route without a line there fails."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import hdrs, web

from catalog.access.owntokens import make_token
from catalog.agents.mcproute import routes as agent_routes
from catalog.model.roles import PERMISSIONS, ROLES, Grant, Permission, Role
from catalog.monitoring.health import routes as monitoring_routes
from catalog.operations.operation import Anyone
from replication.routes import routes as replication_routes
from tests.integration.conftest import Answer, Node, needs_of, start_node

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
CALLERS: tuple[Role | None, ...] = (None, *ROLES)
_REFUSALS = {"unauthenticated", "forbidden"}
_PLACEHOLDER = re.compile(r"{(\w+)}")

# What the table means, in some words of its own: a role, a request, and whether it passes.
LAW: list[tuple[Role | None, str, str, bool]] = [
    (None, "GET", "/", False),
    (None, "GET", "/health/ready", True),
    (None, "GET", "/metrics", False),
    (None, "GET", "/access/whoami", True),
    (None, "OPTIONS", "/endpoints", True),
    ("reader", "GET", "/messagegroups", True),
    ("reader", "GET", "/services", True),
    ("reader", "GET", "/messagecatalog", True),
    ("reader", "GET", "/registry/0.4", True),
    ("reader", "PUT", "/messagegroups/a", False),
    ("reader", "PUT", "/messagecatalog/a", False),
    ("reader", "POST", "/services", False),
    ("reader", "DELETE", "/registry/0.4/messagegroups", False),
    ("reader", "POST", "/apply", False),
    ("reader", "GET", "/subscriptions", False),
    ("reader", "GET", "/replication/snapshot", False),
    ("writer", "PUT", "/messagegroups/a", True),
    ("writer", "PUT", "/modelsource", False),
    ("writer", "PATCH", "/capabilities", False),
    ("writer", "POST", "/replication/entities", False),
    ("writer", "GET", "/access/tokens", False),
    ("replicator", "GET", "/replication/digests", True),
    ("replicator", "POST", "/replication/entities", True),
    ("replicator", "POST", "/subscriptions", True),
    ("replicator", "POST", "/replication/links", False),
    ("replicator", "PUT", "/messagegroups/a", False),
    ("admin", "POST", "/replication/links", True),
    ("admin", "POST", "/access/tokens", True),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    routes = [*monitoring_routes, *replication_routes, *agent_routes]
    # Every test comes from one address, and a fast machine sends more than its share of requests.
    unlimited = {"address_requests_per_second": 0}
    async with start_node(shared_database_url, routes=routes, open=False, **unlimited) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tokens(node: Node) -> dict[Role | None, str]:
    made = {}
    async with node.database.acquire() as connection:
        for role in ROLES:
            grants = (Grant(role),)
            _, made[role] = await make_token(connection, name="", grants=grants, expiresat=None)
    return made


def requests_of(node: Node) -> Iterator[tuple[str, str, web.AbstractResource]]:
    """A request of every method to every path of the routing table."""
    for resource in node.client.app.router.resources():
        path = _PLACEHOLDER.sub(_example, resource.canonical.removesuffix("{end}"))
        yield from ((method, path, resource) for method in METHODS)


def _example(found: re.Match[str]) -> str:
    return {"path": "messagegroups/x", "below": "", "groups": "messagegroups"}.get(found[1], "1")


async def send(node: Node, method: str, path: str, token: str | None) -> Answer:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    # A stream of events has no end, and does not begin at what is no position.
    path = f"{path}?from=nowhere" if path == "/-/events" else path
    return await node.send(method, path, None if method in ("GET", "HEAD") else {}, **headers)


def is_refused(answer: Answer) -> bool:
    if not answer.body or answer.status not in (401, 403):
        return answer.status in (401, 403)
    # The Confluent API has errors of its own form.
    return "error_code" in answer.json or answer.error in _REFUSALS


def test_every_path_says_what_each_method_needs(node: Node) -> None:
    needs = needs_of(node.client.app)
    assert {each.canonical for each in node.client.app.router.resources()} == {*needs}
    assert all("*" in methods for methods in needs.values())


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("role", CALLERS)
async def test_a_role_passes_exactly_where_the_table_says(
    node: Node, tokens: dict[Role | None, str], role: Role | None
) -> None:
    permitted = frozenset[Permission]() if role is None else PERMISSIONS[role]
    needs, wrong = needs_of(node.client.app), []
    for method, path, resource in requests_of(node):
        need = needs[resource.canonical].get(method, needs[resource.canonical]["*"])
        passes = method == hdrs.METH_OPTIONS or isinstance(need, Anyone) or need in permitted
        answer = await send(node, method, path, tokens.get(role))
        if is_refused(answer) is passes:
            wrong.append((method, path, answer.status))
        if not passes:
            assert answer.status == (401 if role is None else 403)
            assert answer.headers["WWW-Authenticate"].startswith("Bearer realm=")
    assert wrong == []


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("role", "method", "path", "passes"), LAW)
async def test_a_role_may_do_what_it_is_for(
    node: Node,
    tokens: dict[Role | None, str],
    role: Role | None,
    method: str,
    path: str,
    passes: bool,
) -> None:
    answer = await send(node, method, path, tokens.get(role))

    assert is_refused(answer) is not passes, answer


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("role", [None, "reader"])
async def test_nothing_changes_by_whatever_a_reader_sends(
    node: Node, tokens: dict[Role | None, str], role: Role | None
) -> None:
    before = await everything(node, tokens)
    for method, path, _ in requests_of(node):
        await send(node, method, path, tokens.get(role))

    assert await everything(node, tokens) == before


async def everything(node: Node, tokens: dict[Role | None, str]) -> list[Any]:
    """All that clients can change, but for the time at which a token was used."""
    paths = ("/export", "/modelsource", "/subscriptions", "/replication/links")
    others = ("/capabilities", "/replication/trust")
    found = [(await send(node, "GET", p, tokens["admin"])).json for p in (*paths, *others)]
    listed = (await send(node, "GET", "/access/tokens", tokens["admin"])).json["tokens"]
    return [*found, await node.logged(), [each["id"] for each in listed]]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_configuration_within_the_registry_is_an_admins(
    node: Node, tokens: dict[Role | None, str]
) -> None:
    async def patch(role: Role, body: Any) -> Answer:
        return await node.send("PATCH", "/", body, Authorization=f"Bearer {tokens[role]}")

    body = {"name": "n", "capabilities": {"shortself": True}}
    refused = await patch("writer", body)
    assert (refused.status, refused.error) == (403, "forbidden")
    assert (await patch("writer", {"name": "n"})).status == 200
    assert (await patch("admin", body)).status == 200
    # What is in force already is no change: a registry that was read can be written back.
    assert (await patch("writer", body)).status == 200
