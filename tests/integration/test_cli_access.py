"""The commands `access …`, and `token add --group`, on a node's database and over its API."""

from __future__ import annotations

import orjson
import pytest

from catalog.access.callercheck import NoCallerKnown, check_callers
from catalog.access.owntokens import make_token
from catalog.model.roles import Grant
from catalog.settings import Settings
from tests.integration.conftest import Node, start_node
from tests.integration.test_access_tokens import bearer, concord


async def test_roles_in_groups_are_given_and_taken_back_by_commands(database_url: str) -> None:
    async with start_node(database_url, open=False) as node:
        async with node.database.transaction() as connection:
            grants = (Grant("admin"),)
            _, admin = await make_token(connection, name="", grants=grants, expiresat=None)
        here = {"CONCORD_DATABASE_URL": database_url}
        there = {"CONCORD_URL": node.url, "CONCORD_TOKEN": admin}
        for place in (here, there):
            created = await concord(
                *("token", "add", "--role", "writer", "--group", "/schemagroups/Contoso.*"),
                *("--group", "/messagegroups/contoso", "--json"),
                **place,
            )
            assert created.exit_code == 0, created.output
            made = orjson.loads(created.stdout)
            text, who = made["token"], f"token={made['id']}"
            assert (await node.send("PUT", "/schemagroups/contoso.a", {}, **bearer(text))).status
            told = await concord("whoami", CONCORD_URL=node.url, CONCORD_TOKEN=text)
            behind = await concord("whoami", "--token", text, CONCORD_URL=node.url)
            assert behind.stdout == told.stdout
            roles = "Roles: writer in /messagegroups/contoso, /schemagroups/contoso.*"
            assert roles in " ".join(told.stdout.split())
            granted = await concord(
                *("access", "add", "admin", "--to", who, "--group", "/endpoints/a"),
                *("--group", "/endpoints/b", "--json"),
                **place,
            )
            rule = orjson.loads(granted.stdout)
            assert rule["id"] in (await concord("access", "list", **place)).stdout
            listed = orjson.loads((await concord("access", "list", "--json", **place)).stdout)
            assert rule in listed
            tokens = orjson.loads((await concord("token", "list", "--json", **place)).stdout)
            [shown] = [each["grants"] for each in tokens if each["id"] == made["id"]]
            assert {"role": "admin", "path": "/endpoints/b"} in shown
            token = await concord("token", "show", made["id"], "--json", **place)
            assert orjson.loads(token.stdout) in tokens
            told = await concord("token", "show", made["id"], **place)
            assert told.stdout.splitlines()[0] == made["id"]
            assert "admin in /endpoints/b" in told.stdout.splitlines()
            fewer = await concord(
                "access", "remove", rule["id"], "--group", "/endpoints/A", **place
            )
            assert fewer.exit_code == 0, fewer.output
            left = await concord("access", "show", rule["id"], **place)
            assert left.stdout.splitlines()[1:] == ["/endpoints/b"]
            for wrong in (
                ("access", "remove", rule["id"], "--group", "/endpoints/a"),
                ("access", "show", "none"),
                ("access", "remove", "none"),
                ("token", "show", "none"),
                ("access", "add", "boss", "--to", who, "--group", "/endpoints/b"),
                ("access", "add", "reader", "--to", "token=x", "--group", "/endpoints/b"),
                ("access", "add", "reader", "--to", who, "--group", "/endpoints"),
            ):
                refused = await concord(*wrong, **place)
                assert refused.exit_code in (1, 2), wrong
                assert "Error" in refused.stderr
            assert (await concord("access", "remove", rule["id"], **place)).exit_code == 0
            assert (await concord("token", "remove", made["id"], **place)).exit_code == 0
            empty = await concord("access", "list", **place)
            assert "There are no rules" in empty.stdout


async def test_a_rule_is_a_way_in_if_somebody_can_meet_it(node: Node) -> None:
    async def may_start(**settings: object) -> bool:
        try:
            await check_callers(Settings(host="0.0.0.0", **settings), node.database)
        except NoCallerKnown:
            return False
        return True

    issuer = {"oidc_issuers": ("https://id.example",), "oidc_audiences": ("a",)}
    other = {"oidc_issuers": ("https://other.example",), "oidc_audiences": ("a",)}
    authority = {"tls_client_ca": "ca.pem", "tls_cert": "node.pem", "tls_key": "node.key"}
    for who, known in (("iss=https://id.example&sub=*", issuer), ("cn=eu.example", authority)):
        assert not await may_start(**known)
        rule = {"who": who, "role": "admin", "paths": ["/*/*"]}
        assert (await node.send("POST", "/access/rules", rule)).status == 201
        assert await may_start(**known)
        assert not await may_start(**other)
        assert not await may_start()
    async with node.database.transaction() as connection:
        made, _ = await make_token(connection, name="", grants=(), expiresat=None)
    # A token that gives no role lets its holder do nothing.
    assert not await may_start()
    rule = {"who": f"token={made.id}", "role": "reader", "paths": ["/*/*"]}
    assert (await node.send("POST", "/access/rules", rule)).status == 201
    assert await may_start()
    assert (await node.send("DELETE", f"/access/tokens/{made.id}")).status == 204
    assert not await may_start()
    await node.send("POST", "/access/rules", rule | {"who": "anonymous"})
    assert await may_start()


@pytest.mark.parametrize("command", ["list", "show", "add", "remove"])
async def test_each_command_has_an_example(command: str) -> None:
    shown = await concord("access", command, "--help")
    assert f"concord access {command}" in shown.stdout
