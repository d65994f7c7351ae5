"""Requests to a peer are guarded and bounded, and their failures are told apart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from catalog.client import BadAnswer, Client, ClientError, CursorExpired, Refused, Unreachable
from catalog.http.outboundconnections import open_session
from catalog.model.connectionfailure import UNREACHABLE
from catalog.settings import Settings
from replication.peers.handshake import shake_hands
from replication.peers.linkbounds import PacedClient
from replication.peers.linkerrors import cause_of, describe, may_pass

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Request = Callable[[Client], Awaitable[object]]


@asynccontextmanager
async def peer(
    handler: Handler, *, is_private_allowed: bool = True, timeout_seconds: float = 10
) -> AsyncIterator[Client]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    settings = Settings(allow_private_addresses=is_private_allowed)
    async with TestServer(app) as server, open_session(settings) as session:
        yield PacedClient(str(server.make_url("")), session, timeout_seconds)


def answering(status: int = 200, **options: Any) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, **options)

    return answer


async def read_changes(client: Client) -> list[bytes]:
    return [line async for line in client.change_lines("c", limit=10, wait_seconds=0)]


async def read_snapshot(client: Client) -> list[bytes]:
    return [line async for line in client.snapshot_lines()]


async def fetch(client: Client) -> list[bytes]:
    return [line async for line in client.fetch_lines([])]


STREAMS: list[Request] = [read_changes, read_snapshot, fetch]
REQUESTS: list[Request] = [shake_hands, *STREAMS]


@pytest.mark.parametrize("request_", REQUESTS)
async def test_a_peer_at_a_private_address_is_not_asked(request_: Request) -> None:
    async with peer(answering(), is_private_allowed=False) as client:
        with pytest.raises(Unreachable) as caught:
            await request_(client)
    said = describe(caught.value, client.url)
    assert "CONCORD_ALLOW_PRIVATE_ADDRESSES" in said
    assert "not a public address" in cause_of(caught.value)


@pytest.mark.parametrize(
    ("host", "is_private_allowed", "told"),
    [
        ("127.0.0.1:1", True, "cannot be reached: connection refused"),
        ("peer.invalid", True, "cannot be reached: unknown host"),
        ("127.0.0.1:1", False, UNREACHABLE),
        ("peer.invalid", False, UNREACHABLE),
    ],
)
async def test_a_peer_is_told_apart_only_at_addresses_that_may_be_connected_to(
    host: str, is_private_allowed: bool, told: str
) -> None:
    """Else the words would tell which hosts a private network has."""
    async with open_session(Settings(allow_private_addresses=is_private_allowed)) as session:
        client = PacedClient(f"http://{host}", session, 5)
        with pytest.raises(Unreachable) as caught:
            await client.handshake()
        assert describe(caught.value, client.url) == f"http://{host} {told}."
        assert may_pass(caught.value)


@pytest.mark.parametrize("request_", REQUESTS)
async def test_a_redirect_is_not_followed(request_: Request) -> None:
    async with peer(answering(302, headers={"Location": "/elsewhere"})) as client:
        with pytest.raises(BadAnswer, match="a redirect to /elsewhere"):
            await request_(client)


@pytest.mark.parametrize("status", [200, 400])
async def test_an_answer_that_is_no_stream_is_read_up_to_a_megabyte(status: int) -> None:
    async with peer(answering(status, body=b" " * (1024 * 1024 + 1))) as client:
        with pytest.raises(BadAnswer, match="more than 1048576 bytes"):
            await client.handshake()


@pytest.mark.parametrize("request_", STREAMS)
async def test_a_line_is_read_up_to_32_megabytes(request_: Request) -> None:
    async with peer(answering(body=b"x" * (32 * 1024 * 1024 + 1)), timeout_seconds=60) as client:
        with pytest.raises(BadAnswer, match="a line of more than 33554432 bytes"):
            await request_(client)


@pytest.mark.parametrize("request_", STREAMS)
async def test_a_line_that_broke_off_is_left_out(request_: Request) -> None:
    async with peer(answering(body=b"one\ntwo\nthr")) as client:
        assert await request_(client) == [b"one", b"two"]


@pytest.mark.parametrize("request_", STREAMS)
async def test_a_stream_that_stands_still_is_given_up(request_: Request) -> None:
    async def stand_still(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(1)
        return response

    async with peer(stand_still, timeout_seconds=0.2) as client:
        with pytest.raises(Unreachable) as caught:
            await request_(client)
    assert may_pass(caught.value)


async def test_a_snapshot_may_take_any_time_while_it_advances() -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(10):
            await response.write(b"line\n")
            await asyncio.sleep(0.1)
        return response

    async with peer(trickle, timeout_seconds=0.5) as client:
        assert len([line async for line in client.snapshot_lines()]) == 10
        with pytest.raises(Unreachable):
            await fetch(client)


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("status", [429, 503])
async def test_a_peer_says_how_long_to_wait_in_seconds_or_with_a_date(
    status: int, request_: Request
) -> None:
    later = datetime.now(UTC) + timedelta(seconds=60)
    for header in ("60", format_datetime(later, usegmt=True)):
        async with peer(answering(status, headers={"Retry-After": header})) as client:
            with pytest.raises(Refused) as caught:
                await request_(client)
        assert may_pass(caught.value)
        assert 50 < caught.value.retry_after <= 60


@pytest.mark.parametrize(
    ("status", "is_passing"), [(400, False), (401, False), (404, False), (500, True), (502, True)]
)
async def test_an_error_of_the_peer_may_pass_and_a_refusal_does_not(
    status: int, is_passing: bool
) -> None:
    async with peer(answering(status, text='{"title": "no"}')) as client:
        with pytest.raises(Refused) as caught:
            await client.handshake()
    assert may_pass(caught.value) is is_passing
    told, _, advice = describe(caught.value, client.url).partition(" Give the link a token")
    assert told == f"{client.url} answered {status}: no"
    assert bool(advice) is (status == 401)


async def test_a_cursor_that_the_log_does_not_reach_is_told_apart() -> None:
    async with peer(answering(410)) as client:
        with pytest.raises(CursorExpired):
            await read_changes(client)


async def test_another_rule_of_digests_is_refused_with_a_hint() -> None:
    said = {"instance": str(uuid4()), "authority": "urn:a", "digestversion": 99}

    async def greet(_: web.Request) -> web.Response:
        return web.json_response(said)

    async with peer(greet) as client:
        with pytest.raises(ClientError, match="by version 99") as caught:
            await shake_hands(client)
    assert not may_pass(caught.value)
    assert "same version" in describe(caught.value, client.url)
