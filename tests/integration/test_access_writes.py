"""A caller with roles in some groups writes there, and learns nothing of what it does not see."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from catalog.access.authentication import AUTHENTICATION
from catalog.access.owntokens import make_token
from catalog.roles import Grant, Role
from catalog.store.accessrules import AccessRule, add_rule
from replication.routes import routes
from tests.integration.conftest import Answer, Node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

INSIDE, SEEN, HIDDEN, MISSING = "contoso.in", "seen", "hidden", "missing"
TYPES = ("schemagroups", "messagegroups", "endpoints")
SCHEMA = {"format": "Text/1.0", "versionid": "1"}


@dataclass(slots=True)
class Caller:
    """A client with a token."""

    node: Node
    token: str

    async def send(self, method: str, path: str, json: Any = None, **headers: str) -> Answer:
        return await self.node.send(
            method, path, json, Authorization=f"Bearer {self.token}", **headers
        )


async def restricted(node: Node, *roles: tuple[Role, list[str]]) -> Caller:
    """A caller with these roles at these paths, and no others."""
    async with node.database.transaction() as connection:
        made, token = await make_token(connection, name="", grants=(), expiresat=None)
        for role, paths in roles:
            rule = AccessRule(
                id=secrets.token_hex(4),
                who=f"token={made.id}",
                role=role,
                createdat=datetime.now(UTC),
                createdby="",
            )
            assert await add_rule(connection, rule, paths)
    node.client.app[AUTHENTICATION].rules.forget()
    return Caller(node, token)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, routes=routes, open=False) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(node: Node) -> Caller:
    async with node.database.transaction() as connection:
        grants = (Grant("admin"),)
        _, token = await make_token(connection, name="", grants=grants, expiresat=None)
    return Caller(node, token)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def writer(node: Node, admin: Caller) -> Caller:
    """One that writes `contoso.*`, and sees groups named `seen`."""
    for types in TYPES:
        for name in (INSIDE, SEEN, HIDDEN):
            body = {"name": name} | ({"usage": ["subscriber"]} if types == "endpoints" else {})
            assert (await admin.send("PUT", f"/{types}/{name}", body)).status < 300
    for name in (INSIDE, SEEN, HIDDEN):
        for path, body in (
            (f"/schemagroups/{name}/schemas/s$details", SCHEMA),
            (f"/messagegroups/{name}/messages/m", {"versionid": "1"}),
            (f"/endpoints/{name}/messages/m", {"versionid": "1"}),
        ):
            answer = await admin.send("PUT", path, body)
            assert answer.status < 300, answer.body
    return await restricted(node, ("writer", ["/*/contoso.*"]), ("reader", ["/*/seen"]))


WRITES = [
    ("PUT", "/schemagroups/{}", {"name": "n"}),
    ("PATCH", "/schemagroups/{}", {"name": "n"}),
    ("POST", "/schemagroups/{}", {"schemas": {"s": SCHEMA}}),
    ("DELETE", "/schemagroups/{}", None),
    ("DELETE", "/schemagroups", {"{}": {}}),
    ("POST", "/schemagroups", {"{}": {}}),
    ("PATCH", "/schemagroups", {"{}": {}}),
    ("POST", "/", {"schemagroups": {"{}": {}}}),
    ("POST", "/", {"schemagroups": {"contoso.in": {}, "{}": {"schemas": {"s": SCHEMA}}}}),
    ("PUT", "/schemagroups/{}/schemas/s$details", SCHEMA),
    ("PATCH", "/schemagroups/{}/schemas/s$details", {"name": "n"}),
    ("PUT", "/schemagroups/{}/schemas/s", "text"),
    ("POST", "/schemagroups/{}/schemas/s$details", {"versionid": "2"}),
    ("POST", "/schemagroups/{}/schemas", {"s": SCHEMA}),
    ("DELETE", "/schemagroups/{}/schemas/s", None),
    ("DELETE", "/schemagroups/{}/schemas", {"s": {}}),
    ("PUT", "/schemagroups/{}/schemas/s/meta", {"defaultversionsticky": False}),
    ("PUT", "/schemagroups/{}/schemas/s/versions/2$details", SCHEMA | {"versionid": "2"}),
    ("POST", "/schemagroups/{}/schemas/s/versions", {"2": SCHEMA | {"versionid": "2"}}),
    ("DELETE", "/schemagroups/{}/schemas/s/versions/1", None),
    ("DELETE", "/schemagroups/{}/schemas/s/versions", {"1": {}}),
    ("POST", "/apply", {"schemagroups": {"{}": {"schemas": {"s": SCHEMA}}}}),
    ("POST", "/apply?dryrun", {"schemagroups": {"{}": {}}}),
    ("PUT", "/messagecatalog/{}", {"format": "CloudEvents/1.0"}),
    ("DELETE", "/messagecatalog/{}", None),
    ("DELETE", "/messagecatalog/{}/messagedefinitions", None),
    ("PUT", "/services/{}?import", {"id": "{}", "epoch": 1, "name": "{}", "url": "http://x"}),
    ("DELETE", "/services/{}", None),
    ("POST", "/registry/0.4/schemaGroups", {"id": "{}"}),
    ("PUT", "/registry/0.4/schemaGroups/{}", {"id": "{}"}),
    ("DELETE", "/registry/0.4/schemaGroups/{}", None),
    ("DELETE", "/registry/0.4/schemaGroups", [{"id": "{}"}]),
    ("POST", "/registry/0.4/schemaGroups/{}/schemas?id=z", "text"),
]


def named(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value.replace("{}", name)
    if isinstance(value, dict):
        return {named(k, name): named(v, name) for k, v in value.items()}
    return [named(each, name) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
async def test_a_write_elsewhere_is_refused_and_tells_nothing(
    node: Node, admin: Caller, writer: Caller, method: str, path: str, body: Any
) -> None:
    before = await admin.send("GET", "/export")
    answers = {}
    for name in (HIDDEN, MISSING, SEEN):
        answer = await writer.send(method, named(path, name), named(body, name))
        answers[name] = answer
        # What it sees may be in the way.
        wanted = (403, 404, 409) if name == SEEN else (403, 404)
        assert answer.status in wanted, (name, answer.body)
    hidden, missing = (answers[name] for name in (HIDDEN, MISSING))
    assert hidden.status == missing.status
    assert hidden.body.replace(HIDDEN.encode(), MISSING.encode()) == missing.body
    assert (await admin.send("GET", "/export")).body == before.body
