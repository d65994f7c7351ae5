"""The inputs of reconciliation: rows a second from each kind, beside a bare reader of the same."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import aiohttp
import asyncpg
import orjson
import pyarrow.dataset as ds
from aiokafka import AIOKafkaConsumer

from benchmarks.bootstrap import seed, until
from benchmarks.brokers import running
from benchmarks.figure import Aim, Figure, middle, spread
from benchmarks.messages import REPLICATED_PER_GROUP, entities_in
from benchmarks.process import node_process
from benchmarks.processor import family_seconds, postmaster_of
from benchmarks.size import Size
from benchmarks.table import print_left_out
from catalog.client import Client
from catalog.operations.links import NewLink
from catalog.store.embeddedpostgres import start_embedded
from replication.reconcile.bucketplan import ROWS_PER_READ, split
from replication.reconcile.digestrows import ALL_BUCKETS, CSV_COLUMNS
from replication.reconcile.inputs.input import parse_inputs
from replication.reconcile.inputs.snapshotinput import write_snapshot
from replication.store.digests import copy_rows
from tests.brokers.kafka import NoKafka, running_kafka

_ROUNDS = 3
_LONGEST_SECONDS = 180
_ASKED = 20
_TOPIC = "copies"
_WALKED = "/messagegroups?inline=messages.meta,messages.versions&doc&limit=100"

_Read = Callable[[], Awaitable[int]]


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure every kind of input over one catalog, and its fingerprints."""
    groups = 2 * size.replica_groups
    count = entities_in(groups, REPLICATED_PER_GROUP)
    async with _catalog(directory, groups) as (url, dsn, pids, topic):
        snapshot = str(directory / "inputs-snapshot")
        await asyncio.to_thread(
            write_snapshot,
            parse_inputs([f"node={url}"], {})[0],
            snapshot,
            verify=False,
            work=directory,
            progress=_in_silence,
        )
        kinds: dict[str, tuple[str, _Read, Aim | None]] = {
            "a node over HTTP": (url, partial(_drained, url), Aim(bound=250_000)),
            "PostgreSQL": (dsn, partial(_copied, dsn), None),
            "a snapshot": (snapshot, partial(asyncio.to_thread, _scanned, snapshot), None),
            "an xRegistry server": (f"xregistry+{url}", partial(_paged, url), None),
        }
        if topic:
            kinds["a Kafka topic"] = (f"kafka://{topic}/{_TOPIC}", partial(_consumed, topic), None)
        figures = [
            await _compared(name, address, bare, aim, count, directory)
            for name, (address, bare, aim) in kinds.items()
        ]
        return [*figures, await _fingerprints(url, pids, count)]


@contextlib.asynccontextmanager
async def _catalog(
    directory: Path, groups: int
) -> AsyncIterator[tuple[str, str, tuple[int, int], str]]:
    """The URLs of a node and its database, their processes, and the broker of a topic, or ""."""
    data = directory / "inputs-database"
    async with contextlib.AsyncExitStack() as stack:
        database = await start_embedded(data)
        stack.push_async_callback(database.stop)
        postgres = postmaster_of(data)
        url, pid = await stack.enter_async_context(
            node_process(directory, "inputs-node", DATABASE_URL=database.dsn)
        )
        await seed(url, groups)
        broker = ""
        try:
            started = await stack.enter_async_context(
                running(running_kafka, directory, "inputs-kafka")
            )
            broker = started.address
            await _publish(url, f"kafka://{broker}/{_TOPIC}")
        except NoKafka as error:
            print_left_out("A Kafka topic", str(error))
        yield url, database.dsn, (pid, postgres), broker


async def _publish(url: str, topic: str) -> None:
    async with Client.open(url) as client, asyncio.timeout(_LONGEST_SECONDS):
        link = (await client.add_link(NewLink(target=topic, mode="publish"))).id

        async def is_current() -> bool:
            return bool((await client.link(link)).state == "current")

        await until(is_current)


