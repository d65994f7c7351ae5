"""Roles in groups hold on every route: in the groups, where groups are seen only, and elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import hdrs

from catalog.access.authentication import AUTHENTICATION
from catalog.access.owntokens import make_token
from catalog.agents.mcproute import routes as agent_routes
from catalog.model.roles import PATH_PERMISSIONS, ROLES, Grant, Permission, Role
from catalog.model.xid import short_path
from catalog.monitoring.health import routes as monitoring_routes
from catalog.operations.operation import Anyone
from replication.routes import routes as replication_routes
from tests.integration.conftest import Answer, Node, needs_of, start_node
from tests.integration.test_access_matrix import METHODS, is_refused, requests_of, send

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Ids of services are UUIDs, so all groups here have such names.
INSIDE, SEEN, HIDDEN, MISSING = (f"{n}3db6053-e839-417e-8644-e255f338776a" for n in "abcd")
_MESSAGE = "/validate/{0}/{{}}/messages/m"
_DEFINITION = "/messagecatalog/{}/messagedefinitions/m"
_GROUP04 = "/registry/0.4/schemaGroups/{}"
_SCHEMA04 = f"{_GROUP04}/schemas/s"

# Requests by the routes whose path names a group, or what is in one.
OF_GROUPS: dict[str, list[str]] = {
    "/{path}": [
        "/schemagroups/{}",
        "/schemagroups/{}/schemas",
        "/schemagroups/{}/schemas/s",
        "/schemagroups/{}/schemas/s$details",
        "/schemagroups/{}/schemas/s/meta",
        "/schemagroups/{}/schemas/s/versions",
        "/schemagroups/{}/schemas/s/versions/1",
        "/endpoints/{}/messages/m",
        "/messagegroups/{}?inline=*",
    ],
    "/~{key}{below}": ["{key}", "{key}/schemas/s"],
    "/validate/messagegroups/{messagegroupid}/messages/{messageid}": [
        _MESSAGE.format("messagegroups")
    ],
    "/validate/messagegroups/{messagegroupid}/messages/{messageid}/versions/{versionid}": [
        _MESSAGE.format("messagegroups") + "/versions/1"
    ],
    "/validate/endpoints/{endpointid}/messages/{messageid}": [_MESSAGE.format("endpoints")],
    "/validate/endpoints/{endpointid}/messages/{messageid}/versions/{versionid}": [
        _MESSAGE.format("endpoints") + "/versions/1"
    ],
    "/services/{id}": ["/services/{}"],
    "/messagecatalog/{group}": ["/messagecatalog/{}"],
    "/messagecatalog/{group}/messagedefinitions": ["/messagecatalog/{}/messagedefinitions"],
    "/messagecatalog/{group}/messagedefinitions/": ["/messagecatalog/{}/messagedefinitions/"],
    "/messagecatalog/{group}/messagedefinitions/{definition}": [_DEFINITION],
    "/messagecatalog/{group}/messagedefinitions/{definition}/versions": [f"{_DEFINITION}/versions"],
    "/messagecatalog/{group}/messagedefinitions/{definition}/versions/{version}": [
        f"{_DEFINITION}/versions/1"
    ],
    "/registry/0.4/{groups}/{gid}": [_GROUP04],
    "/registry/0.4/{groups}/{gid}/{resources}": [f"{_GROUP04}/schemas"],
    "/registry/0.4/{groups}/{gid}/{resources}/{rid}": [_SCHEMA04],
    "/registry/0.4/{groups}/{gid}/{resources}/{rid}/versions": [f"{_SCHEMA04}/versions"],
    "/registry/0.4/{groups}/{gid}/{resources}/{rid}/versions/{vid}": [f"{_SCHEMA04}/versions/1"],
}
# Routes whose path names no group. Where their answers show or take entities, the tests of
# visibility and of writes have them: another one belongs there, too.
OF_THE_CATALOG = frozenset(
    {
        *("/model", "/modelsource", "/capabilities", "/capabilitiesoffered", "/export", "/apply"),
        *("/.well-known/xregistry", "/.xregistry", "/openapi.json", "/metrics"),
        *("/services", "/services/requests/{id}", "/messagecatalog", "/messagecatalog/"),
        *("/messagedefinition", "/registry/0.4", "/registry/0.4/", "/registry/0.4/{groups}"),
        *(
            "/notifications",
            "/health/live",
            "/health/ready",
            "/audit",
            "/-/search",
            "/-/references",
            "/-/diff",
            "/-/counts",
            "/-/settings",
            "/-/doctor",
            *("/-/changes", "/-/changes/{sequence}", "/-/revisions", "/-/revisions/{epoch}"),
            "/mcp",
            "/-/events",
            "/validate",
            "/-/authorities",
            "/-/federation",
            "/-/freshness",
        ),
    }
)


def is_of_the_catalog(path: str) -> bool:
    # A context that is hidden or missing is one without subjects to the Confluent API.
    roots = ("/subscriptions", "/replication", "/access", "/confluent")
    return path in OF_THE_CATALOG or path.startswith(roots)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    routes = [*monitoring_routes, *replication_routes, *agent_routes]
    async with start_node(shared_database_url, routes=routes, open=False) as running:
        admin = await token(running, Grant("admin"))
        for name in (INSIDE, SEEN, HIDDEN):
            await fill(running, admin, name)
        yield running


async def token(node: Node, *grants: Grant) -> str:
    async with node.database.transaction() as connection:
        _, text = await make_token(connection, name="", grants=grants, expiresat=None)
    node.client.app[AUTHENTICATION].rules.forget()
    return text


async def fill(node: Node, admin: str, name: str) -> None:
    """A group of each type, with something in it."""
    content = {
        "schemagroups": {"schemas": {"s": {"versionid": "1", "format": "Text/1.0"}}},
        "messagegroups": {"messages": {"m": {"versionid": "1"}}},
        "endpoints": {"messages": {"m": {"versionid": "1"}}, "usage": ["subscriber"]},
    }
    body = {types: {name: {"name": name, **group}} for types, group in content.items()}
    answer = await node.send("POST", "/", body, Authorization=f"Bearer {admin}")
    assert answer.status == 200, answer.body


async def limited(node: Node, role: Role) -> str:
    """The token of a caller with a role in some groups, who sees others."""
    return await token(node, Grant(role, "/*/a3*"), Grant("reader", f"/*/{SEEN}"))


def requests_at(name: str) -> Iterator[tuple[str, str]]:
    """Every request that names a group, or what is in it."""
    for templates in OF_GROUPS.values():
        for template in templates:
            key = short_path(f"/schemagroups/{name}")
            path = template.replace("{key}", key).replace("{}", name)
            yield from ((method, path) for method in METHODS if method != hdrs.METH_OPTIONS)


async def export(node: Node, admin: str) -> Any:
    return (await send(node, "GET", "/export", admin)).json


def told(answer: Answer, name: str) -> tuple[int, bytes]:
    """The content of an answer, but for the names that the request has told itself."""
    body = answer.body.replace(name.encode(), b"NAME")
    return answer.status, body.replace(short_path(f"/schemagroups/{name}").encode(), b"KEY")


async def test_every_route_is_known_to_concern_groups_or_not(node: Node) -> None:
    routes = {each.canonical for each in node.client.app.router.resources()}
    assert OF_GROUPS.keys() | {path for path in routes if is_of_the_catalog(path)} == routes
    assert not any(map(is_of_the_catalog, OF_GROUPS))


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_in_groups_passes_where_it_can_matter_at_all(node: Node, role: Role) -> None:
    caller, wrong = await limited(node, role), []
    permitted = PATH_PERMISSIONS[role] | PATH_PERMISSIONS["reader"]
    needs = needs_of(node.client.app)
    for method, path, resource in requests_of(node):
        if not is_of_the_catalog(resource.canonical):
            continue
        need = needs[resource.canonical].get(method, needs[resource.canonical]["*"])
        passes = method == hdrs.METH_OPTIONS or isinstance(need, Anyone) or need in permitted
        answer = await send(node, method, path, caller)
        # The configuration, and what is in no group, is refused by the handler.
        is_refusal = is_refused(answer) and "at /" not in answer.body.decode()
        if is_refusal is passes:
            wrong.append((method, path, answer.status))
    assert wrong == []


@pytest.mark.parametrize("role", ROLES)
async def test_no_route_tells_of_a_hidden_group_or_writes_elsewhere(node: Node, role: Role) -> None:
    admin, caller = await token(node, Grant("admin")), await limited(node, role)
    before = await export(node, admin)
    for (method, hidden), (_, missing) in zip(
        requests_at(HIDDEN), requests_at(MISSING), strict=True
    ):
        answers = [await send(node, method, path, caller) for path in (hidden, missing)]
        assert told(answers[0], HIDDEN) == told(answers[1], MISSING), (method, hidden)
        assert method not in ("GET", "HEAD") or answers[0].status in (404, 405), hidden
    for method, path in requests_at(SEEN):
        answer = await send(node, method, path, caller)
        writes = method not in ("GET", "HEAD") and not path.startswith(("/validate", "/~"))
        assert not writes or answer.status >= 400, (method, path, answer.body)
    assert await export(node, admin) == before


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_in_groups_does_there_what_it_permits(node: Node, role: Role) -> None:
    admin, caller = await token(node, Grant("admin")), await limited(node, role)
    may_write = Permission.WRITE in PATH_PERMISSIONS[role]
    for method, path in requests_at(INSIDE):
        answer = await send(node, method, path, caller)
        writes = method not in ("GET", "HEAD") and not path.startswith(("/validate", "/~"))
        # Who may read a path is told which methods it has.
        is_expected = writes and not may_write and answer.status != 405
        assert is_refused(answer) is is_expected, (method, path, answer.body)
        if method == "DELETE":
            await fill(node, admin, INSIDE)
