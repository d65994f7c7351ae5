"""A caller asks for a role in a group, those who may grant it decide, and a rule follows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
import pytest_asyncio

from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import Identity
from tests.integration.conftest import Answer, Node, start_node
from tests.integration.consolecatalog import new_token
from tests.integration.test_access_tokens import concord
from tests.integration.test_openapi_subscriptions import DescribedApi

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.in_order]
PATH = "/access/requests"
GROUP = "/messagegroups/Orders"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, open=False) as running:
        admin = await caller(running, "admin")
        for name in ("Orders", "Stock"):
            await running.put(f"/messagegroups/{name}", {}, **admin)
            await running.put(f"/messagegroups/{name}/messages/m", {}, **admin)
        yield running


async def caller(node: Node, role: Any, path: str = "/") -> dict[str, str]:
    """The header with the token of a new caller."""
    return {"Authorization": f"Bearer {(await new_token(node, role, path))[1]}"}


async def ask(node: Node, who: dict[str, str], role: str = "writer", path: str = GROUP) -> Answer:
    return await node.send(
        "POST", PATH, {"role": role, "path": path, "reason": "We own it."}, **who
    )


async def write(node: Node, who: dict[str, str]) -> int:
    node.client.app[AUTHENTICATION].rules.forget()
    answer = await node.send("PATCH", f"{GROUP}/messages/m", {"name": "n"}, **who)
    return answer.status


async def listed(node: Node, who: dict[str, str], query: str = "") -> list[dict[str, Any]]:
    answer = await node.send("GET", f"{PATH}{query}", **who)
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json["requests"]
    return found


async def test_the_owner_of_a_group_grants_a_request_and_a_rule_follows(node: Node) -> None:
    reader = await caller(node, "reader")
    owner = await caller(node, "admin", "/messagegroups/orders")
    asked = await ask(node, reader)
    assert (asked.status, await write(node, reader)) == (201, 403)
    # The caller sees no names, not even its own; who decides does.
    assert asked.json | {"state": "open", "isown": True, "isdecidable": False} == asked.json
    assert "name" not in asked.json
    [seen] = await listed(node, owner, "?state=open")
    assert "token " in seen["name"]
    done = await node.send("POST", f"{PATH}/{seen['id']}/grant", {"note": "Welcome."}, **owner)
    assert (done.status, done.json["state"]) == (200, "granted")
    assert await write(node, reader) == 200
    [told] = await listed(node, reader)
    assert (told["state"], told["note"]) == ("granted", "Welcome.")
    assert "decidedby" not in told
    again = await node.send("POST", f"{PATH}/{seen['id']}/grant", {}, **owner)
    assert again.status == 409
    rule = await node.send("GET", f"/access/rules/{done.json['rule']}", **owner)
    assert (rule.json["role"], rule.json["paths"]) == ("writer", [GROUP.lower()])


async def test_every_answer_about_requests_fits_its_description(node: Node) -> None:
    reader, admin = await caller(node, "reader"), await caller(node, "admin")
    answer = await node.send("GET", "/openapi.json", **admin)
    api = DescribedApi(node, answer.json)
    one, ids = f"{PATH}/{{id}}", []
    body = {"role": "writer", "path": "/messagegroups/Described", "reason": "We own it."}
    await node.put("/messagegroups/Described", {}, **admin)
    for _ in range(3):
        asked = await api.done("POST", PATH, body, headers=reader)
        ids.append(asked["id"])
        await api.done("GET", one, id=asked["id"], headers=admin)
        if len(ids) < 3:
            end = ("grant", "decline")[len(ids) - 1]
            await api.done("POST", f"{one}/{end}", {"note": "So be it."}, id=ids[-1], headers=admin)
    await api.done("DELETE", one, id=ids[-1], headers=reader)
    await api.done("GET", PATH, headers=admin)
    await api.done("GET", "/access/holders", query="?of=/messagegroups/Stock", headers=admin)
    described = {
        (method.upper(), path)
        for path, operations in api.description["paths"].items()
        if path.startswith((PATH, "/access/holders"))
        for method in operations
        if method != "parameters"
    }
    assert described <= {(method, path) for method, path, _ in api.came}


async def test_a_declined_request_gives_nothing_and_says_why(node: Node) -> None:
    reader, admin = await caller(node, "reader"), await caller(node, "admin")
    id = (await ask(node, reader)).json["id"]
    done = await node.send("POST", f"{PATH}/{id}/decline", {"note": "Ask Ann."}, **admin)
    assert (done.status, done.json["state"]) == (200, "declined")
    assert await write(node, reader) == 403
    assert [each["note"] for each in await listed(node, reader)] == ["Ask Ann."]


async def test_nobody_grants_what_it_may_not_and_nobody_else_sees_a_request(node: Node) -> None:
    reader = await caller(node, "reader")
    other = await caller(node, "admin", "/messagegroups/stock")
    id = (await ask(node, reader)).json["id"]
    assert not await listed(node, other)
    for path in (f"{PATH}/{id}", f"{PATH}/{id}/grant", f"{PATH}/none"):
        method = "POST" if path.endswith("grant") else "GET"
        answer = await node.send(method, path, {} if method == "POST" else None, **other)
        assert answer.status == 404, path
    # Whoever asks may not decide.
    writer = await caller(node, "admin", "/messagegroups/stock")
    own = (await ask(node, writer)).json["id"]
    assert (await node.send("POST", f"{PATH}/{own}/grant", {}, **writer)).status == 403
    # An admin of the group has no role of replicators to give.
    owner = await caller(node, "admin", "/messagegroups/orders")
    more = (await ask(node, reader, "replicator")).json["id"]
    assert (await node.send("POST", f"{PATH}/{more}/grant", {}, **owner)).status == 403


async def test_a_request_is_withdrawn_by_its_caller(node: Node) -> None:
    reader = await caller(node, "reader")
    id = (await ask(node, reader)).json["id"]
    assert (await node.send("DELETE", f"{PATH}/{id}", **reader)).status == 204
    assert await listed(node, reader) == []


async def test_a_request_for_a_hidden_group_is_answered_as_one_for_a_missing_group(
    node: Node,
) -> None:
    limited = await caller(node, "reader", "/messagegroups/stock")
    hidden, missing = [
        await ask(node, limited, path=path) for path in (GROUP, "/messagegroups/None")
    ]
    assert (hidden.status, missing.status) == (201, 201)
    assert hidden.json.keys() == missing.json.keys()


async def test_open_requests_of_a_caller_are_bounded_and_not_doubled(node: Node) -> None:
    reader = await caller(node, "reader")
    first = await ask(node, reader)
    assert (await ask(node, reader)).json["id"] == first.json["id"]
    for number in range(19):
        assert (await ask(node, reader, path=f"/messagegroups/g{number}")).status == 201
    assert (await ask(node, reader, path="/messagegroups/g99")).status == 409
    found = await node.send("GET", f"{PATH}?limit=2", **reader)
    assert len(found.json["requests"]) == 2
    assert any("rel=next" in each for each in found.headers.getall("Link"))


@pytest.mark.parametrize(
    "more",
    [
        *({"path": path} for path in ("/", "/messagegroups/*", "/messagegroups/g/messages/m")),
        *({"reason": reason} for reason in ("", " ", "\0", "x" * 501)),
        {"role": "king"},
    ],
)
async def test_a_malformed_request_is_refused(node: Node, more: dict[str, Any]) -> None:
    reader = await caller(node, "reader")
    body = {"role": "writer", "path": GROUP, "reason": "why", **more}
    assert (await node.send("POST", PATH, body, **reader)).status == 400


async def test_who_is_not_known_or_knows_no_limits_cannot_ask(
    shared_database_url: str, node: Node
) -> None:
    assert (await ask(node, {})).status == 401
    async with start_node(shared_database_url) as everybodys:
        assert (await ask(everybodys, {})).status == 409


@pytest.mark.parametrize("subject", ["*", "a&groups=admins", " a", "x" * 2000])
async def test_a_name_that_would_let_others_in_gets_no_rule(node: Node, subject: str) -> None:
    claims = {"iss": "https://id.example", "sub": subject, "groups": "admins"}
    identity = Identity("jwt", subject, "https://id.example", claims=claims)
    # The identity is that of a token of a provider, whose names its users may choose.
    authentication = node.client.app[AUTHENTICATION]
    authentication.remembered.keep("Bearer chosen", identity, 60)
    answer = await ask(node, {"Authorization": "Bearer chosen"})
    assert (answer.status, b"no rule can name this caller" in answer.body) == (409, True)


async def test_names_of_holders_are_told_to_those_who_may_grant(node: Node) -> None:
    reader, owner = await caller(node, "reader"), await caller(node, "admin", GROUP.lower())
    shown = await node.send("GET", f"/access/holders?of={GROUP}", **reader)
    assert shown.json["yours"] == ["reader"]
    assert shown.json["numbers"]["admin"] > 1
    assert "holders" not in shown.json
    shown = await node.send("GET", f"/access/holders?of={GROUP}", **owner)
    assert shown.json["yours"] == ["admin"]
    by = {each["by"] for each in shown.json["holders"]}
    assert by == {"rule", "token"}
    assert sum(shown.json["numbers"].values()) == len(shown.json["holders"])
    limited = await caller(node, "reader", "/messagegroups/stock")
    hidden, missing = [
        await node.send("GET", f"/access/holders?of={path}", **limited)
        for path in (GROUP, "/messagegroups/Nothin")
    ]
    assert (hidden.status, missing.status) == (404, 404)


async def test_access_is_asked_for_and_granted_by_commands(
    shared_database_url: str, node: Node
) -> None:
    id, reader = await new_token(node, "reader")
    _, admin = await new_token(node, "admin")
    asking = {"CONCORD_URL": node.url, "CONCORD_TOKEN": reader}
    deciding = {"CONCORD_URL": node.url, "CONCORD_TOKEN": admin}
    on_the_machine = {"CONCORD_DATABASE_URL": shared_database_url}
    for number, place in enumerate((deciding, on_the_machine)):
        path = f"/messagegroups/by-command-{number}"
        why = ("--reason", "We own it.")
        asked = await concord("access", "request", "writer", path, *why, "--json", **asking)
        request = orjson.loads(asked.stdout)["id"]
        assert request in (await concord("access", "list", "--requests", "all", **asking)).stdout
        assert (
            f"token {id}" in (await concord("access", "list", "--requests", "all", **place)).stdout
        )
        granted = await concord("access", "decide", request, "grant", "--note", "Welcome.", **place)
        assert f"is writer in {path} by rule" in granted.stdout, granted.output
        assert "Welcome." in (await concord("access", "list", "--requests", "all", **asking)).stdout
        assert (await concord("access", "decide", request, "grant", **place)).exit_code != 0
        assert (await concord("access", "decide", request, "withdraw", **asking)).exit_code == 0
        why = ("--reason", "Again.")
        asked = await concord("access", "request", "admin", path, *why, "--json", **asking)
        request = orjson.loads(asked.stdout)["id"]
        declined = await concord("access", "decide", request, "decline", "--json", **place)
        assert orjson.loads(declined.stdout)["state"] == "declined"
    shown = await concord("access", "show", GROUP, **asking)
    assert "Your roles there: reader" in shown.stdout
    shown = await concord("access", "show", GROUP, **deciding)
    assert f"token={id}" in shown.stdout