async def _compared(
    name: str, address: str, bare: _Read, aim: Aim | None, count: int, directory: Path
) -> Figure:
    """Read an input and the same by the bare reader in turns, after one round to warm up."""
    rates, baselines = [], []
    for number in range(_ROUNDS + 1):
        work = directory / f"inputs-{name.split()[-1]}-{number}"
        work.mkdir()
        found, seconds = await asyncio.to_thread(_read, address, work)
        started = time.perf_counter()
        bare_found = await bare()
        bare_seconds = time.perf_counter() - started
        if min(found, bare_found) < count:
            raise ValueError(f"{found} and {bare_found} of {count} rows were read from {name}")
        if number:
            rates.append(count / seconds)
            baselines.append(count / bare_seconds)
    return Figure(
        name=f"Reconcile, rows from {name}",
        unit="rows/s",
        value=middle(rates),
        baseline=middle(baselines),
        aim=aim,
        note=spread(rates, baselines),
    )


def _read(address: str, work: Path) -> tuple[int, float]:
    """Read an input as a comparison does, one range after another.

    Returns the number of rows, and the seconds without those of the survey.
    """
    [given] = parse_inputs([f"read={address}"], {})
    started = time.perf_counter()
    with given.opened(work, _in_silence) as opened:
        seconds = time.perf_counter() - started
        ranges = split([ALL_BUCKETS], opened.survey().fingerprints, ROWS_PER_READ)
        started = time.perf_counter()
        parts = [opened.read(each, verify=False, is_signed=False) for each in ranges]
        seconds += time.perf_counter() - started
    return sum(len(batch) for batches in parts for batch in batches), seconds


def _in_silence(line: str) -> None:
    """No progress: the figures are the result."""


async def _drained(url: str) -> int:
    """Count the lines of the same answer."""
    params = {"format": "csv", "from": "0", "to": str(ALL_BUCKETS.stop), "verify": "false"}
    lines = 0
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/replication/digests", params=params) as answer,
    ):
        async for piece in answer.content.iter_any():
            lines += piece.count(b"\n")
    return lines


async def _copied(dsn: str) -> int:
    """Count the lines of the same statement's COPY."""
    lines = 0

    async def count(piece: bytes) -> None:
        nonlocal lines
        lines += piece.count(b"\n")

    connection = await asyncpg.connect(dsn)
    try:
        await copy_rows(connection, *ALL_BUCKETS, count)
    finally:
        await connection.close()
    return lines


def _scanned(snapshot: str) -> int:
    """Read the same columns of the files, by one thread."""
    files = [str(file) for file in Path(snapshot).glob("*.parquet")]
    found = ds.dataset(files).to_table(columns=[*CSV_COLUMNS], use_threads=False)
    return len(found)


async def _paged(url: str) -> int:
    """Parse the same pages, one after another, and count what is in them."""
    found, following = 0, _WALKED
    async with aiohttp.ClientSession() as session:
        while following:
            async with session.get(url + following) as answer:
                page = orjson.loads(await answer.read())
                link = answer.links.get("next")
            messages = [one for group in page.values() for one in group["messages"].values()]
            found += len(page) + len(messages) + sum(len(one["versions"]) for one in messages)
            following = link["url"].raw_path_qs if link else ""  # type: ignore[union-attr]
    return found


async def _consumed(broker: str) -> int:
    """Fetch the records of the topic."""
    async with AIOKafkaConsumer(
        _TOPIC, bootstrap_servers=broker, auto_offset_reset="earliest", fetch_max_wait_ms=100
    ) as consumer:
        partitions = consumer.assignment()
        ends, found = await consumer.end_offsets(partitions), 0
        while any([await consumer.position(each) < end for each, end in ends.items()]):
            fetched = await consumer.getmany(timeout_ms=100)
            found += sum(map(len, fetched.values()))
        return found


async def _fingerprints(url: str, pids: tuple[int, int], count: int) -> Figure:
    """The processor time of node and PostgreSQL, where buckets are compared in bulk."""
    async with Client.open(url) as client:
        await client.get("/replication/digests")
        before = sum(map(family_seconds, pids))
        for _ in range(_ASKED):
            await client.get("/replication/digests")
        spent = (sum(map(family_seconds, pids)) - before) / _ASKED
    return Figure(
        name="Reconcile, fingerprints of all buckets",
        unit="ms",
        value=1000 * spent,
        note=f"processor time of node and PostgreSQL, {count:,} entities",
    )
