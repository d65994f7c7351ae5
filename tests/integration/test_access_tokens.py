"""A token of the node's own lives from `concord token add` to `concord token remove`."""

from __future__ import annotations

import asyncio
import hashlib
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from catalog.access.authentication import AUTHENTICATION
from catalog.access.callercheck import NoCallerKnown, check_callers, ways_in
from catalog.access.owntokens import make_token
from catalog.cli import app
from catalog.commands.console import CommandError
from catalog.commands.secretsources import FILE_VARIABLE, give_token, token_for
from catalog.model.roles import Grant
from catalog.settings import Settings
from catalog.store.accesstokens import MOST_TOKENS, AccessToken, list_tokens, note_use
from tests.integration.conftest import Node, start_node

runner = CliRunner()


async def concord(*arguments: str, **environment: str) -> Result:
    """Run a command in a thread, as it runs an event loop of its own."""
    return await asyncio.to_thread(runner.invoke, app, arguments, env=environment)


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


async def test_a_token_lets_in_until_it_is_revoked_and_only_its_digest_is_kept(
    database_url: str,
) -> None:
    async with start_node(database_url, open=False) as node:
        made = await concord(
            *("token", "add", "--role", "writer", "--name", "ci", "--expires", "12h"),
            CONCORD_DATABASE_URL=database_url,
        )
        assert made.exit_code == 0, made.output
        text, id = made.stdout.strip(), re.findall(r"[0-9a-f]{10}", made.stderr)[0]
        assert re.fullmatch(r"concord_[\w-]{43}", text)
        assert text not in made.stderr
        assert (await node.send("PUT", "/messagegroups/m", {}, **bearer(text))).status == 201
        assert (await node.send("PUT", "/modelsource", {}, **bearer(text))).status == 403
        assert (await node.send("GET", "/", **bearer(text[:-1] + "_"))).status == 401
        assert await stored(node) == [hashlib.sha256(text.encode()).hexdigest()]
        listed = await concord("token", "list", CONCORD_DATABASE_URL=database_url)
        assert all(part in listed.stdout for part in (id, "ci", "writer"))
        assert text not in listed.output
        shown = await concord("whoami", "--url", node.url, CONCORD_TOKEN=text)
        assert f"You are {id} (token)." in shown.stdout
        assert "writer" in shown.stdout
        ended = await concord("token", "remove", id, CONCORD_DATABASE_URL=database_url)
        assert ended.exit_code == 0
        async with asyncio.timeout(30):
            while (await node.send("GET", "/", **bearer(text))).status == 200:
                await asyncio.sleep(0.05)  # between two looks, for up to two seconds
        assert (await concord("token", "remove", id, CONCORD_DATABASE_URL=database_url)).exit_code


async def test_a_database_that_is_named_comes_before_the_url_of_the_environment(
    database_url: str,
) -> None:
    nobody = "http://127.0.0.1:9"
    named = ("token", "list", "--database-url", database_url)
    async with start_node(database_url):
        listed = await concord(*named, CONCORD_URL=nobody)
        assert listed.exit_code == 0, listed.output
        both = await concord(*named, "--url", nobody)
        assert both.exit_code == 2
        assert "--database-url uses" in both.stderr


async def stored(node: Node) -> list[str]:
    """Of all that the database keeps, what may come from tokens: their digests."""
    async with node.database.acquire() as connection:
        rows = await connection.fetch("SELECT t::text AS row, digest FROM access_tokens t")
    assert not any("concord_" in row["row"] for row in rows)
    return [row["digest"].hex() for row in rows]


