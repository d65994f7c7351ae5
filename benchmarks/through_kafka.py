"""The route over a topic of Kafka."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.arrivals import Arrivals
from benchmarks.brokers import running
from benchmarks.route import Route, reading
from catalog.subscriptions.sinks.outgoing import OutgoingEvent
from tests.brokers.kafka import running_kafka

_TOPIC = "latency"


@contextlib.asynccontextmanager
async def open_route(directory: Path, arrivals: Arrivals) -> AsyncIterator[Route]:
    async with running(running_kafka, directory, "latency-kafka") as broker:
        await broker.create_topic(_TOPIC)
        async with (
            AIOKafkaConsumer(
                _TOPIC, bootstrap_servers=broker.address, auto_offset_reset="earliest"
            ) as consumer,
            AIOKafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True) as producer,
            reading(_read(consumer, arrivals)),
        ):

            async def send(event: OutgoingEvent) -> None:
                headers = [(f"ce_{name}", text.encode()) for name, text in event.texts.items()]
                key = event.texts["subject"].encode()
                await producer.send_and_wait(_TOPIC, event.data, key=key, headers=headers)

            subscription = {"protocol": "KAFKA", "sink": f"kafka://{broker.address}/{_TOPIC}"}
            yield Route(subscription=subscription, send=send, note="by idempotent producers")


async def _read(consumer: AIOKafkaConsumer, arrivals: Arrivals) -> None:
    async for record in consumer:
        arrivals.note(dict(record.headers)["ce_subject"].decode())
