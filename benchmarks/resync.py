"""Resynchronisation of a replica that differs a little from its source, and of an equal one."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.bootstrap import fingerprints, seed, until, until_equal
from benchmarks.figure import Aim, Figure, middle
from benchmarks.load import connected, send_request
from benchmarks.messages import REPLICATED_PER_GROUP, entities_in
from benchmarks.process import free_port, node
from benchmarks.size import Size
from catalog.client import Client
from catalog.operations.links import NewLink

_ENTITIES = 100_000
_DIFFERING = 100
_ROUNDS = 3
_LONGEST_SECONDS = 170


@dataclass(slots=True)
class _Counter:
    """The bytes that pass in both directions of all connections."""

    bytes: int = 0

    async def copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(65536):
                self.bytes += len(part)
                writer.write(part)
                await writer.drain()
        writer.close()


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure a reset of a link, until all digest buckets are equal again."""
    whole = entities_in(1, REPLICATED_PER_GROUP)
    groups = -(-_ENTITIES // whole) if size.replica_groups >= _ENTITIES // whole // 2 else 40
    count = groups * whole
    async with (
        asyncio.timeout(_LONGEST_SECONDS),
        node(directory, "resync-source") as source,
        node(directory, "resync-replica") as replica,
        _counted(source) as (way, counter),
        Client.open(replica) as target,
        Client.open(source) as origin,
    ):
        await seed(source, groups)
        authority = (await origin.handshake()).authority
        link = {"id": "from", "source": way, "mode": "pull", "authority": authority}
        began = time.perf_counter()
        await target.add_link(NewLink(**link))
        await until_equal(target, "from", await fingerprints(origin))
        everything, copied = time.perf_counter() - began, counter.bytes
        taken, differing_bytes = [], []
        for number in range(_ROUNDS):
            await target.remove_link("from")
            await _change(source, groups, f"round {number}")
            wanted = await fingerprints(origin)
            before, began = counter.bytes, time.perf_counter()
            await target.add_link(NewLink(**link))
            await until_equal(target, "from", wanted)
            taken.append(time.perf_counter() - began)
            differing_bytes.append(counter.bytes - before)
        equal = await _compare_equal(target, counter)
    return [
        Figure(
            name="Resynchronise, 100 differ",
            unit="s",
            value=middle(taken),
            baseline=everything,
            aim=Aim(bound=2, is_most=True),
            note=f"of {count:,} entities; {middle(differing_bytes) / 1024:,.0f} KiB; "
            f"the baseline copies all, {copied / 1024:,.0f} KiB",
        ),
        Figure(
            name="Find equal catalogs equal",
            unit="KiB",
            value=equal / 1024,
            baseline=copied / 1024,
            aim=Aim(bound=64, is_most=True),
            note=f"{count:,} entities; the baseline copies all",
        ),
    ]


async def _change(url: str, groups: int, text: str) -> None:
    """Change one version of each of some messages, in groups all over the catalog."""
    async with connected(url, 1) as (connection,):
        for number in range(_DIFFERING):
            path = f"/messagegroups/g{number * groups // _DIFFERING}/messages/m{number % 60}"
            body = f'{{"description": "{text}"}}'.encode()
            await connection.request(send_request("PUT", url, path, body))


async def _compare_equal(target: Client, counter: _Counter) -> int:
    """The bytes that a reset exchanges, without what a link reads of the feed afterwards."""
    before = counter.bytes
    await target.reset_link("from")

    async def is_current() -> bool:
        return bool((await target.link("from")).state == "current")

    await until(is_current)
    return counter.bytes - before


@contextlib.asynccontextmanager
async def _counted(url: str) -> AsyncIterator[tuple[str, _Counter]]:
    """A way to a server that counts bytes; yield its URL."""
    counter, port = _Counter(), free_port()
    parts = urlsplit(url)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection(parts.hostname, parts.port)
        await asyncio.gather(counter.copy(reader, out), counter.copy(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{port}", counter
    finally:
        server.close()
