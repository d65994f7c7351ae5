"""Appends records to a topic of copies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiokafka.errors import KafkaError

from catalog.config import Settings
from catalog.subscriptions.sinks.kafkaproducer import BATCH_BYTES, KafkaProducer, partition_of
from catalog.subscriptions.sinks.kafkarecords import KafkaRecord, batches_of
from replication.sources.topic import Topic

_RECORD_BYTES = 64


class TopicWriter:
    """Appends records to a topic by an idempotent producer."""

    def __init__(self, topic: Topic, producer: KafkaProducer, *, seconds: float) -> None:
        self._topic = topic
        self._seconds = seconds
        self._name = topic.address.name
        self._producer = producer

    def partition_of(self, place: bytes, partitions: int) -> int:
        return partition_of(place, range(partitions))

    async def append(
        self, partition: int, records: Sequence[tuple[bytes, bytes]]
    ) -> tuple[int, int]:
        """Append records with keys; return the offset of the first, and the offset after the last.

        Raises:
            TopicUnusable: the number of appended records is unknown.
        """
        first, after = -1, 0
        with self._topic.told():
            try:
                for batch in batches_of([_record_of(*each) for each in records], BATCH_BYTES):
                    # The producer itself would retry for ever.
                    async with asyncio.timeout(self._seconds):
                        offset = await self._producer.append(self._name, partition, batch)
                    first, after = (offset if first < 0 else first), offset + len(batch)
            except (KafkaError, OSError) as error:
                raise self._producer.cause_of(error) from None
        return first, after


@asynccontextmanager
async def open_writer(topic: Topic, settings: Settings) -> AsyncIterator[TopicWriter]:
    """Connect a producer."""
    with topic.told():
        producer = await KafkaProducer.connect(topic.address.cluster, settings)
    # A topic that a broker creates by default does not keep every copy.
    producer.create_no_topics()
    try:
        yield TopicWriter(topic, producer, seconds=settings.delivery_timeout_seconds)
    finally:
        await producer.close()


def _record_of(key: bytes, value: bytes) -> KafkaRecord:
    size = len(key) + len(value) + _RECORD_BYTES
    return KafkaRecord(number=0, interaction="", key=key, value=value, headers=[], size=size)
