"""A producer of records to one Kafka cluster."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from aiokafka.partitioner import murmur2

from catalog.config import Settings
from catalog.subscriptions.sinks.kafkacluster import KafkaCluster
from catalog.subscriptions.sinks.kafkaconnection import (
    ConnectionGuard,
    connection_options,
    create_no_topics,
)
from catalog.subscriptions.sinks.kafkarecords import KafkaRecord

# The largest batch of several records in bytes. Kafka's own default limit is a megabyte.
BATCH_BYTES = 512 * 1024
# A producer gives up a little earlier than deliveries, which then report the producer's error.
_SHARE_OF_TIME = 0.8
# Errors that aiokafka also raises after a failure to connect.
_VAGUE = (
    KafkaConnectionError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
    TimeoutError,
    UnknownTopicOrPartitionError,
)
_HASHES = 4096

# At the level debug, aiokafka would log passwords; deliveries report its errors.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def partition_of(key: bytes, partitions: Sequence[int]) -> int:
    """The partition of a key, as Kafka's own clients choose it."""
    return partitions[_hash_of(key) % len(partitions)]


@functools.lru_cache(maxsize=_HASHES)
def _hash_of(key: bytes) -> int:
    # It is computed in Python, byte by byte, and most subjects come again.
    return int(murmur2(key)) & 0x7FFFFFFF


class KafkaProducer:
    """An aiokafka producer, unusable after the first failure.

    A failure leaves the sequence numbers of records in doubt, or records that the producer would
    keep sending.
    """

    @classmethod
    async def connect(cls, cluster: KafkaCluster, settings: Settings) -> KafkaProducer:
        """Connect a producer.

        Raises:
            KafkaError, OSError: no bootstrap server can be used.
        """
        producer = cls(cluster, settings)
        await producer._start()
        return producer

    def __init__(self, cluster: KafkaCluster, settings: Settings) -> None:
        self.is_open = True
        self._seconds = settings.delivery_timeout_seconds * _SHARE_OF_TIME
        self._guard = ConnectionGuard(settings)
        self._producer = AIOKafkaProducer(
            max_batch_size=2 * BATCH_BYTES,
            request_timeout_ms=max(1, int(self._seconds * 1000)),
            **_reliability(cluster.acks),
            **connection_options(cluster),
        )
        self._guard.watch(self._producer.client)

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._producer.start()
        except BaseException as error:
            await self.close()
            raise self.cause_of(error) from None

    async def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic.

        Raises:
            KafkaError: the topic does not exist, or its metadata cannot be read.
        """
        try:
            return sorted(await self._producer.partitions_for(topic))
        except KafkaError:
            # The producer may only know brokers that no longer exist.
            self.is_open = self._guard.failure is None
            raise

    async def append(self, topic: str, partition: int, records: Sequence[KafkaRecord]) -> int:
        """Append records to a partition as one batch, and return the offset of the first record.

        Without acknowledgements, the offset is -1.

        Raises:
            KafkaError: the records are not appended, or the outcome is unknown.
        """
        batch = self._producer.create_batch()
        for each in records:
            batch.append(timestamp=None, key=each.key, value=each.value, headers=each.headers)
        batch.close()
        try:
            future = await self._producer.send_batch(batch, topic, partition=partition)
            metadata = await future
        except BaseException:
            self.is_open = False
            raise
        return -1 if metadata is None else int(metadata.offset)

    def create_no_topics(self) -> None:
        """Keep brokers from creating missing topics, regardless of the cluster's default."""
        create_no_topics(self._producer.client)

    def cause_of(self, error: BaseException) -> BaseException:
        """The failure to connect to a broker, if an error may come from such a failure."""
        return self._guard.failure or error if isinstance(error, _VAGUE) else error

    async def close(self) -> None:
        """Close the connections soon; unacknowledged records are given up."""
        self.is_open = False
        await self._guard.close(self._stop())

    async def _stop(self) -> None:
        producer, client = self._producer, self._producer.client
        # aiokafka's own method waits until every record is acknowledged.
        producer._closed = True
        refreshing, client._sync_task = client._sync_task, None
        if refreshing is not None:
            refreshing.cancel()
            await asyncio.gather(refreshing, return_exceptions=True)
        # Requests would wait for metadata, which is no longer refreshed.
        awaited, client._md_update_fut = client._md_update_fut, _done()
        if awaited is not None and not awaited.done():
            awaited.set_result(False)
        # Requests that wait for an answer end with the connections.
        await asyncio.gather(producer._sender.close(), client.close())


def _done() -> asyncio.Future[bool]:
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    done.set_result(False)
    return done


def _reliability(acks: str) -> dict[str, Any]:
    if acks == "all":
        return {"acks": "all", "enable_idempotence": True}
    return {"acks": int(acks), "enable_idempotence": False}
