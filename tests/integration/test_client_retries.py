"""What the client repeats, what it does not, and how long it waits, on a virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random

import pytest
from aiohttp import web

from catalog.client import ONCE, Backoff, Client, ClientError, Refused, Retry, Unreachable

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DROP = -1

Request = Callable[[Client], Awaitable[object]]


@dataclass
class Node:
    """Answers with these statuses one after the other, then with 200; -1 drops the connection."""

    statuses: list[int]
    headers: dict[str, str] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    url: str = ""
    waits: list[float] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        await request.read()
        self.seen.append(request.method)
        status = self.statuses.pop(0) if self.statuses else 200
        if status == DROP:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({}, status=abs(status), headers=self.headers)

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)

    def retry(self) -> Retry:
        backoff = Backoff(initial=1, factor=2, cap=10, jitter=0)
        return Retry(backoff=backoff, sleep=self.wait, clock=lambda: NOW, random=Random(0))


@asynccontextmanager
async def misbehaving(
    *statuses: int,
    timeout_seconds: float = 60,
    headers: dict[str, str] | None = None,
    **policy: object,
) -> AsyncIterator[tuple[Node, Client]]:
    node = Node(list(statuses), headers or {})
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", node.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    node.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with Client.open(
            node.url, timeout_seconds=timeout_seconds, retry=node.retry()
        ) as client:
            yield node, client
    finally:
        await runner.cleanup()


HARMLESS: list[Request] = [
    lambda client: client.get("/"),
    lambda client: client.request("HEAD", "/"),
    lambda client: client.replace("/endpoints/e", {}),
    lambda client: client.delete("/endpoints/e"),
    lambda client: client.create("/endpoints/e", {}),
    lambda client: client.update("/endpoints/e", {}, epoch=3),
    lambda client: client.validate("/messagegroups/g/messages/m", {}),
]
HARMFUL: list[Request] = [
    lambda client: client.update("/endpoints/e", {}),
    lambda client: client.add_version("/messagegroups/g/messages/m", {}),
    lambda client: client.import_groups({}),
]


@pytest.mark.parametrize("request_", HARMLESS)
@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_what_does_no_harm_is_repeated_until_it_is_answered(
    request_: Request, status: int
) -> None:
    async with misbehaving(status, status) as (node, client):
        await request_(client)
    assert len(node.seen) == 3
    assert node.waits == [1, 2]


@pytest.mark.parametrize("request_", HARMFUL)
@pytest.mark.parametrize("status", [502, 503, 504])
async def test_what_could_be_done_twice_is_not_repeated_in_doubt(
    request_: Request, status: int
) -> None:
    async with misbehaving(status) as (node, client):
        with pytest.raises(Refused) as caught:
            await request_(client)
    assert caught.value.is_retryable
    assert caught.value.is_doubtful
    assert (len(node.seen), node.waits) == (1, [])


@pytest.mark.parametrize("request_", HARMFUL)
async def test_what_was_turned_away_is_repeated_whatever_it_is(request_: Request) -> None:
    async with misbehaving(429) as (node, client):
        await request_(client)
    assert len(node.seen) == 2


@pytest.mark.parametrize("status", [400, 404, 409, 410, 412, 500])
async def test_a_refusal_for_good_is_not_repeated(status: int) -> None:
    async with misbehaving(status) as (node, client):
        with pytest.raises(Refused) as caught:
            await client.get("/")
    assert caught.value.problem.status == status
    assert not caught.value.is_retryable
    assert len(node.seen) == 1


async def test_a_dropped_connection_is_tried_again() -> None:
    """aiohttp tries at once, the policy after a while."""
    async with misbehaving(DROP, DROP) as (node, client):
        assert await client.get("/") == {}
    assert (len(node.seen), node.waits) == (3, [1])


async def test_a_write_whose_connection_was_dropped_is_told_to_be_doubtful() -> None:
    async with misbehaving(DROP) as (node, client):
        with pytest.raises(Unreachable) as caught:
            await client.update("/endpoints/e", {})
    assert caught.value.is_doubtful
    assert node.seen == ["PATCH"]


async def test_what_never_reached_the_node_is_repeated_whatever_it_is() -> None:
    node = Node([])
    async with Client.open("http://127.0.0.1:1", retry=node.retry()) as client:
        with pytest.raises(Unreachable) as caught:
            await client.import_groups({})
    assert not caught.value.is_doubtful
    assert node.waits == [1, 2, 4]


async def test_a_delete_that_was_carried_out_before_its_answer_was_lost_succeeds() -> None:
    async with misbehaving(503, 404) as (node, client):
        await client.delete("/endpoints/e")
    assert node.seen == ["DELETE", "DELETE"]


async def test_a_delete_that_was_turned_away_and_finds_nothing_then_is_refused() -> None:
    async with misbehaving(429, 404) as (_, client):
        with pytest.raises(Refused):
            await client.delete("/endpoints/e")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3),
        ("3600", 10),
        (format_datetime(NOW + timedelta(seconds=7), usegmt=True), 7),
        (format_datetime(NOW + timedelta(days=7), usegmt=True), 10),
        (format_datetime(NOW - timedelta(days=7), usegmt=True), 1),
        ("soon", 1),
    ],
)
async def test_a_node_says_how_long_to_wait_up_to_the_cap(header: str, seconds: float) -> None:
    async with misbehaving(503, headers={"Retry-After": header}) as (node, client):
        await client.get("/")
    assert node.waits == [seconds]


async def test_the_last_failure_is_told_when_all_attempts_are_used_up() -> None:
    async with misbehaving(502, 503, 504, 502, headers={"Retry-After": "5"}) as (node, client):
        with pytest.raises(Refused) as caught:
            await client.get("/")
    assert (caught.value.problem.status, caught.value.retry_after) == (502, 5)
    assert node.waits == [5, 5, 5]


async def test_nothing_is_repeated_past_the_time_that_a_call_may_take() -> None:
    async with misbehaving(503, headers={"Retry-After": "9"}, timeout_seconds=5) as (node, client):
        with pytest.raises(Refused):
            await client.get("/")
    assert node.waits == []


async def test_a_policy_may_repeat_nothing() -> None:
    async with misbehaving(503) as (node, client), Client.open(node.url, retry=ONCE) as once:
        with pytest.raises(ClientError):
            await once.get("/")
        assert await client.get("/") == {}
