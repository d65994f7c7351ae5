"""A replica through a topic of Kafka, beside one that pulls from the same source."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.bootstrap import fingerprints, seed, until
from benchmarks.brokers import running
from benchmarks.figure import Figure
from benchmarks.messages import REPLICATED_PER_GROUP, entities_in
from benchmarks.process import node
from benchmarks.size import Size
from catalog.client import Client
from catalog.operations.links import NewLink
from tests.brokers.kafka import running_kafka

_LONGEST_SECONDS = 180


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure entities per second into the topic, and from it until both catalogs are equal."""
    groups, count = size.replica_groups, entities_in(size.replica_groups, REPLICATED_PER_GROUP)
    async with (
        running(running_kafka, directory, "topic-kafka") as broker,
        node(directory, "topic-source") as source,
    ):
        await seed(source, groups)
        topic = f"kafka://{broker.address}/copies"
        published = await _publish_seconds(source, {"target": topic, "mode": "publish"})
        async with node(directory, "topic-replica") as replica:
            read = await _equal_seconds(replica, source, {"source": topic, "mode": "kafka"})
        async with node(directory, "topic-puller") as replica:
            pulled = await _equal_seconds(replica, source, {"source": source, "mode": "pull"})
    return [
        Figure(
            name="Publication of a catalog to a Kafka topic",
            unit="entities/s",
            value=count / published,
            note=f"{count:,} entities in {published:.1f} s",
        ),
        Figure(
            name="Bootstrap of a replica from a Kafka topic",
            unit="entities/s",
            value=count / read,
            baseline=count / pulled,
            note=f"{count:,} entities in {read:.1f} s; the baseline pulls from the source itself",
        ),
    ]


async def _publish_seconds(source: str, definition: Mapping[str, Any]) -> float:
    async with Client.open(source) as client, asyncio.timeout(_LONGEST_SECONDS):
        started = time.perf_counter()
        link = (await client.add_link(NewLink(**definition))).id

        async def is_current() -> bool:
            return bool((await client.link(link)).state == "current")

        await until(is_current)
        return time.perf_counter() - started


async def _equal_seconds(replica: str, source: str, definition: Mapping[str, Any]) -> float:
    async with (
        Client.open(replica) as target,
        Client.open(source) as origin,
        asyncio.timeout(_LONGEST_SECONDS),
    ):
        wanted = await fingerprints(origin)
        started = time.perf_counter()
        link = (await target.add_link(NewLink(**definition))).id

        async def is_copied() -> bool:
            return bool((await target.link(link)).currentat is not None)

        async def is_equal() -> bool:
            return bool(await fingerprints(target) == wanted)

        await until(is_copied)
        await until(is_equal)
        return time.perf_counter() - started
