"""A link sends the token that it was given to its other end, and to nobody else."""

from __future__ import annotations

import asyncio
from typing import Any

from typer.testing import CliRunner

from catalog.access.authentication import AUTHENTICATION
from catalog.access.owntokens import make_token
from catalog.cli import app
from catalog.client import Problem
from catalog.model.roles import Grant, Role
from catalog.store.accesstokens import list_tokens, remove_token
from replication.peers.linkerrors import NO_LINK, access_advice
from tests.integration.conftest import Answer, Node
from tests.integration.federation import databases, eventually, running, start_member


async def token(node: Node, role: Role) -> str:
    async with node.database.acquire() as connection:
        grants = (Grant(role),)
        _, text = await make_token(connection, name="", grants=grants, expiresat=None)
    return text


async def revoke_all(node: Node) -> None:
    async with node.database.acquire() as connection:
        for each in await list_tokens(connection):
            await remove_token(connection, each.id)
    node.client.app[AUTHENTICATION].remembered.forget()


async def as_admin(node: Node, method: str, path: str, body: Any = None) -> Answer:
    text = await token(node, "admin")
    return await node.send(method, path, body, Authorization=f"Bearer {text}")


async def test_a_link_follows_a_source_that_knows_its_token(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 2) as [first, second],
        start_member(first, open=False) as source,
        start_member(second) as target,
    ):
        assert (await as_admin(source, "PUT", "/messagegroups/one", {})).status == 201
        body = {"id": "l", "source": source.url, "mode": "pull"}
        answer = await target.send("POST", "/replication/links", body)
        assert (answer.status, answer.error) == (400, "source_unusable")
        assert "Give the link a token" in answer.json["title"]
        wrong = body | {"token": await token(source, "reader")}
        answer = await target.send("POST", "/replication/links", wrong)
        assert "needs a role there: replicator" in answer.json["title"]
        text = await token(source, "replicator")
        answer = await target.send("POST", "/replication/links", body | {"token": text})
        assert answer.status == 201, answer.body
        assert answer.json["token"] == "***"
        assert text not in (await target.send("GET", "/replication/links")).body.decode()
        async with target.database.acquire() as connection:
            row = await connection.fetchval("SELECT l::text FROM links l")
        assert text not in row
        assert text.encode().hex() not in row
        async with running(target):
            await eventually(lambda: has(target, "/messagegroups/one"))
            await revoke_all(source)
            # What the link waits for at its source goes on until then.
            await target.send("POST", "/replication/links/l/run", {})
            await eventually(lambda: is_refused(target))
            again = await token(source, "replicator")
            done = await asyncio.to_thread(
                CliRunner().invoke,
                app,
                ["link", "set", "l", "--token-from", "PEER", "--url", target.url],
                env={"PEER": again},
            )
            assert done.exit_code == 0, done.output
            assert (await as_admin(source, "PUT", "/messagegroups/two", {})).status == 201
            await eventually(lambda: has(target, "/messagegroups/two"))


async def has(node: Node, path: str) -> bool:
    return (await node.send("GET", path)).status == 200


async def is_refused(node: Node) -> bool:
    shown = await node.get("/replication/links/l")
    # The link goes on trying, so its state comes and goes.
    is_told = "Give the link a token" in (shown.get("error") or "")
    return is_told and shown["state"] == "unauthenticated" and "unauthenticated" in shown["errors"]


async def test_a_token_is_sent_to_whom_it_was_given_for_only(database_url: str) -> None:
    async with start_member(database_url) as node:

        async def put(**body: Any) -> Any:
            return await node.put("/replication/links/l", {"mode": "pull", **body})

        body = {"id": "l", "mode": "pull", "source": "http://127.0.0.1:9"}
        answer = await node.send("POST", "/replication/links?force", body | {"token": "t"})
        assert answer.json["token"] == "***"
        assert (await put(source="http://127.0.0.1:9", prefix="a-"))["token"] == "***"
        assert (await put(source="http://127.0.0.1:10")).get("token") is None
        assert (await put(source="http://127.0.0.1:10", token="t"))["token"] == "***"
        answer = await node.send("PATCH", "/replication/links/l", {"token": ""})
        assert answer.json.get("token") is None
        for bad in ("a b", "a\nb", "é", 1):
            answer = await node.send("PATCH", "/replication/links/l", {"token": bad})
            assert (answer.status, answer.error) == (400, "invalid_attribute")
        topic = {"mode": "kafka", "source": "kafka://127.0.0.1:9/topic", "token": "t"}
        answer = await node.send("POST", "/replication/links?force", topic)
        assert (answer.status, answer.error) == (400, "invalid_attribute")


def test_other_refusals_have_advice_of_their_own() -> None:
    def advice(status: int, name: str, link: str = "ID") -> str:
        problem = Problem(status=status, subject="", title="", type=f"urn:x:{name}", violations=())
        return access_advice(problem, link)

    assert advice(401, "whatever")
    assert advice(403, "forbidden")
    assert "link set eu --token" in advice(401, "unauthenticated", "eu")
    assert "--tokens" in advice(403, "forbidden", NO_LINK)
    assert not advice(403, "push_not_accepted")
    assert not advice(404, "not_found")
