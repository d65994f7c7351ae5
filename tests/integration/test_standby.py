"""Nodes on a database that PostgreSQL replicates: a standby takes over, and they go on by it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from catalog.store.postgresaccount import temporary_directory
from tests.integration.conftest import Node
from tests.integration.federation import (
    carries,
    databases,
    eventually,
    link,
    link_history_is,
    link_is,
    running,
    start_member,
)
from tests.integration.standby import ServerPair, server_pair
from tests.integration.test_outage import watched

WRITERS = 16
GROUP = "/messagegroups/g"
FAILOVER_SECONDS = 10.0


@pytest.fixture
def directory() -> Iterator[Path]:
    with temporary_directory("concord-pair-") as made:
        yield made


@pytest.fixture
async def servers(directory: Path) -> AsyncIterator[ServerPair]:
    async with server_pair(directory) as pair:
        yield pair


@pytest.fixture
async def peer(postgres_url: str, template: str) -> AsyncIterator[Node]:
    """A node on a server that loses nothing."""
    async with databases(postgres_url, template, 1) as [dsn], start_member(dsn) as node:
        yield node


@contextlib.asynccontextmanager
async def nodes_of_one_catalog(servers: ServerPair) -> AsyncIterator[list[Node]]:
    """Two nodes, as on two hosts, on one database of two servers."""
    async with (
        start_member(servers.dsn, pull_interval_seconds=0.5) as one,
        start_member(servers.dsn, pull_interval_seconds=0.5) as two,
        watched(one.database),
        watched(two.database),
    ):
        yield [one, two]


@dataclass(slots=True)
class Writers:
    """Sixteen clients that write for ever; `acknowledged` are the xids of what was answered 201."""

    nodes: list[Node]
    acknowledged: list[str] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._write(number)) for number in range(WRITERS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self, writer: int) -> None:
        node, number = self.nodes[writer % len(self.nodes)], 0
        while True:
            number += 1
            xid = f"{GROUP}/messages/w{writer}-{number}"
            if (await node.send("PUT", xid, {})).status == 201:
                self.acknowledged.append(xid)
            else:
                await asyncio.sleep(0.05)  # as a client does that is told to try again

    async def have_written(self, number: int) -> None:
        """Wait for so many more acknowledgements."""
        wanted = len(self.acknowledged) + number

        async def is_so() -> bool:
            return len(self.acknowledged) >= wanted

        await eventually(is_so, timeout_seconds=FAILOVER_SECONDS + 10)


async def events_of(node: Node, id: str) -> list[str]:
    history = (await node.get(f"/replication/links/{id}"))["history"]
    return [event["event"] for event in history]


async def has(node: Node, path: str) -> bool:
    return (await node.send("GET", path)).status == 200


async def follows(peer: Node, source: Node) -> bool:
    """Whether a peer has what a catalog has.

    A connection to the old primary may be the next one that a request gets; that request is told
    to try again.
    """
    answer = await source.send("GET", "/replication/digests")
    return answer.status == 200 and await carries(peer, source)


@pytest.mark.parametrize("is_killed", [True, False])
async def test_a_synchronous_standby_that_takes_over_loses_nothing_that_was_acknowledged(
    servers: ServerPair, peer: Node, is_killed: bool
) -> None:
    """The primary is killed, or hangs with all its connections."""
    await servers.wait_for_standby()
    async with nodes_of_one_catalog(servers) as nodes:
        one, two = nodes
        await one.put(GROUP)
        await link(peer, one, id="to-catalog")
        await link(one, peer, id="to-peer")
        writers = Writers(nodes)
        async with running(one, two, peer, deliveries=True):
            await link_is(peer, "to-catalog", "current")
            async with writers.running():
                await writers.have_written(10 * WRITERS)
                if is_killed:
                    servers.kill_primary()
                else:
                    servers.freeze_primary()
                await servers.promote()
                promoted = time.monotonic()
                await writers.have_written(1)
                assert time.monotonic() - promoted < FAILOVER_SECONDS
                await writers.have_written(10 * WRITERS)
            # Links run on, and each of the two nodes hears what the other one writes.
            await peer.put("/messagegroups/after")
            await eventually(lambda: has(two, "/messagegroups/after"), 30)
            await eventually(lambda: follows(peer, one), 30)
        here = {f"{GROUP}/messages/{id}" for id in await one.get(f"{GROUP}/messages?limit=100000")}
        assert not set(writers.acknowledged) - here
        assert "lost data" not in await events_of(peer, "to-catalog")
        assert "another instance" not in await events_of(peer, "to-catalog")


async def test_what_an_asynchronous_standby_lacks_is_noticed_as_lost(
    servers: ServerPair, peer: Node
) -> None:
    async with nodes_of_one_catalog(servers) as nodes:
        one, two = nodes
        await one.put(GROUP)
        for name in ("kept", "gone"):
            await one.put(f"{GROUP}/messages/{name}")
        await one.send("DELETE", f"{GROUP}/messages/gone")
        await link(peer, one, id="to-catalog")
        async with running(peer):
            await link_is(peer, "to-catalog", "current")
            await servers.wait_until_equal()
            await servers.standby.stop()
            for number in range(16):
                await two.put(f"{GROUP}/messages/lost{number}")
            await eventually(lambda: has(peer, f"{GROUP}/messages/lost15"))
            servers.kill_primary()
            await servers.standby.start()
            await servers.promote()

            async def are_writable() -> bool:
                answers = [await n.send("PUT", f"{GROUP}/messages/other", {}) for n in nodes]
                return all(answer.status in (200, 201) for answer in answers)

            await eventually(are_writable, FAILOVER_SECONDS + 10)
            await link_history_is(peer, "to-catalog", "lost data")
            # The peer asks before it deletes most of what it has.
            await link_is(peer, "to-catalog", "asking")
            question = (await peer.get("/replication/links/to-catalog")).get("question")
            assert question["deletions"] == 16 * 2
            body = {"allow": question["digest"]}
            await peer.send("PATCH", "/replication/links/to-catalog", body)
            await two.put(f"{GROUP}/messages/later")
            await eventually(lambda: has(peer, f"{GROUP}/messages/later"), 30)
            await eventually(lambda: follows(peer, one), 30)
        assert not await has(peer, f"{GROUP}/messages/lost0")
        for node in (one, peer):
            assert not await has(node, f"{GROUP}/messages/gone")
