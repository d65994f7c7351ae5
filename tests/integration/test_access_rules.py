"""Rules give roles in groups: managed by admins, and by admins of groups within these."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.access.authentication import AUTHENTICATION
from catalog.access.owntokens import make_token
from catalog.audit.audittrail import note_refused
from catalog.model.roles import PATH_PERMISSIONS, ROLES, Grant, Permission, covers
from catalog.operations.access import MOST_PATHS, MOST_WILD_PATHS
from catalog.store.accessrules import (
    MOST_RULES,
    MOST_RULES_OF_OWNER,
    MOST_RULES_OF_OWNERS,
)
from tests.integration.conftest import Answer, Node, shared_node
from tests.integration.test_openapi_subscriptions import DescribedApi

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The schemas of answers about access and the audit.
ANSWERS = {
    "Whoami",
    "Token",
    "Tokens",
    "GrantingRule",
    "GrantingRules",
    "AuditEntry",
    "AuditEntries",
}
RULES = "/access/rules"
READER = {"who": "anonymous", "role": "reader", "paths": ["/schemagroups/contoso.a"]}

node = shared_node(open=False, page_size=3)


@pytest_asyncio.fixture(loop_scope="module")
async def admin(node: Node) -> AsyncIterator[str]:
    """The token of an admin, who leaves no rules behind."""
    admin = await token(node, Grant("admin"))
    yield admin
    async with node.database.transaction() as connection:
        await connection.execute("DELETE FROM access_rules")
        await connection.execute("UPDATE node SET access_revision = access_revision + 1")
    node.client.app[AUTHENTICATION].rules.forget()


async def token(node: Node, *grants: Grant) -> str:
    async with node.database.transaction() as connection:
        _, text = await make_token(connection, name="", grants=grants, expiresat=None)
    node.client.app[AUTHENTICATION].rules.forget()
    return text


async def send(node: Node, token: str, method: str, path: str, json: Any = None) -> Answer:
    return await node.send(method, path, json, Authorization=f"Bearer {token}")


async def make(node: Node, token: str, **rule: Any) -> dict[str, Any]:
    answer = await send(node, token, "POST", RULES, READER | rule)
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


async def test_a_rule_lives_from_its_making_to_its_end(node: Node, admin: str) -> None:
    assert (await send(node, admin, "PUT", "/schemagroups/contoso.a", {})).status < 300
    assert (await node.send("GET", "/schemagroups/contoso.a")).status == 401
    made = await make(node, admin, paths=["/schemagroups/Contoso.A", "/schemagroups/contoso.a"])
    assert made["paths"] == ["/schemagroups/contoso.a"]
    assert made["createdby"].startswith("token ")
    # At once in the process that keeps it.
    assert (await node.send("GET", "/schemagroups/contoso.a")).status == 200
    one = f"{RULES}/{made['id']}"
    assert (await send(node, admin, "GET", one)).json == made
    changed = await send(node, admin, "PATCH", one, {"paths": ["/schemagroups/contoso.b"]})
    assert changed.json == made | {"paths": ["/schemagroups/contoso.b"]}
    assert (await node.send("GET", "/schemagroups/contoso.a")).status == 404
    whole = READER | {"paths": ["/schemagroups/*"], "role": "writer"}
    replaced = await send(node, admin, "PATCH", one, whole)
    assert replaced.json == made | whole
    assert (await node.send("PUT", "/schemagroups/contoso.c", {})).status == 201
    assert (await send(node, admin, "DELETE", one)).status == 204
    for method in ("GET", "DELETE"):
        assert (await send(node, admin, method, one)).status == 404
    assert (await send(node, admin, "PATCH", one, {})).status == 404
    assert (await node.send("GET", "/schemagroups/contoso.a")).status == 401


@pytest.mark.parametrize(
    ("change", "error", "told"),
    [
        ({"who": ""}, "invalid_attribute", "who"),
        ({"paths": []}, "invalid_attribute", "paths"),
        ({"role": "owner"}, "invalid_attribute", "reader"),
        ({"role": ["admin"]}, "invalid_attribute", "reader"),
        ({"who": "groups=editors"}, "invalid_attribute", "iss=ISSUER"),
        ({"who": "iss=*&sub=me"}, "invalid_attribute", "issuer"),
        ({"who": "token=*"}, "invalid_attribute", "token"),
        ({"who": "token=0123456789"}, "invalid_attribute", "concord token list"),
        ({"who": "anonymous&token=x"}, "invalid_attribute", "must be"),
        ({"who": "o=x" * 400}, "invalid_attribute", "1024 characters"),
        ({"who": "&".join(f"o={n}" for n in range(17))}, "invalid_attribute", "must be"),
        ({"who": 7}, "invalid_attribute", "string"),
        ({"paths": ["/"]}, "invalid_attribute", "/*/*"),
        ({"paths": "/a/b"}, "invalid_attribute", "tuple"),
        ({"paths": ["/schemagroups"]}, "invalid_attribute", "/GROUPTYPE/GROUPID"),
        ({"paths": ["/schemagroups/a/schemas/s"]}, "invalid_attribute", "/GROUPTYPE/GROUPID"),
        ({"paths": ["/schemagroups/a%"]}, "invalid_attribute", "/GROUPTYPE/GROUPID"),
        ({"paths": ["/schemagroups/[a]"]}, "invalid_attribute", "/GROUPTYPE/GROUPID"),
        ({"paths": ["/schemagroups/\u0130"]}, "invalid_attribute", "/GROUPTYPE/GROUPID"),
        ({"paths": [f"/s/{'*a' * 9}"]}, "invalid_attribute", "8 wildcards"),
        ({"paths": [f"/s/{'a' * 129}"]}, "invalid_attribute", "/GROUPTYPE/GROUPID"),
        ({"paths": [f"/s/{n}*" for n in range(MOST_WILD_PATHS + 1)]}, "invalid_attribute", "100"),
        ({"paths": [f"/s/{n}" for n in range(MOST_PATHS + 1)]}, "invalid_attribute", "10000"),
        ({"path": "/"}, "unknown_attribute", "path"),
    ],
)
async def test_a_rule_that_is_asked_for_wrongly_is_refused(
    node: Node, admin: str, change: dict[str, Any], error: str, told: str
) -> None:
    kept = await make(node, admin)
    for method, path in (("POST", RULES), ("PATCH", f"{RULES}/{kept['id']}")):
        answer = await send(node, admin, method, path, READER | change)
        assert (answer.status, answer.error) == (400, error), answer.body
        assert told in answer.body.decode()
    assert (await send(node, admin, "GET", RULES)).json["rules"] == [kept]


async def test_rules_are_bounded_and_come_in_pages(node: Node, admin: str) -> None:
    most = [f"/s/{n}" for n in range(MOST_PATHS)]
    large = await make(node, admin, paths=most)
    assert large["pathscount"] == MOST_PATHS
    shown = (await node.send("GET", "/access/whoami")).json
    assert (len(shown["grants"]), shown["more"]) == (1000, True)
    ids = {large["id"], *[(await make(node, admin))["id"] for _ in range(6)]}
    found, path = [], f"{RULES}?limit=2"
    while path:
        answer = await send(node, admin, "GET", path)
        assert len(answer.json["rules"]) <= 2
        found += answer.json["rules"]
        links = [each for each in answer.headers.getall("Link") if "rel=next" in each]
        path = links[0].partition(">")[0].removeprefix(f"<{node.url}") if links else ""
    assert [each["id"] for each in found] == sorted(ids)
    [listed] = [each for each in found if each["id"] == large["id"]]
    assert (len(listed["paths"]), listed["pathscount"]) == (10, MOST_PATHS)
    async with node.database.transaction() as connection:
        await connection.execute(
            "INSERT INTO access_rules SELECT 'x' || n, 'anonymous', 'reader', now(), '' "
            "FROM generate_series(1, $1) n",
            MOST_RULES - 7,
        )
    answer = await send(node, admin, "POST", RULES, READER)
    assert (answer.status, answer.error) == (409, "limit_reached")


async def test_admins_of_groups_have_shares_of_the_rules(node: Node, admin: str) -> None:
    contoso = await token(node, Grant("admin", "/schemagroups/contoso.*"))
    fabrikam = await token(node, Grant("admin", "/schemagroups/fabrikam.*"))
    made = await make(node, contoso)

    async def fill(count: int, by: str) -> None:
        async with node.database.transaction() as connection:
            await connection.execute(
                "INSERT INTO access_rules SELECT $2 || n, 'anonymous', 'reader', now(), $2 "
                "FROM generate_series(1, $1) n",
                *(count, by),
            )

    await fill(MOST_RULES_OF_OWNER - 1, made["createdby"])
    answer = await send(node, contoso, "POST", RULES, READER)
    assert (answer.status, answer.error) == (409, "limit_reached")
    assert "1000 rules of one admin of groups" in answer.json["title"]
    assert (await send(node, contoso, "PATCH", f"{RULES}/{made['id']}", {})).status == 200
    await make(node, fabrikam, paths=["/schemagroups/fabrikam.a"])
    await fill(MOST_RULES_OF_OWNERS - MOST_RULES_OF_OWNER, "others")
    answer = await send(
        node, fabrikam, "POST", RULES, READER | {"paths": ["/schemagroups/fabrikam.b"]}
    )
    assert (answer.status, answer.error) == (409, "limit_reached")
    await make(node, admin)


async def test_an_admin_of_groups_manages_the_rules_of_these(node: Node, admin: str) -> None:
    contoso = await token(node, Grant("admin", "/schemagroups/contoso.*"))
    own = await make(node, contoso)
    elsewhere = await make(node, admin, paths=["/schemagroups/contoso.a", "/schemagroups/other"])
    above = await make(node, admin, paths=["/*/contoso.*"])
    copies = await make(node, admin, role="replicator")
    listed = (await send(node, contoso, "GET", RULES)).json["rules"]
    ids = {each["id"] for each in listed}
    assert {own["id"], copies["id"]} < ids
    assert not {elsewhere["id"], above["id"]} & ids
    for hidden in (elsewhere["id"], above["id"], "missing"):
        for method, body in (("GET", None), ("PATCH", READER), ("PATCH", {}), ("DELETE", None)):
            answer = await send(node, contoso, method, f"{RULES}/{hidden}", body)
            assert (answer.status, answer.error) == (404, "not_found")
    one = f"{RULES}/{own['id']}"
    for change in (
        {"paths": ["/schemagroups/other"]},
        {"paths": ["/schemagroups/*"]},
        {"paths": ["/*/contoso.*"]},
        {"paths": ["/schemagroups/contoso*"]},
        {"paths": ["/schemagroups/contoso.a", "/messagegroups/contoso.a"]},
        {"role": "replicator"},
    ):
        for method, path in (("POST", RULES), ("PATCH", one)):
            answer = await send(node, contoso, method, path, READER | change)
            assert (answer.status, answer.error) == (403, "forbidden"), change
        assert (await send(node, contoso, "PATCH", one, change)).status == 403
    # What it could not grant, it may take back.
    assert (await send(node, contoso, "PATCH", f"{RULES}/{copies['id']}", {})).status == 403
    assert (await send(node, contoso, "DELETE", f"{RULES}/{copies['id']}")).status == 204
    # Who may grant there in turn may as well.
    for role in ("admin", "writer", "reader"):
        await make(node, contoso, role=role, paths=["/schemagroups/contoso.*.*"])
    for path in ("/access/tokens", "/access/tokens/x"):
        for method in ("GET", "POST", "DELETE"):
            assert (await send(node, contoso, method, path, {})).status in (403, 405)
    for other in ("writer", "reader", "replicator"):
        role: Any = other
        assert (await send(node, await token(node, Grant(role)), "GET", RULES)).status == 403


PARTS = ["*", "a", "b", "ab", "a*", "*b", "a*b", "*a*", "**"]
PATHS = st.builds(lambda plural, id: f"/{plural}/{id}", *[st.sampled_from(PARTS)] * 2)
GROUPS = [f"/{plural}/{id}" for plural in ("a", "b", "ab", "ba") for id in ("a", "b", "ab", "aab")]


@given(
    own=st.lists(st.tuples(st.sampled_from(ROLES), PATHS), min_size=1, max_size=3),
    tries=st.lists(
        st.tuples(
            st.sampled_from(["POST", "PATCH"]),
            st.sampled_from(ROLES),
            st.lists(PATHS, min_size=1, max_size=2),
        ),
        min_size=1,
        max_size=6,
    ),
)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def escalating(own: list[Any], tries: list[Any], *, run: Any) -> None:
    run(own, tries)


async def test_no_grants_of_an_owner_ever_give_anybody_more_than_it_has(
    node: Node, admin: str
) -> None:
    loop = asyncio.get_running_loop()

    async def attempt(own: list[Any], tries: list[Any]) -> None:
        owner = await token(node, *(Grant(role, path) for role, path in own))
        kept, made = await stored(node), []
        for method, role, paths in tries:
            body = {"who": "anonymous", "role": role, "paths": paths}
            path = f"{RULES}/{made[-1]}" if method != "POST" and made else RULES
            method = "POST" if path == RULES else method
            answer = await send(node, owner, method, path, body)
            assert answer.status in (200, 201, 403), answer.body
            if answer.status == 201:
                made.append(answer.json["id"])
        may = {each for role, path in own for each in reached(role, [path])}
        for rule, role, path in await stored(node) - kept:
            assert rule in made
            assert reached(role, [path]) <= may, (own, tries, role, path)

    def run(own: list[Any], tries: list[Any]) -> None:
        asyncio.run_coroutine_threadsafe(attempt(own, tries), loop).result(60)

    await asyncio.to_thread(escalating, run=run)


def reached(role: Any, paths: list[str]) -> set[tuple[Permission, str]]:
    """The permissions of a role at some paths: of a number of groups, which of them."""
    groups = [group for group in GROUPS if any(covers(path, group) for path in paths)]
    return {(permission, group) for permission in PATH_PERMISSIONS[role] for group in groups}


async def stored(node: Node) -> set[tuple[str, str, str]]:
    async with node.database.acquire() as connection:
        rows = await connection.fetch(
            "SELECT id, role, path FROM access_rules JOIN access_paths ON rule = id"
        )
    return {(row["id"], row["role"], row["path"]) for row in rows}


async def test_every_answer_about_access_fits_its_description(node: Node, admin: str) -> None:
    answer = await send(node, admin, "GET", "/openapi.json")
    description = answer.json
    for name, schema in description["components"]["schemas"].items():
        if name in ANSWERS:
            schema["additionalProperties"] = False
    api = DescribedApi(node, description)
    headers = {"Authorization": f"Bearer {admin}"}
    one = f"{RULES}/{{id}}"
    await api.done("GET", "/access/whoami", headers=headers)
    made = await api.done("POST", RULES, READER, headers=headers)
    await api.done("GET", one, id=made["id"], headers=headers)
    await api.done("GET", RULES, headers=headers, query="?limit=1")
    await api.done("PATCH", one, {"role": "reader"}, id=made["id"], headers=headers)
    shown = await api.done("GET", "/access/whoami")
    assert shown["grants"] == [{"role": "reader", "path": "/schemagroups/contoso.a"}]
    grants = [{"role": "reader"}, {"role": "admin", "path": "/schemagroups/contoso.*"}]
    body = {"name": "n", "grants": grants, "expiresat": "2999-01-01T00:00:00Z"}
    new = await api.done("POST", "/access/tokens", body, headers=headers)
    assert new["grants"][1] == {"role": "admin", "path": "/schemagroups/contoso.*"}
    tokens = (await api.done("GET", "/access/tokens", headers=headers))["tokens"]
    [listed] = [each for each in tokens if each["id"] == new["id"]]
    assert listed["grants"] == [{"role": "reader", "path": "/"}, new["grants"][1]]
    at = "/access/tokens/{id}"
    assert await api.done("GET", at, id=new["id"], headers=headers) == listed
    await api.refused(404, "GET", at, id="x", headers=headers)
    owner = {"Authorization": f"Bearer {new['token']}"}
    beyond = READER | {"paths": ["/schemagroups/*"]}
    await api.refused(403, "POST", RULES, beyond, headers=owner)
    await api.refused(400, "POST", RULES, {}, headers=headers)
    await api.refused(400, "POST", "/access/tokens", {}, headers=headers)
    await api.refused(403, "GET", "/access/tokens", headers=owner)
    await api.refused(404, "GET", one, id="x", headers=headers)
    await note_refused(node.context, all=True)
    for outcome in ("done", "refused"):
        query = f"?limit=1&outcome={outcome}"
        [entry] = (await api.done("GET", "/audit", headers=headers, query=query))["audit"]
        assert entry["outcome"] == outcome
    await api.refused(400, "GET", "/audit", headers=headers, query="?outcome=unknown")
    await api.done("GET", "/audit", headers=owner)
    assert len(await stored(node)) == 2
    await api.send("DELETE", at, id=new["id"], headers=headers)
    await api.send("DELETE", one, id=made["id"], headers=headers)
    # The rules of a token end with it.
    assert await stored(node) == set()
    described = {
        (method.upper(), path, status)
        for path, operations in description["paths"].items()
        # test_requested_access.py has the others.
        if path.startswith(("/access/rules", "/access/tokens", "/access/whoami", "/audit"))
        for method, operation in operations.items()
        if method != "parameters"
        for status in operation["responses"]
        if status.startswith("2")
    }
    assert described <= api.came
