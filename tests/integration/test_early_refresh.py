"""A token that its sink refuses before its end is refreshed once, and the event is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from aiokafka.errors import SaslAuthenticationFailed

from catalog.subscriptions.delivery.dispatcher import run_deliveries
from catalog.subscriptions.delivery.tokenrefresh import run_token_refresh
from catalog.subscriptions.sinks.kafkasink import _refused
from catalog.subscriptions.sinks.sink import connect_failure, connection_refused
from catalog.supervisor import LoopTiming
from tests.integration.conftest import Node
from tests.integration.test_token_refresh import running, server, subscribe, subscription, url
from tests.integration.tokenendpoint import TokenServer, until

__all__ = ["server", "url"]

LASTS = 10**7
GROUPS = [{"prefix": {"subject": "/messagegroups/"}}]


@dataclass(slots=True)
class Clock:
    """The time of day, which a test can move on."""

    ahead: timedelta = field(default_factory=timedelta)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    @property
    def loops(self) -> list[Any]:
        timing = LoopTiming(now=self.now)
        return [partial(loop, timing=timing) for loop in (run_token_refresh, run_deliveries)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def node(database_url: str, clock: Clock) -> AsyncIterator[Node]:
    async with running(database_url, *clock.loops) as node:
        yield node


async def subscribed(node: Node, url: str, **credential: str) -> str:
    """The path of a subscription that makes a dead letter of an event at its first refusal."""
    body = subscription(url, lasts=LASTS, **credential)
    return await subscribe(node, body | {"config": {"retry": {"attempts": 1}}, "filters": GROUPS})


async def status_of(node: Node, path: str) -> dict[str, Any]:
    status: dict[str, Any] = (await node.get(path))["status"]
    return status


async def until_status(node: Node, path: str, name: str, value: Any) -> None:
    async with asyncio.timeout(20):
        while (await status_of(node, path))[name] != value:
            await asyncio.sleep(0.01)  # between two looks at the status


async def test_a_token_that_is_revoked_is_refreshed_and_no_event_is_lost(
    node: Node, server: TokenServer, url: str
) -> None:
    server.tokens.append("access-0-s3cret")
    path = await subscribed(node, url)
    await node.put("/messagegroups/a")
    await until(lambda: server.accepted)
    assert server.grants == []
    server.tokens.append("another-s3cret")
    await node.put("/messagegroups/b")
    await until(lambda: len(server.accepted) == 2)
    assert server.grants == ["refresh-0 s3cret"]
    assert server.subjects == ["/messagegroups/a", "/messagegroups/b"]
    assert server.accepted[1] == server.tokens[-1]
    await until_status(node, path, "delivered", 2)
    status = await status_of(node, path)
    assert (status["failed"], status["failedattempts"], "error" in status) == (0, 0, False)
    attempts = await node.get(f"{path}/attempts")
    assert "the sink answered 401" in [each["reason"] for each in attempts]


async def test_a_sink_that_refuses_every_token_causes_one_refresh(
    node: Node, server: TokenServer, url: str, clock: Clock
) -> None:
    """However often it is tried, and however much later."""
    server.refuses_all, server.lifetime = True, 10**6
    path = await subscribed(node, url)
    for number in range(3):
        await node.put(f"/messagegroups/{number}")
        await until_status(node, path, "failed", number + 1)
        clock.ahead += timedelta(hours=1)
    assert server.grants == ["refresh-0 s3cret"]
    # It has not lost the refresh that is due before the end of the token.
    clock.ahead += timedelta(seconds=server.lifetime)
    await until(lambda: len(server.grants) == 2)


async def test_tokens_are_refreshed_early_no_more_often_than_once_in_a_minute(
    node: Node, server: TokenServer, url: str, clock: Clock
) -> None:
    server.tokens.append("access-0-s3cret")
    path = await subscribed(node, url)
    for number, seconds in enumerate((0, 30, 31)):
        clock.ahead += timedelta(seconds=seconds)
        server.tokens.append("another-s3cret")
        await node.put(f"/messagegroups/{number}")
        if number == 1:
            await until_status(node, path, "failed", 1)
            # The next one is accepted with the token that is here.
            server.tokens.pop()
            await node.put("/messagegroups/x")
        await until_status(node, path, "delivered", number + 1)
    assert len(server.grants) == 2


async def test_a_token_that_nothing_refreshes_is_refused_as_it_was(
    node: Node, server: TokenServer, url: str
) -> None:
    server.refuses_all = True
    body = subscription(url, lasts=LASTS)
    credential = {
        name: value
        for name, value in body["sinkcredential"].items()
        if not name.startswith("refresh")
    }
    body["sinkcredential"] = credential | {"credentialtype": "ACCESSTOKEN"}
    path = await subscribe(node, body | {"config": {"retry": {"attempts": 2}}, "filters": GROUPS})
    await node.put("/messagegroups/a")
    await until_status(node, path, "failed", 1)
    assert (await status_of(node, path))["failedattempts"] == 2
    assert server.grants == []


async def test_a_refresh_token_that_is_under_way_is_not_used_again(
    database_url: str, server: TokenServer, url: str, clock: Clock
) -> None:
    """An endpoint may take one that it sees twice for stolen."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def late(_: web.Request) -> web.StreamResponse:
        asked.set()
        await go_on.wait()
        return server.token()

    server.answers.append(late)
    server.refuses_all = True
    async with running(database_url, *clock.loops, delivery_timeout_seconds=20) as node:
        path = await subscribe(node, subscription(url, lasts=90) | {"filters": GROUPS})
        clock.ahead += timedelta(seconds=46)
        await asked.wait()
        await node.put("/messagegroups/a")
        # Attempts are saved together with what their refusals ask for.
        async with asyncio.timeout(20):
            while not await node.get(f"{path}/attempts"):
                await asyncio.sleep(0.01)  # between two looks at the attempts
        # Other tokens are refreshed meanwhile, so whatever is due is looked for.
        other = TokenServer()
        async with other.serve() as elsewhere:
            await subscribe(node, subscription(elsewhere))
            await until(lambda: other.tokens)
        assert server.most_under_way == 1
        server.refuses_all = False
        go_on.set()
        await until(lambda: server.accepted)
    assert server.grants == ["refresh-0 s3cret"]


