"""Bootstrap of a replica over a link, against a bare reader that copies the same stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.figure import Aim, Figure
from benchmarks.load import connected, send_request
from benchmarks.messages import REPLICATED_PER_GROUP, document, entities_in
from benchmarks.process import bare, node
from benchmarks.size import Size
from catalog.client import Client
from catalog.operations.links import NewLink
from catalog.operations.signing import GET_SIGNING, SET_SIGNING, SigningSwitch

_GROUPS_AT_ONCE = 40
_LONGEST_SECONDS = 120
_LOOK_SECONDS = 0.05


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure entities per second, until all digest buckets are equal: as they are, and signed."""
    groups, count = size.replica_groups, entities_in(size.replica_groups, REPLICATED_PER_GROUP)
    data = directory / "bootstrap-bare"
    async with node(directory, "bootstrap-source") as source:
        await seed(source, groups)
        async with bare(directory, "bootstrap-bare", "--directory", str(data)) as url:
            bare_seconds = await _copy_seconds(url, source, count)
        async with node(directory, "bootstrap-replica") as replica:
            seconds = await _follow_seconds(replica, source)
        await _sign(source)
        async with node(directory, "bootstrap-verifying") as replica:
            verified_seconds = await _follow_seconds(replica, source, trust=["first"])
    return [
        Figure(
            name="Bootstrap of a replica",
            unit="entities/s",
            value=count / seconds,
            baseline=count / bare_seconds,
            aim=Aim(bound=10_000),
            note=f"{count:,} entities in {seconds:.1f} s, digest buckets equal",
        ),
        Figure(
            name="Bootstrap of a replica that verifies signatures",
            unit="entities/s",
            value=count / verified_seconds,
            baseline=count / seconds,
            aim=Aim(bound=1 / 1.2, of_ratio=True),
            note=f"{verified_seconds:.1f} s; the baseline is the replica that verifies none",
        ),
    ]


async def seed(url: str, groups: int, messages: int = REPLICATED_PER_GROUP) -> None:
    async with connected(url, 1) as (connection,):
        for first in range(0, groups, _GROUPS_AT_ONCE):
            number = min(_GROUPS_AT_ONCE, groups - first)
            body = orjson.dumps(document("g", number, messages, first=first))
            await connection.request(send_request("POST", url, "/", body))


async def _copy_seconds(url: str, source: str, count: int) -> float:
    """Return the seconds that a bare reader takes for the source's snapshot.

    Raises:
        ValueError: the snapshot does not have as many entities as were written.
    """
    async with Client.open(url) as client:
        started = time.perf_counter()
        found = await client.post("/pull", None, {"snapshot": f"{source}/replication/snapshot"})
        seconds = time.perf_counter() - started
    if found["entities"] != count:
        raise ValueError(f"the snapshot has {found['entities']} entities, not {count}")
    return seconds


async def _sign(url: str) -> None:
    """Have a node sign what it has."""
    async with Client.open(url) as client, asyncio.timeout(_LONGEST_SECONDS):

        async def is_complete() -> bool:
            return (await client.call(GET_SIGNING)).complete

        await client.call(SET_SIGNING, SigningSwitch(on=True))
        await until(is_complete)


async def _follow_seconds(replica: str, source: str, *, trust: Sequence[str] = ()) -> float:
    async with (
        Client.open(replica) as target,
        Client.open(source) as origin,
        asyncio.timeout(_LONGEST_SECONDS),
    ):
        wanted = await fingerprints(origin)
        started = time.perf_counter()
        definition = NewLink(source=source, mode="pull", trust=list(trust))
        link = await target.add_link(definition)
        await until_equal(target, link.id, wanted)
        return time.perf_counter() - started


async def until_equal(target: Client, link: str, wanted: Any) -> None:
    """Wait for the link's first cursor, which is cheap to read, then for equal fingerprints."""

    async def has_cursor() -> bool:
        return (await target.link(link)).cursor is not None

    await until(has_cursor)
    await until_same(target, wanted)


async def until_same(target: Client, wanted: Any) -> None:
    """Wait until a catalog has the fingerprints of another one."""

    async def is_same() -> bool:
        return bool(await fingerprints(target) == wanted)

    await until(is_same)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await is_so():
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def fingerprints(client: Client) -> Any:
    """The bucket fingerprints of a catalog, which are equal in equal catalogs."""
    return (await client.get("/replication/digests"))["buckets"]
