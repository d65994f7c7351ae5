"""Access tokens are refreshed before they end, at a real token endpoint, and never told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from catalog.model.credentials import TokenCredential
from catalog.model.timestamps import format_time
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from catalog.subscriptions.delivery.tokenrefresh import run_token_refresh
from catalog.subscriptions.stored.sinkcredentials import load_credentials, open_credential
from tests.integration.conftest import Node, start_node
from tests.integration.tokenendpoint import TokenServer, answering, error, text, until


@pytest.fixture
async def server() -> TokenServer:
    return TokenServer()


@pytest.fixture
async def url(server: TokenServer) -> AsyncIterator[str]:
    async with server.serve() as url:
        yield url


@contextlib.asynccontextmanager
async def running(database_url: str, *loops: Any, **settings: Any) -> AsyncIterator[Node]:
    """A node that refreshes tokens, and delivers."""
    given = {
        "allow_private_addresses": True,
        "backoff_initial_seconds": 0.05,
        "backoff_cap_seconds": 0.2,
        "delivery_timeout_seconds": 1.0,
        **settings,
    }
    async with start_node(database_url, **given) as node:
        tasks = [
            asyncio.create_task(loop(node.context))
            for loop in loops or (run_token_refresh, run_deliveries)
        ]
        try:
            yield node
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with running(database_url) as node:
        yield node


def subscription(url: str, *, lasts: float = -1.0, **credential: str) -> dict[str, Any]:
    """A subscription whose access token has ended, unless it still lasts some seconds."""
    return {
        "sink": f"{url}/sink",
        "protocol": "HTTP",
        "sinkcredential": {
            "credentialtype": "REFRESHTOKEN",
            "accesstoken": "access-0-s3cret",
            "accesstokenexpiresutc": format_time(datetime.now(UTC) + timedelta(seconds=lasts)),
            "accesstokentype": "Bearer",
            "refreshtoken": "refresh-0 s3cret",
            "refreshtokenendpoint": f"{url}/token",
            **credential,
        },
    }


async def subscribe(node: Node, body: dict[str, Any]) -> str:
    answer = await node.send("POST", "/subscriptions", body)
    assert answer.status in (201, 202), answer.body
    return f"/subscriptions/{answer.json['id']}"


async def eventually(node: Node, path: str, name: str) -> Any:
    """A member of the status, once it is there."""
    async with asyncio.timeout(20):
        while not (found := (await node.get(path))["status"].get(name)):
            await asyncio.sleep(0.01)  # between two looks at the status
    return found


async def stored(node: Node, path: str) -> TokenCredential:
    id = path.rpartition("/")[2]
    async with node.database.acquire() as connection:
        found = (await load_credentials(connection, [id]))[id]
    credential = open_credential(node.context.keys, found)
    assert isinstance(credential, TokenCredential)
    return credential


async def test_an_ended_token_is_refreshed_and_events_come_with_the_new_one(
    node: Node, server: TokenServer, url: str
) -> None:
    path = await subscribe(node, subscription(url))
    await node.put("/messagegroups/a")
    await until(lambda: server.accepted)
    assert server.grants == ["refresh-0 s3cret"]
    assert {*server.accepted} == {"access-1-s3cret"}
    credential = await stored(node, path)
    assert credential.token == "access-1-s3cret"
    assert credential.refresh is not None
    assert credential.refresh.token == "refresh-1 s3cret"
    shown = (await node.get(path))["sinkcredential"]
    assert shown["accesstokenexpiresutc"] > format_time(datetime.now(UTC))


async def test_a_token_is_refreshed_before_its_end_again_and_again(
    node: Node, server: TokenServer, url: str
) -> None:
    server.lifetime = 2
    path = await subscribe(node, subscription(url, lasts=2))
    for count in range(1, 4):
        await until(lambda: len(server.tokens) >= count)  # noqa: B023
        await node.put("/messagegroups/a", {"name": str(count)})
        await until(lambda: len(server.subjects) >= count)  # noqa: B023
    assert server.grants[:3] == [f"refresh-{number} s3cret" for number in range(3)]
    status = (await node.get(path))["status"]
    assert "refresh" not in status
    assert status["failedattempts"] == 0


async def test_a_token_that_lasts_is_left_alone(node: Node, server: TokenServer, url: str) -> None:
    await subscribe(node, subscription(url, lasts=3600))
    server.tokens.append("access-0-s3cret")
    await node.put("/messagegroups/a")
    await until(lambda: server.accepted)
    assert server.grants == []


async def test_an_endpoint_that_keeps_its_refresh_token_is_asked_with_it_again(
    node: Node, server: TokenServer, url: str
) -> None:
    server.rotates, server.lifetime = False, 1
    await subscribe(node, subscription(url))
    await until(lambda: len(server.tokens) >= 3)
    assert {*server.grants} == {"refresh-0 s3cret"}


async def test_a_refused_refresh_is_the_shown_cause_and_ends_with_a_new_credential(
    node: Node, server: TokenServer, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = await subscribe(node, subscription(url, refreshtoken="stolen s3cret"))
    await node.put("/messagegroups/a")
    refresh = await eventually(node, path, "refresh")
    assert refresh["error"] == "the token endpoint refused the refresh token (invalid_grant)"
    async with asyncio.timeout(20):
        while not str((await node.get(path))["status"].get("error")).endswith("(invalid_grant)"):
            await asyncio.sleep(0.01)  # between two looks at the status
    assert server.accepted == []
    await node.put(path, subscription(url))
    await until(lambda: server.accepted)
    assert "refresh" not in (await node.get(path))["status"]
    output = capsys.readouterr()
    assert "invalid_grant" in output.out + output.err
    assert "s3cret" not in output.out + output.err


async def test_refreshes_that_fail_come_further_and_further_apart(
    database_url: str, server: TokenServer, url: str
) -> None:
    async with running(database_url, backoff_cap_seconds=300, backoff_initial_seconds=60) as node:
        path = await subscribe(node, subscription(url, refreshtoken="wrong"))
        assert (await eventually(node, path, "refresh"))["failures"] == 1
        id = path.rpartition("/")[2]
        async with node.database.acquire() as connection:
            at = await connection.fetchval(
                "SELECT refreshat FROM sink_credentials WHERE subscription = $1", id
            )
    seconds = (at - datetime.now(UTC)).total_seconds()
    assert 25 < seconds < 60
    assert len(server.grants) == 1


async def test_the_endpoint_says_how_long_to_wait(
    node: Node, server: TokenServer, url: str
) -> None:
    server.answers.append(text("{}", 503, **{"Retry-After": "1800"}))
    path = await subscribe(node, subscription(url))
    assert (await eventually(node, path, "refresh"))["error"] == "the token endpoint answered 503"
    id = path.rpartition("/")[2]
    async with node.database.acquire() as connection:
        at = await connection.fetchval(
            "SELECT refreshat FROM sink_credentials WHERE subscription = $1", id
        )
    assert (at - datetime.now(UTC)).total_seconds() > 1700


async def never(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


async def dribbles(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        for _ in range(600):
            await response.write(b" ")
            await asyncio.sleep(0.05)
    return response


_WHOLE = '{"access_token": "a-s3cret", "token_type": "Bearer", "expires_in": 60'
HOSTILE = {
    "nothing": text(""),
    "no JSON": text("s3cret"),
    "a list": text('["s3cret"]'),
    "no token": text('{"token_type": "Bearer"}'),
    "a token that would add a header": text('{"access_token": "s3cret\\r\\nHost: x"}'),
    "a token that is none": text('{"access_token": {"s3cret": 1}}'),
    "a long token": text('{"access_token": "' + "s3cret" * 2000 + '"}'),
    "a type that would add a header": text('{"access_token": "s3cret", "token_type": "a\\r\\nb"}'),
    "a refresh token that is none": text(_WHOLE + ', "refresh_token": ["s3cret"]}'),
    "a large answer": text(b" " * 1_000_000 + b"{}"),
    "an error that repeats the token": answering(
        lambda: error("s3cret", error_description="refresh-0 s3cret")
    ),
    "an error of another type": text('{"error": ["s3cret"]}', 400),
    "a server error": text("s3cret", 500),
    "a redirect": text("", 307, Location="/token?s3cret"),
    "no answer": never,
    "an answer without end": dribbles,
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_answer_is_a_failure_that_ends_by_itself(
    node: Node, server: TokenServer, url: str, answer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    is_seen = asyncio.Event()

    async def token(_: web.Request) -> web.Response:
        await is_seen.wait()
        return server.token()

    server.answers += [answer, token]
    path = await subscribe(node, subscription(url))
    refresh = await eventually(node, path, "refresh")
    is_seen.set()
    assert refresh["error"].startswith("the token endpoint ")
    await node.put("/messagegroups/a")
    await until(lambda: server.accepted)
    # The redirect was not followed: every refresh is one of the first endpoint's own.
    assert server.grants == ["refresh-0 s3cret"] * 2
    output = capsys.readouterr()
    assert "s3cret" not in f"{refresh} {output.out} {output.err}"


@pytest.mark.parametrize(
    "lifetime", [0, -5, "1", 1e300, None, True, "s3cret", 10**18, [1], float(2**53)]
)
async def test_any_lifetime_is_understood(
    node: Node, server: TokenServer, url: str, lifetime: Any
) -> None:
    server.lifetime = lifetime
    path = await subscribe(node, subscription(url))
    await until(lambda: server.tokens)
    async with asyncio.timeout(20):
        while (await stored(node, path)).token == "access-0-s3cret":
            await asyncio.sleep(0.01)  # between two looks at the credential
    credential = await stored(node, path)
    assert credential.expiresat is not None
    assert credential.expiresat - datetime.now(UTC) < timedelta(days=3651)


async def test_tokens_without_duration_are_refreshed_at_a_pace(
    node: Node, server: TokenServer, url: str
) -> None:
    server.lifetime = 0
    began = asyncio.get_running_loop().time()
    await subscribe(node, subscription(url))
    await until(lambda: len(server.grants) >= 4)
    assert asyncio.get_running_loop().time() - began > 2


async def test_an_endpoint_at_a_private_address_is_refused_when_the_node_connects(
    database_url: str, server: TokenServer, url: str
) -> None:
    """The settings change between the creation and the refresh, and so may a name."""
    async with running(database_url, run_deliveries) as node:
        path = await subscribe(node, subscription(url))
    async with running(database_url, run_token_refresh, allow_private_addresses=False) as node:
        refresh = await eventually(node, path, "refresh")
    assert refresh["error"].startswith("the token endpoint is refused: its host is not a public")
    assert server.grants == []


async def test_a_name_that_leads_to_a_private_address_is_refused(
    database_url: str, server: TokenServer, url: str
) -> None:
    port = url.rpartition(":")[2]
    body = subscription(url, refreshtokenendpoint=f"https://ip6-localhost:{port}/token")
    body["sink"] = "https://sink.example"
    async with running(database_url, run_token_refresh, allow_private_addresses=False) as node:
        path = await subscribe(node, body)
        refresh = await eventually(node, path, "refresh")
    assert refresh["error"].startswith("the token endpoint cannot be reached, or only at")


async def test_a_node_that_starts_again_goes_on_with_the_last_refresh_token(
    database_url: str, server: TokenServer, url: str
) -> None:
    server.lifetime = 2
    async with running(database_url) as node:
        await subscribe(node, subscription(url))
        await until(lambda: len(server.tokens) >= 2)
    async with running(database_url) as node:
        await until(lambda: len(server.tokens) >= 4)
        await node.put("/messagegroups/a")
        await until(lambda: server.accepted)
    assert server.grants == [f"refresh-{number} s3cret" for number in range(len(server.grants))]


async def test_an_answer_that_is_under_way_is_stored_before_the_node_stops(
    database_url: str, server: TokenServer, url: str
) -> None:
    """The endpoint has given the refresh token away: no other answer would come for the old one."""
    asked = asyncio.Event()

    async def late(_: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.sleep(0.5)
        return server.token()

    server.answers.append(late)
    async with running(database_url) as node:
        path = await subscribe(node, subscription(url))
        await asked.wait()
    async with running(database_url, run_deliveries) as node:
        assert (await stored(node, path)).token == "access-1-s3cret"


async def test_only_one_process_refreshes_a_token(
    database_url: str, server: TokenServer, url: str
) -> None:
    server.lifetime = 2
    loops = [run_token_refresh, run_token_refresh, run_token_refresh, run_deliveries]
    async with running(database_url, *loops) as node:
        path = await subscribe(node, subscription(url))
        await until(lambda: len(server.tokens) >= 3)
        assert "refresh" not in (await node.get(path))["status"]
    assert server.grants == [f"refresh-{number} s3cret" for number in range(len(server.grants))]
    assert server.most_under_way == 1


async def test_a_credential_that_a_client_stores_meanwhile_wins(
    node: Node, server: TokenServer, url: str
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def late(_: web.Request) -> web.StreamResponse:
        asked.set()
        await go_on.wait()
        return server.token()

    server.answers.append(late)
    path = await subscribe(node, subscription(url))
    await asked.wait()
    await node.put(path, subscription(url, lasts=3600, accesstoken="mine-s3cret"))
    go_on.set()
    await until(lambda: server.tokens)
    await subscribe(node, subscription(url, refreshtoken=server.refresh))
    await until(lambda: len(server.tokens) == 2)
    assert (await stored(node, path)).token == "mine-s3cret"


async def test_one_endpoint_that_never_answers_holds_back_no_other(
    node: Node, server: TokenServer, url: str
) -> None:
    silent = TokenServer()
    silent.answers = [never] * 40
    async with silent.serve() as elsewhere:
        for _ in range(10):
            body = subscription(elsewhere)
            await subscribe(node, body)
        await until(lambda: silent.most_under_way >= 4)
        await subscribe(node, subscription(url))
        await until(lambda: server.tokens)
    assert silent.most_under_way == 4


@pytest.mark.parametrize("state", ["ended", "expired"])
async def test_no_token_is_refreshed_for_a_subscription_that_is_over(
    database_url: str, server: TokenServer, url: str, state: str
) -> None:
    async with running(database_url, run_deliveries) as node:
        path = await subscribe(node, subscription(url))
        async with node.database.acquire() as connection:
            await connection.execute("UPDATE subscriptions SET state = $1", state)
    async with running(database_url, run_token_refresh) as node:
        other = await subscribe(node, subscription(url))
        await until(lambda: server.tokens)
        assert (await stored(node, path)).token == "access-0-s3cret"
        assert server.grants == ["refresh-0 s3cret"]
        assert other != path


async def test_an_event_warns_once_of_a_token_that_nothing_refreshes(
    database_url: str, server: TokenServer, url: str
) -> None:
    server.tokens.append("access-0-s3cret")
    async with running(database_url) as node:
        watching = {
            **subscription(url, lasts=7200),
            "types": ["concord.subscription.credentialexpiring"],
        }
        await subscribe(node, watching)
        paths = [
            await subscribe(node, without_refresh(subscription(url, lasts=lasts)))
            for lasts in (1800, 200_000)
        ]
        await until(lambda: server.subjects)
        await node.put(paths[1], without_refresh(subscription(url, lasts=1700)))
        await until(lambda: paths[1] in server.subjects)
        assert server.subjects == paths
        async with node.database.acquire() as connection:
            logged = await connection.fetchval(
                "SELECT data::text FROM subscription_events WHERE action = 'credentialexpiring'"
            )
    assert "accesstokenexpiresutc" in logged
    assert "s3cret" not in logged


def without_refresh(body: dict[str, Any]) -> dict[str, Any]:
    """The same with an access token alone, for events that do not occur."""
    given = {
        name: value
        for name, value in body["sinkcredential"].items()
        if not name.startswith("refresh")
    }
    credential = given | {"credentialtype": "ACCESSTOKEN"}
    return {**body, "sinkcredential": credential, "types": ["io.xregistry.none"]}
