"""Events through a Kafka sink, against a bare aiokafka producer that sends the same records.

Both are idempotent and wait until the broker, which runs on this machine, has all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.brokers import running
from benchmarks.events import event_about
from benchmarks.figure import Aim, Figure, middle, spread
from benchmarks.load import connected, send_request
from benchmarks.messages import document, entities_in
from benchmarks.process import node
from benchmarks.size import Size
from catalog.client import Client
from catalog.operations.subscriptions import NewSubscription, SubscriptionConfig
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from catalog.subscriptions.sinks.sink import Delivered, Sink, Sinks
from tests.brokers.kafka import KafkaBroker, running_kafka
from tests.sinks.opened import OPEN, subscription_to

_MESSAGES = 50
_LONGEST_SECONDS = 60
_LOOK_SECONDS = 0.02


async def run(size: Size, directory: Path) -> list[Figure]:
    """Measure events per second of the sink alone, and of a node that reads them from its log."""
    count = size.import_groups * 200
    async with running(running_kafka, directory, "kafka") as broker:
        sent: list[float] = []
        bare: list[float] = []
        for number in range(size.import_rounds + 1):
            rates = await _bare(broker, count), await _sink(broker, count)
            if number:
                bare.append(rates[0])
                sent.append(rates[1])
        from_log, changes = await _from_log(broker, size, directory)
    return [
        Figure(
            name="Events to a Kafka sink",
            unit="events/s",
            value=middle(sent),
            baseline=middle(bare),
            aim=Aim(bound=0.5, of_ratio=True),
            note=f"{count:,} events in binary content mode, encoded on the way; "
            f"{spread(sent, bare)}",
        ),
        Figure(
            name="Changes from the log to a Kafka topic",
            unit="events/s",
            value=from_log,
            baseline=middle(bare),
            note=f"{changes:,} changes, read by a subscription from the log's beginning",
        ),
    ]


def _events(count: int) -> list[OutgoingEvent]:
    return [
        event_about(f"/messagegroups/g{number % 40}/messages/m{number % 500}", number)
        for number in range(count)
    ]


async def _sink(broker: KafkaBroker, count: int) -> float:
    events = _events(count)
    async with Sinks(OPEN) as sinks:
        sink = sinks.open(subscription_to("KAFKA", f"kafka://{broker.address}/sink"))
        await _send(sink, _events(1))
        started = time.perf_counter()
        for first in range(0, count, sink.most_events):
            await _send(sink, events[first : first + sink.most_events])
        seconds = time.perf_counter() - started
    return count / seconds


async def _send(sink: Sink, events: Sequence[OutgoingEvent]) -> None:
    answers = await sink.send(events)
    if not isinstance(answers[-1], Delivered):
        raise RuntimeError(f"the broker did not take an event: {answers[-1]}")


async def _bare(broker: KafkaBroker, count: int) -> float:
    """Records that are ready, sent as aiokafka's documentation says."""
    records = [
        (
            each.texts["subject"].encode(),
            each.data,
            [(f"ce_{name}", text.encode()) for name, text in each.texts.items()],
        )
        for each in _events(count)
    ]
    async with AIOKafkaProducer(
        bootstrap_servers=broker.address, enable_idempotence=True
    ) as producer:
        await producer.send_and_wait("bare", b"")
        started = time.perf_counter()
        waiting = [
            await producer.send("bare", value, key=key, headers=headers)
            for key, value, headers in records
        ]
        await asyncio.gather(*waiting)
        return count / (time.perf_counter() - started)


async def _from_log(broker: KafkaBroker, size: Size, directory: Path) -> tuple[float, int]:
    """Events per second that a node brings from its log to a topic, and their number."""
    groups = size.import_groups
    changes = entities_in(groups, _MESSAGES)
    async with (
        node(directory, "kafka-node") as url,
        connected(url, 1) as (connection,),
        Client.open(url) as client,
        _counting(broker, "log") as count,
    ):
        for first in range(0, groups, 20):
            body = orjson.dumps(document("g", min(20, groups - first), _MESSAGES, first=first))
            await connection.request(send_request("POST", url, "/", body))
        started = time.perf_counter()
        await client.subscribe(
            NewSubscription(
                sink=f"kafka://{broker.address}/log",
                protocol="KAFKA",
                filters=[{"prefix": {"subject": "/messagegroups/"}}],
                config=SubscriptionConfig(start="earliest"),
            )
        )
        await _until(count, changes)
        return changes / (time.perf_counter() - started), changes


async def _until(count: Callable[[], Awaitable[int]], wanted: int) -> None:
    async with asyncio.timeout(_LONGEST_SECONDS):
        while True:
            if await count() >= wanted:
                return
            await asyncio.sleep(_LOOK_SECONDS)


@contextlib.asynccontextmanager
async def _counting(broker: KafkaBroker, topic: str) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """A function that counts the records of a topic."""
    await broker.create_topic(topic)
    async with AIOKafkaConsumer(bootstrap_servers=broker.address) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(4)]

        async def count() -> int:
            return sum((await consumer.end_offsets(partitions)).values())

        yield count
