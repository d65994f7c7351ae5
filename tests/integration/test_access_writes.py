"""A caller with roles in some groups writes there, and learns nothing of what it does not see."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from catalog.access.authentication import AUTHENTICATION
from catalog.access.owntokens import make_token
from catalog.model.roles import Grant, Role
from catalog.store.accessrules import AccessRule, add_rule
from replication.routes import routes
from tests.integration.conftest import Answer, Node, shared_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

INSIDE, SEEN, HIDDEN, MISSING = "contoso.in", "seen", "hidden", "missing"
TYPES = ("schemagroups", "messagegroups", "endpoints")
SCHEMA = {"format": "Text/1.0", "versionid": "1"}
SERVICE = {"name": "hidden service", "protocols": ["HTTP"]}


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


node = shared_node(routes=routes, open=False)


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


async def test_a_writer_of_groups_writes_all_of_them_and_makes_new_ones(
    admin: Caller, writer: Caller
) -> None:
    for method, path, body in (
        ("PUT", "/schemagroups/contoso.new", {"schemas": {"s": SCHEMA}}),
        ("POST", "/", {"messagegroups": {"contoso.new": {"messages": {"m": {}}}}}),
        ("DELETE", "/schemagroups/contoso.new/schemas/s", None),
        ("PUT", "/messagecatalog/contoso.new", {"format": "CloudEvents/1.0"}),
        ("POST", "/registry/0.4/schemaGroups", {"id": "contoso.old"}),
        ("DELETE", "/registry/0.4/schemaGroups/contoso.old", None),
        ("DELETE", "/schemagroups", {"contoso.new": {}}),
        ("POST", "/apply", {"schemagroups": {"contoso.in": {"schemas": {"s": SCHEMA}}}}),
    ):
        answer = await writer.send(method, path, body)
        assert answer.status < 300, (method, path, answer.body)
    # Ids are the same without regard to case, and so are paths.
    answer = await writer.send("PUT", "/schemagroups/CONTOSO.in", {})
    assert (answer.status, answer.error) != (403, "forbidden")
    answer = await writer.send("DELETE", "/messagegroups/contoso.new")
    assert answer.status == 204


async def test_services_are_written_as_other_endpoints_are(node: Node, admin: Caller) -> None:
    mine, hidden, missing = (f"{n}3db6053-e839-417e-8644-e255f338776a" for n in "abc")
    made = await admin.send("PUT", f"/services/{hidden}?import", {"id": hidden, **SERVICE})
    assert made.status == 201, made.body
    writer = await restricted(node, ("writer", ["/endpoints/a3*"]))
    for headers in ({}, {"Prefer": "respond-async"}):
        for method, flag in (("PUT", "?import"), ("PUT", ""), ("DELETE", "")):
            told = set()
            for id in (hidden, missing):
                body = {"id": id, **SERVICE} if method == "PUT" else None
                answer = await writer.send(method, f"/services/{id}{flag}", body, **headers)
                status = answer.headers.get("Location", "").removeprefix(node.url)
                while answer.status == 202:
                    answer = await writer.send("GET", status)
                assert answer.status in (403, 404, 406), answer.body
                told.add(answer.body.replace(id.encode(), b""))
            assert len(told) == 1, told
    # Nor does the name of a hidden service tell of it.
    answer = await writer.send("PUT", f"/services/{mine}?import", {"id": mine, **SERVICE})
    assert answer.status == 201, answer.body
    assert (await writer.send("DELETE", f"/services/{mine}")).status == 200
    assert (await admin.send("DELETE", f"/services/{hidden}")).status == 200


async def test_the_whole_registry_is_for_those_who_may_write_it_all(
    admin: Caller, writer: Caller
) -> None:
    for method, path, body in (
        ("PUT", "/", {"name": "mine"}),
        ("PATCH", "/", {"name": "mine"}),
        ("PATCH", "/", {"schemagroups": {"contoso.in": {}}}),
        ("PATCH", "/", {"capabilities": {"shortself": True}}),
        ("PUT", "/modelsource", {}),
        ("PATCH", "/capabilities", {"shortself": True}),
    ):
        answer = await writer.send(method, path, body)
        assert (answer.status, answer.error) == (403, "forbidden"), (method, path, answer.body)
    assert (await writer.send("POST", "/", {"schemagroups": {}})).status == 200


async def test_a_whole_collection_is_what_the_caller_sees_of_it(
    node: Node, admin: Caller, writer: Caller
) -> None:
    for types, name in (("messagegroups", "contoso.gone"), ("endpoints", "contoso.gone")):
        body = {"usage": ["subscriber"]} if types == "endpoints" else {}
        assert (await admin.send("PUT", f"/{types}/{name}", body)).status == 201
    # It sees one that it may not write.
    answer = await writer.send("DELETE", "/messagegroups")
    assert (answer.status, answer.error) == (403, "forbidden")
    assert "/messagegroups/seen" in answer.json["title"]
    alone = await restricted(node, ("writer", ["/*/contoso.gone"]))
    assert (await alone.send("DELETE", "/messagegroups")).status == 204
    assert (await alone.send("DELETE", "/registry/0.4/endpoints")).status in (200, 204)
    listed = (await admin.send("GET", "/messagegroups")).json
    assert {INSIDE, SEEN, HIDDEN} <= {*listed}
    assert "contoso.gone" not in listed


async def test_no_condition_tells_of_what_is_hidden(admin: Caller, writer: Caller) -> None:
    tag = (await admin.send("GET", f"/schemagroups/{HIDDEN}")).headers["ETag"]
    for headers in ({"If_Match": tag}, {"If_Match": '"0"'}, {"If_None_Match": "*"}):
        bodies = {
            (await writer.send("PUT", f"/schemagroups/{name}", {}, **headers)).body.replace(
                name.encode(), b""
            )
            for name in (HIDDEN, MISSING)
        }
        assert len(bodies) == 1
        assert b"forbidden" in bodies.pop()


async def test_a_reference_to_what_is_hidden_is_one_to_what_is_missing(
    admin: Caller, writer: Caller
) -> None:
    shown = {}
    for name in (HIDDEN, MISSING):
        path = f"/messagegroups/{INSIDE}/messages/ref"
        answer = await writer.send(
            "PUT", f"{path}/meta", {"xref": f"/messagegroups/{name}/messages/m"}
        )
        assert answer.status == 201, answer.body
        read = await writer.send("GET", path)
        # An ordinary message again, whose epoch is above that of its target, if it has one.
        again = await writer.send("PUT", f"{path}/meta", {"xref": None})
        assert again.status == 200, again.body
        told = [answer.json, read.json, again.json, (await writer.send("GET", path)).json]
        shown[name] = [without_times(each, name) for each in told]
        assert (await writer.send("DELETE", path)).status == 204
        # Its next epochs go on from its tombstone, so that they cannot be compared.
        if name == HIDDEN:
            messages = f"/messagegroups/{HIDDEN}/messages/m"
            for _ in range(20):
                assert (await admin.send("PATCH", messages, {"name": "n"})).status == 200
    first, second = shown[HIDDEN], shown[MISSING]
    assert [each.keys() for each in first] == [each.keys() for each in second]
    assert second[-1]["epoch"] - first[-1]["epoch"] < 10


def without_times(shown: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in shown.items() if not key.endswith("at")}


async def test_an_apply_prunes_what_its_client_sees(node: Node, admin: Caller) -> None:
    for name in ("tidy.a", "tidy.b", "untidy"):
        body = {"schemagroups": {name: {"schemas": {"s": SCHEMA, "t": SCHEMA}}}}
        assert (await admin.send("POST", "/apply?set=shared", body)).status == 200
    tidy = await restricted(node, ("writer", ["/schemagroups/tidy.*"]))
    wanted = {"schemagroups": {"tidy.a": {"schemas": {"s": SCHEMA}}}}
    for query in ("?prune&set=shared", "?prune&scope=/"):
        answer = await tidy.send("POST", f"/apply{query}&dryrun", wanted)
        changed = {each["xid"] for each in answer.json["changes"] if each["action"] == "deleted"}
        assert changed == {
            *(f"/schemagroups/tidy.a/schemas/t{below}" for below in ("", "/versions/1")),
            "/schemagroups/tidy.b",
            *(f"/schemagroups/tidy.b/schemas/{s}" for s in "st"),
            *(f"/schemagroups/tidy.b/schemas/{s}/versions/1" for s in "st"),
        }
        assert answer.json["leftalone"] == []
    assert (await tidy.send("POST", "/apply?prune&set=shared", wanted)).status == 200
    # What it does not see is still in the set, so that it can be pruned by who does.
    left = await admin.send("POST", "/apply?prune&set=shared&dryrun", wanted)
    deleted = {each["xid"] for each in left.json["changes"] if each["action"] == "deleted"}
    assert "/schemagroups/untidy" in deleted


async def test_a_replicator_of_groups_pushes_to_these_only(node: Node, admin: Caller) -> None:
    pusher = await restricted(node, ("replicator", ["/*/eu.*", "/schemagroups/shared"]))
    named = {
        "Concord_Authority": "https://eu.example",
        "Concord_Instance": "6f7d1a8e-6f3f-4d0c-9f9b-1f5a8ad0f001",
    }

    async def begins(**definition: Any) -> Answer:
        body = {"mode": "accept", "authority": "https://eu.example", "id": "eu", **definition}
        made = await admin.send("POST", "/replication/links", body)
        assert made.status == 201, made.body
        answer = await pusher.send("POST", "/replication/entities?begin", **named)
        gone = await admin.send("DELETE", "/replication/links/eu")
        assert gone.status < 300, gone.body
        return answer

    for definition in (
        {},
        {"scope": ["/schemagroups"]},
        {"scope": ["/schemagroups/shared", "/schemagroups/other"]},
        {"types": ["schemagroups"]},
        {"prefix": "e"},
        {"prefix": "eu.", "map": {"schemagroups/x": "schemagroups/y"}},
    ):
        refused = await begins(**definition)
        assert (refused.status, refused.error) == (403, "forbidden"), definition
        assert "--scope or --prefix" in refused.json["detail"]
    for definition in (
        {"prefix": "eu."},
        {"prefix": "eu.", "map": {"schemagroups/x": "schemagroups/shared"}},
        {"scope": ["/schemagroups/shared/schemas/s"]},
        {"scope": ["/schemagroups/x"], "map": {"schemagroups/x": "schemagroups/shared"}},
    ):
        answer = await begins(**definition)
        assert answer.status == 200, (definition, answer.body)
    assert (await pusher.send("POST", "/replication/repair", {"origins": []})).status == 403