async def test_a_client_that_stores_another_credential_may_have_it_refreshed(
    node: Node, server: TokenServer, url: str
) -> None:
    server.refuses_all = True
    path = await subscribed(node, url)
    await node.put("/messagegroups/a")
    await until_status(node, path, "failed", 1)
    server.refuses_all = False
    body = subscription(url, lasts=LASTS, refreshtoken=server.refresh)
    server.tokens.append("another-s3cret")
    await node.put(path, body | {"filters": GROUPS})
    await node.put("/messagegroups/b")
    await until(lambda: server.accepted)
    assert len(server.grants) == 2


@pytest.mark.parametrize(
    ("answer", "is_unauthorized"),
    [
        (_refused(SaslAuthenticationFailed()), True),
        (_refused(TimeoutError()), False),
        (connect_failure(connection_refused("no", is_unauthorized=True)), True),
        (connect_failure(connection_refused("Server busy")), False),
    ],
)
def test_a_broker_tells_that_it_refused_the_credential(answer: Any, is_unauthorized: bool) -> None:
    assert answer.is_unauthorized == is_unauthorized


async def test_a_dead_letter_waits_for_the_refresh_and_is_delivered(
    node: Node, server: TokenServer, url: str, clock: Clock
) -> None:
    server.refuses_all, server.lifetime = True, 10**6
    path = await subscribed(node, url)
    await node.put("/messagegroups/a")
    await until_status(node, path, "failed", 1)
    server.refuses_all = False
    await node.put("/messagegroups/b")
    await until_status(node, path, "delivered", 1)
    clock.ahead += timedelta(seconds=61)
    server.tokens.append("another-s3cret")
    answer = await node.send("POST", f"{path}/deadletters/redeliver")
    assert answer.status == 202, answer.body
    await until_status(node, path, "deadletters", {"dead": 0, "waiting": 0, "due": 0})
    assert server.subjects == ["/messagegroups/b", "/messagegroups/a"]
    assert len(server.grants) == 2
