"""Readers who take no bytes keep neither requests nor the streams of other clients waiting."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp

from tests.e2e.nodes import NodeProcess, until
from tests.hostile.bystander import bystander
from tests.hostile.conftest import StartNode
from tests.hostile.slowreaders import slow_readers

# As many as it took to use up the connections of requests and of streams.
_READERS = ["/replication/snapshot"] * 4 + ["/export"] * 8


async def _fill(node: NodeProcess) -> None:
    """Write 8 MB, more than the buffers of the sockets hold."""
    group = {"messages": {f"m{number}": {"description": "x" * 4000} for number in range(200)}}
    async with aiohttp.ClientSession(node.url) as session:
        for number in range(10):
            async with session.put(f"/messagegroups/g{number}", json=group) as answer:
                assert answer.status == 201, await answer.text()


@contextlib.asynccontextmanager
async def _another_client(node: NodeProcess) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
    async with aiohttp.ClientSession(node.url, connector=connector) as session:
        yield session


async def test_slow_readers_have_their_share_of_streams_and_no_more(victim: NodeProcess) -> None:
    """Before: 5 GETs and 2 PUTs in 45 seconds, and 503 for everybody else's snapshots."""
    await _fill(victim)
    async with bystander(victim.url) as seen, slow_readers(victim.url, _READERS) as readers:
        await until(lambda: readers.statuses[200] >= 4, what="four slow answers")
        async with _another_client(victim) as client:
            for path in ("/replication/snapshot", "/export", "/replication/digests?format=csv"):
                async with client.get(path) as answer:
                    await answer.read()
                    assert answer.status == 200, path
        assert readers.statuses[200] == 4, readers
    seen.assert_served(seconds=1.0)


async def test_slow_readers_are_told_the_limit_and_cut_in_the_end(start_victim: StartNode) -> None:
    async with start_victim(
        CONCORD_REQUEST_TIMEOUT_SECONDS="2", CONCORD_STREAM_LEAST_RATE="1000000"
    ) as node:
        await _fill(node)
        async with slow_readers(node.url, _READERS) as readers:
            await until(lambda: readers.statuses[429], what="a refusal")
            # Others get the shares of the first four.
            await until(lambda: readers.statuses[200] >= 8, what="the cut")
        assert set(readers.statuses) == {200, 429}
        assert all("CONCORD_STREAMS" in each for each in readers.refusals)
        assert node.log.read_text().count("CONCORD_STREAM_LEAST_RATE") >= 4


async def test_a_reader_that_keeps_the_least_rate_gets_everything(start_victim: StartNode) -> None:
    """It takes several times as long as a request may."""
    async with start_victim(
        CONCORD_REQUEST_TIMEOUT_SECONDS="1", CONCORD_STREAM_LEAST_RATE="1000000"
    ) as node:
        await _fill(node)
        begun = asyncio.get_running_loop().time()
        async with (
            aiohttp.ClientSession(node.url) as session,
            session.get("/replication/snapshot") as answer,
        ):
            last = b""
            while part := await answer.content.read(400_000):
                last = part
                await asyncio.sleep(0.15)  # the reader's pace: 2 MB a second
        assert last.endswith(b"}\n")
        assert b'"cursor"' in last
        assert asyncio.get_running_loop().time() - begun > 2