async def test_an_admin_makes_and_ends_tokens_over_the_api(database_url: str) -> None:
    async with start_node(database_url, open=False) as node:
        async with node.database.acquire() as connection:
            grants = (Grant("admin"),)
            _, admin = await make_token(connection, name="", grants=grants, expiresat=None)
        made = await concord(
            *("--token", admin, "token", "add", "--role", "reader", "--json"),
            CONCORD_URL=node.url,
        )
        assert made.exit_code == 0, made.output
        body = {"grants": [{"role": "replicator", "path": "/"}], "name": "n"}
        answer = await node.send("POST", "/access/tokens", body, **bearer(admin))
        assert answer.status == 201
        assert answer.headers["Cache-Control"] == "no-store"
        token = answer.json
        assert (await node.send("GET", "/", **bearer(token["token"]))).status == 200
        tokens = (await node.send("GET", "/access/tokens", **bearer(admin))).json["tokens"]
        assert len(tokens) == 3
        assert not any("token" in each for each in tokens)
        at = answer.headers["Location"].removeprefix(node.url)
        shown = await node.send("GET", at, **bearer(admin))
        [listed] = [each for each in tokens if each["id"] == token["id"]]
        assert shown.json == listed
        assert shown.headers["Cache-Control"] == "no-store"
        gone = await node.send("DELETE", f"/access/tokens/{token['id']}", **bearer(admin))
        assert gone.status == 204
        # In the process that revoked it, at once.
        assert (await node.send("GET", "/", **bearer(token["token"]))).status == 401
        for method in ("GET", "DELETE"):
            gone = await node.send(method, f"/access/tokens/{token['id']}", **bearer(admin))
            assert gone.status == 404


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ([], "invalid_attribute"),
        ({}, "required_attribute_missing"),
        ({"grants": []}, "invalid_attribute"),
        ({"grants": "admin"}, "invalid_attribute"),
        ({"grants": [{"role": "boss"}]}, "invalid_attribute"),
        ({"grants": [{"role": ["admin"]}]}, "invalid_attribute"),
        ({"grants": ["admin"]}, "invalid_attribute"),
        # It must not become a role for everything.
        ({"grants": [{"role": "reader", "path": "/endpoints"}]}, "invalid_attribute"),
        ({"grants": [{"role": "reader", "path": ""}]}, "invalid_attribute"),
        ({"grants": [{"role": "reader", "path": "/endpoints/a/messages/m"}]}, "invalid_attribute"),
        ({"grants": [{"role": "reader", "path": None}]}, "invalid_attribute"),
        ({"grants": [{"role": "reader", "paths": "/"}]}, "unknown_attribute"),
        ({"grants": [{"role": "reader"}], "name": "n" * 129}, "invalid_attribute"),
        ({"grants": [{"role": "reader"}], "expiresat": "soon"}, "invalid_attribute"),
        ({"grants": [{"role": "reader"}], "expiresat": 1}, "invalid_attribute"),
        ({"grants": [{"role": "reader"}], "expiresat": "2020-01-01"}, "invalid_attribute"),
        ({"grants": [{"role": "reader"}], "token": "mine"}, "unknown_attribute"),
    ],
)
async def test_a_token_that_is_asked_for_wrongly_is_not_made(
    node: Node, body: object, error: str
) -> None:
    answer = await node.send("POST", "/access/tokens", body)

    assert (answer.status, answer.error) == (400, error)
    assert (await node.get("/access/tokens"))["tokens"] == []


async def test_a_token_is_shown_with_its_roles_at_the_first_thousand_paths(node: Node) -> None:
    paths = [f"/schemagroups/g{number:04}" for number in range(1001)]
    for most, more in ((1000, None), (1001, True)):
        grants = [{"role": "admin"}, *({"role": "reader", "path": p} for p in paths[:most])]
        made = (await node.send("POST", "/access/tokens", {"grants": grants})).json
        shown = await node.get(f"/access/tokens/{made['id']}")
        assert shown["grants"] == [{"role": "admin", "path": "/"}, *grants[1:1001]]
        assert shown.get("more") is more
        assert "token" not in shown


async def test_a_token_has_an_end_and_its_use_is_noted_once_a_minute(node: Node) -> None:
    now = datetime.now(UTC)
    token = AccessToken(id="t", name="", grants=(), createdat=now, expiresat=now)
    assert not token.is_valid(now)
    assert token.is_valid(now - timedelta(seconds=1))
    async with node.database.acquire() as connection:
        made, _ = await make_token(connection, name="", grants=(), expiresat=None)
        for seconds in (0, 30, 59, 61):
            [kept] = await list_tokens(connection)
            # A process may know an older use than another one has noted.
            await note_use(connection, made, now + timedelta(seconds=seconds))
            await note_use(connection, kept, now + timedelta(seconds=seconds))
            [kept] = await list_tokens(connection)
            assert kept.usedat == now + timedelta(seconds=61 if seconds == 61 else 0)


