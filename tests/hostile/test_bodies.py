"""Bodies that are larger than they look, or that never end, cost a node little."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator

from tests.e2e.nodes import NodeProcess
from tests.hostile.bystander import bystander
from tests.hostile.conftest import memory_of, peak_memory_of

MEBI = 2**20
LIMIT = 16 * MEBI


@contextlib.asynccontextmanager
async def sending(
    node: NodeProcess, body: bytes, *headers: str, missing: int = 0
) -> AsyncIterator[asyncio.StreamReader]:
    """Sends a body that is announced with `missing` bytes more; yields its answer."""
    head = (
        "PUT /messagegroups/attacked HTTP/1.1",
        f"Host: 127.0.0.1:{node.port}",
        f"Content-Length: {len(body) + missing}",
        "Connection: close",
        *headers,
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    try:
        writer.write("\r\n".join((*head, "", "")).encode() + body)
        # A client that is refused may see its connection closed.
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        yield reader
    finally:
        writer.close()


async def test_a_bomb_is_inflated_no_further_than_the_limit(victim: NodeProcess) -> None:
    """1 MB that inflates to 1 GiB."""
    before, sent = memory_of(victim), gzip.compress(bytes(64 * MEBI)) * 16
    async with bystander(victim.url) as seen:
        for _ in range(6):
            async with sending(victim, sent, "Content-Encoding: gzip") as reader:
                async with asyncio.timeout(20):
                    answer = await reader.read()
                assert answer.startswith(b"HTTP/1.1 413 ")
    seen.assert_served(seconds=0.5)
    assert peak_memory_of(victim) - before < 100 * MEBI


async def test_bodies_that_stall_cost_what_was_sent(victim: NodeProcess) -> None:
    """150 bodies of 16 KB that inflate to 16 MiB, but for their last byte."""
    before, sent = memory_of(victim), gzip.compress(b" " * LIMIT)[:-1]
    async with bystander(victim.url) as seen, contextlib.AsyncExitStack() as stack:
        for _ in range(150):
            body = sending(victim, sent, "Content-Encoding: gzip", missing=1)
            await stack.enter_async_context(body)
        await asyncio.sleep(2)  # the time in which nothing more is sent
    seen.assert_served()
    assert peak_memory_of(victim) - before < 50 * MEBI


async def test_large_bodies_at_once_are_held_within_the_share_of_a_client(
    victim: NodeProcess,
) -> None:
    """20 bodies of 15 MiB from one client, which hold 64 MiB, and 20 that inflate to as much."""
    before, plain = memory_of(victim), b" " * 15 * MEBI
    compressed = gzip.compress(plain)
    async with bystander(victim.url) as seen, contextlib.AsyncExitStack() as stack:
        readers = [
            await stack.enter_async_context(sending(victim, plain, missing=1)) for _ in range(20)
        ]
        async with asyncio.timeout(20):
            answers = asyncio.as_completed([reader.read(4096) for reader in readers])
            told = [await next(answers) for _ in range(16)]
        for _ in range(20):
            body = sending(victim, compressed, "Content-Encoding: gzip")
            readers.append(await stack.enter_async_context(body))
        async with asyncio.timeout(20):
            await asyncio.gather(*(reader.read() for reader in readers[20:]))
    assert all(answer.startswith(b"HTTP/1.1 429 ") for answer in told), told
    assert all(b"CONCORD_MAX_BODY_MEMORY_BYTES" in answer for answer in told)
    seen.assert_served()
    assert peak_memory_of(victim) - before < 200 * MEBI
