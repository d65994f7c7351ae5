"""Links do not wait for the peers of other links: the connections are shared among them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from catalog.settings import Settings
from replication.transfer.linkrun import LinkConnections
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    link,
    link_is,
    running,
    start_member,
    write_some,
)

_CONNECTIONS = 4


@pytest.fixture
async def pair(postgres_url: str, template: str) -> AsyncIterator[tuple[Node, Node]]:
    """Two fresh nodes, of which the first one connects to few servers at a time."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(
            one, max_outbound_connections=_CONNECTIONS, request_timeout_seconds=2
        ) as target,
        start_member(two) as source,
    ):
        yield target, source


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """A server that takes requests and never answers."""

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while await reader.read(65536):
                pass
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()


async def test_links_to_silent_peers_leave_connections_to_the_others(
    pair: tuple[Node, Node],
) -> None:
    """There are more of them than connections."""
    target, source = pair
    await write_some(source, "g")
    async with silent_server() as silent:
        for number in range(3 * _CONNECTIONS):
            body = {"id": f"s{number}", "source": f"{silent}/{number}", "mode": "pull"}
            body["authority"] = f"urn:silent:{number}"
            assert (await target.send("POST", "/replication/links?force", body)).status == 201
        async with running(target):
            for number in range(3 * _CONNECTIONS):
                await link_is(target, f"s{number}", "waiting")
            await link(target, source, id="healthy")
            await eventually(lambda: carries(target, source))
            await link_is(target, "healthy", "current")
            await source.put("/messagegroups/g/messages/m0", {"description": "changed"})
            await eventually(lambda: carries(target, source))


async def test_links_that_find_no_place_to_wait_at_their_source_pull(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one, max_outbound_connections=2, pull_interval_seconds=1) as target,
        start_member(two) as source,
    ):
        for number in range(6):
            await source.put(f"/messagegroups/g{number}")
            scope = [f"/messagegroups/g{number}"]
            await link(target, source, id=f"l{number}", scope=scope)
        async with running(target):
            await eventually(lambda: carries(target, source))
            for number in range(6):
                await source.put(f"/messagegroups/g{number}", {"description": "changed"})
            await eventually(lambda: carries(target, source))


async def test_places_to_wait_are_given_back() -> None:
    connections = LinkConnections(Settings(max_outbound_connections=4))
    with connections.place_to_wait() as first, connections.place_to_wait() as second:
        assert first
        assert second
        with connections.place_to_wait() as third:
            assert not third
    with connections.place_to_wait() as again:
        assert again