async def test_tokens_are_bounded_in_number(node: Node) -> None:
    async with node.database.acquire() as connection:
        await connection.execute(
            "INSERT INTO access_tokens SELECT n, n::text::bytea, '', '[]', now() "
            "FROM generate_series(1, $1) n",
            MOST_TOKENS,
        )
    answer = await node.send("POST", "/access/tokens", {"grants": [{"role": "reader"}]})
    assert (answer.status, answer.error) == (409, "limit_reached")


async def test_a_node_that_nobody_could_use_does_not_start(node: Node) -> None:
    async def may_start(**settings: object) -> bool:
        try:
            await check_callers(Settings(**settings), node.database)
        except NoCallerKnown:
            return False
        return True

    assert await may_start()
    assert await may_start(host="0.0.0.0", open=True)
    assert await may_start(host="0.0.0.0", anonymous_role="reader")
    assert not await may_start(host="0.0.0.0")
    assert not await may_start(open=False)
    async with node.database.acquire() as connection:
        past = datetime.now(UTC) - timedelta(seconds=1)
        await make_token(connection, name="", grants=(Grant("admin"),), expiresat=past)
        assert not await may_start(host="0.0.0.0")
        await make_token(connection, name="", grants=(Grant("admin"),), expiresat=None)
    assert await may_start(host="0.0.0.0")
    assert "CONCORD_OPEN=false" in ways_in(Settings())[0]
    assert "on this machine" in ways_in(Settings(public_url="http://localhost:1"))[0]
    assert "a proxy before it" in ways_in(Settings(public_url="https://a.example"))[0]
    assert "all who reach it" in ways_in(Settings(host="0.0.0.0", open=True))[0]
    assert "concord token add" in ways_in(Settings(host="0.0.0.0"))[0]


async def test_an_open_node_asks_nobody_and_believes_nobody(node: Node) -> None:
    shown = (await node.send("GET", "/access/whoami", **bearer("nonsense"))).json
    assert shown == {
        "kind": "anonymous",
        "grants": [{"role": "admin", "path": "/"}],
        "open": True,
    }
    assert "is open" in (await concord("whoami", "--url", node.url)).stdout


async def test_everybody_reads_a_public_catalog(database_url: str) -> None:
    async with start_node(database_url, anonymous_role="reader") as node:
        assert (await node.send("GET", "/messagegroups")).status == 200
        answer = await node.send("PUT", "/messagegroups/m", {})
        assert (answer.status, answer.error) == (401, "unauthenticated")
        # A credential that is shown is not ignored: its holder expects more than everybody has.
        assert (await node.send("GET", "/messagegroups", **bearer("a.b.c"))).status == 401
        assert node.client.app[AUTHENTICATION].is_open is False


def test_a_command_sends_a_token_to_the_node_that_it_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokens"
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    give_token(None)
    assert token_for("http://a") is None
    file.write_text("# mine\n\nhttp://a/ one\nhttps://b.example/x two\n")
    file.chmod(0o644)
    with pytest.raises(CommandError, match="Others may read"):
        token_for("http://a")
    file.chmod(0o600)
    assert token_for("http://a") == "one"
    assert token_for("https://b.example/x/") == "two"
    assert token_for("https://b.example") is None
    give_token("given")
    assert token_for("http://a") == "given"
    # What is given is for the node that the user named, and for no node that this one names.
    assert token_for("https://b.example/x", is_own=False) == "two"
    assert token_for("http://c", is_own=False) is None
    give_token(None)
    file.write_text("http://a secret more\n")
    with pytest.raises(CommandError) as error:
        token_for("http://a")
    assert "secret" not in str(error.value)
