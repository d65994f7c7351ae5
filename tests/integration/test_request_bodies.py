"""Bodies of requests: how they may be coded, and how much of them a node holds."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import pytest

from catalog.http.body import BODY_MEMORY
from tests.integration.conftest import Node, assert_problem, start_node

GROUP = "/messagegroups/g"
LARGE = b"{" + b" " * 180_000 + b"}"
# A client may hold a quarter of all.
MOST, MOST_OF_CLIENT, TAKEN = 1_200_000, 300_000, 700_000


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    """A node that holds two large bodies of a client, and four in all."""
    async with start_node(
        database_url,
        max_body_memory_bytes=MOST,
        trusted_proxies="127.0.0.0/8",
    ) as running:
        running.client.app[BODY_MEMORY].take("", TAKEN)
        yield running


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("X-GZip", gzip.compress),
        ("deflate", zlib.compress),
        ("identity", bytes),
    ],
)
async def test_a_body_may_be_compressed(node: Node, coding: str, compress: object) -> None:
    assert callable(compress)
    body = compress(b'{"description":"small"}')
    answer = await node.send("PUT", GROUP, body=body, Content_Encoding=coding)
    assert answer.status == 201, answer.body
    assert (await node.get(GROUP))["description"] == "small"


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "snappy"])
async def test_other_codings_are_refused_with_those_that_are_accepted(
    node: Node, coding: str
) -> None:
    """RFC 9110 15.5.16: 415 with `Accept-Encoding`."""
    answer = await node.send("PUT", GROUP, body=b"{}", Content_Encoding=coding)
    assert answer.status == 415
    assert answer.headers["Accept-Encoding"] == "gzip, deflate"
    assert assert_problem(answer)["args"] == {"coding": coding}
    assert (await node.send("GET", GROUP)).status == 404


class Unfinished:
    """Large bodies that lack their last byte."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._writers: list[asyncio.StreamWriter] = []

    async def send(self, id: str, client: str) -> asyncio.StreamReader:
        url = self._node.client.make_url("")
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = (
            f"PUT /messagegroups/{id} HTTP/1.1",
            f"Host: {url.authority}",
            f"X-Forwarded-For: {client}",
            f"Content-Length: {len(LARGE)}",
        )
        writer.write("\r\n".join((*head, "", "")).encode() + LARGE[:-1])
        await writer.drain()
        self._writers.append(writer)
        return reader

    def finish(self) -> None:
        for writer in self._writers:
            writer.write(LARGE[-1:])

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


@pytest.fixture
async def unfinished(node: Node) -> AsyncIterator[Unfinished]:
    bodies = Unfinished(node)
    yield bodies
    bodies.close()


async def _status(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(10):
        return int((await reader.readline()).split()[1])


async def test_a_client_is_told_that_it_sends_too_much_at_once(
    node: Node, unfinished: Unfinished
) -> None:
    first, second = [await unfinished.send(id, "192.0.2.1") for id in ("a", "b")]
    third = await unfinished.send("c", "192.0.2.1")
    async with asyncio.timeout(10):
        refusal = await third.read()
    assert refusal.startswith(b"HTTP/1.1 429 ")
    assert b"Connection: close" in refusal
    assert b"CONCORD_MAX_BODY_MEMORY_BYTES" in refusal

    small = await node.send("PUT", GROUP, {}, X_Forwarded_For="192.0.2.1")
    assert small.status == 201, "a small body is accepted beside large ones"
    unfinished.finish()
    assert [await _status(first), await _status(second)] == [201, 201]
    again = await node.send("PUT", GROUP, body=LARGE, X_Forwarded_For="192.0.2.1")
    assert again.status == 200, "what was held is given back"


async def test_all_clients_together_hold_no_more_than_the_node_can(
    node: Node, unfinished: Unfinished
) -> None:
    held = [await unfinished.send(f"a{n}", f"192.0.2.{n}") for n in range(4)]
    fifth = await unfinished.send("b", "192.0.2.9")
    async with asyncio.timeout(10):
        refusal = await fifth.read()
    assert refusal.startswith(b"HTTP/1.1 503 ")
    assert b"CONCORD_MAX_BODY_MEMORY_BYTES" in refusal
    small = await node.send("PUT", GROUP, {}, X_Forwarded_For="192.0.2.9")
    assert small.status == 201, "a small body is accepted beside large ones"
    unfinished.finish()
    assert [await _status(reader) for reader in held] == [201] * 4


async def test_a_bodys_inflated_size_counts(node: Node) -> None:
    body = gzip.compress(b" " * 2 * MOST_OF_CLIENT)
    answer = await node.send("PUT", GROUP, body=body, Content_Encoding="gzip")
    assert answer.status == 429, answer.body
    assert assert_problem(answer)["args"]["setting"] == "CONCORD_MAX_BODY_MEMORY_BYTES"
