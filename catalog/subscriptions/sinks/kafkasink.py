"""Delivers events to topics of Kafka as records, in batches (kafka-protocol-binding.md)."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from aiokafka import AIOKafkaProducer, errors
from aiokafka.partitioner import murmur2
from cloudevents.core.v1.event import CloudEvent

from catalog.model.connectionfailure import why_unreachable
from catalog.model.masking import described
from catalog.settings import Settings
from catalog.subscriptions.sinks.kafkaconnection import (
    ConnectionGuard,
    connection_options,
    create_no_topics,
)
from catalog.subscriptions.sinks.outgoing import OutgoingEvent, texts_of
from catalog.subscriptions.sinks.protocols import KafkaCluster, KafkaSettings, servers_of
from catalog.subscriptions.sinks.sharedconnections import SharedConnections, broker_connections
from catalog.subscriptions.sinks.sink import (
    Delivered,
    Sink,
    SinkAnswer,
    SinkConnections,
    SinkRefused,
    up_to_first_failure,
)
from catalog.subscriptions.stored.subscriptions import Subscription

Headers = list[tuple[str, bytes]]

_INTERACTION = "xregcorrelationid"
# The record format adds at most so many bytes to each record, and to each header.
_RECORD_BYTES = 48
_HEADER_BYTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRecord:
    """An event as a record.

    Args:
        number: the place of the event among the events to send.
        interaction: the interaction that caused the event; its records stay together.
        size: the largest number of bytes of the record in a batch.
    """

    number: int
    interaction: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    size: int


def record_of(
    event: OutgoingEvent, number: int, *, key_attribute: str, structured: bool
) -> KafkaRecord:
    """An event as a record in one of the two content modes."""
    key = event.texts.get(key_attribute)
    # Without data, a record in binary mode has no value (3.2.2).
    value = event.structured if structured else event.data or None
    headers, size = _STRUCTURED if structured else event.encoded(binary_headers)
    encoded = None if key is None else key.encode()
    return KafkaRecord(
        number=number,
        interaction=event.texts.get(_INTERACTION, ""),
        key=encoded,
        value=value,
        headers=headers,
        size=size + len(encoded or b"") + len(value or b""),
    )


def _sized(headers: Headers) -> tuple[Headers, int]:
    """Headers, and the largest size of a record with the headers and an empty key and value."""
    sizes = (len(name) + len(value) + _HEADER_BYTES for name, value in headers)
    return headers, _RECORD_BYTES + sum(sizes)


_STRUCTURED = _sized([("content-type", b"application/cloudevents+json")])


def binary_headers(event: CloudEvent) -> tuple[Headers, int]:
    """The context attributes as headers (3.2.3), sized."""
    return _sized(
        [
            ("content-type" if name == "datacontenttype" else f"ce_{name}", text.encode())
            for name, text in texts_of(event).items()
        ]
    )


def by_partition(
    records: Sequence[KafkaRecord], partitions: Sequence[int]
) -> dict[int, list[KafkaRecord]]:
    """Records by partition, in order; records without a key share a random partition."""
    without_key = random.choice(partitions)
    found: dict[int, list[KafkaRecord]] = {}
    for record in records:
        key = record.key
        partition = without_key if key is None else partition_of(key, partitions)
        found.setdefault(partition, []).append(record)
    return found


def partition_of(key: bytes, partitions: Sequence[int]) -> int:
    """The partition of a key, as Kafka's own clients choose it."""
    return partitions[_hash_of(key) % len(partitions)]


@functools.lru_cache(maxsize=4096)
def _hash_of(key: bytes) -> int:
    # It is computed in Python, byte by byte, and most subjects come again.
    return int(murmur2(key)) & 0x7FFFFFFF


def batches_of(records: Sequence[KafkaRecord], most_bytes: int) -> Iterator[list[KafkaRecord]]:
    """Batches of the records of a partition; a broker appends each batch as a whole or not at all.

    The records of an interaction share a batch, unless the interaction is larger than the largest
    batch. A larger record has a batch of its own.
    """
    batch: list[KafkaRecord] = []
    size = 0
    for _, found in groupby(records, attrgetter("interaction")):
        together = list(found)
        needed = sum(each.size for each in together)
        if batch and size + needed > most_bytes:
            yield batch
            batch, size = [], 0
        if needed <= most_bytes:
            batch += together
            size += needed
            continue
        for record in together:
            if batch and size + record.size > most_bytes:
                yield batch
                batch, size = [], 0
            batch.append(record)
            size += record.size
    if batch:
        yield batch


# The largest batch of several records in bytes. Kafka's own default limit is a megabyte.
BATCH_BYTES = 512 * 1024
# A producer gives up a little earlier than its sinks, which then report the producer's error. A
# sink gives up before the delivery cancels, which would lose the cause and the acknowledgements.
_PRODUCER_SHARE, _SINK_SHARE = 0.8, 0.95
# Errors that aiokafka also raises after a failure to connect.
_VAGUE = (
    errors.KafkaConnectionError,
    errors.KafkaTimeoutError,
    errors.NodeNotReadyError,
    errors.RequestTimedOutError,
    TimeoutError,
    errors.UnknownTopicOrPartitionError,
)


class KafkaProducer:
    """An aiokafka producer, unusable after the first failure.

    A failure leaves the sequence numbers of records in doubt, or records that the producer would
    keep sending.
    """

    @classmethod
    async def connect(cls, cluster: KafkaCluster, settings: Settings) -> KafkaProducer:
        """Connect a producer; `KafkaError` or `OSError` if no bootstrap server can be used."""
        producer = cls(cluster, settings)
        try:
            async with asyncio.timeout(producer._seconds):
                await producer._producer.start()
        except BaseException as error:
            await producer.close()
            raise producer.cause_of(error) from None
        return producer

    def __init__(self, cluster: KafkaCluster, settings: Settings) -> None:
        self.is_open = True
        self._seconds = settings.delivery_timeout_seconds * _PRODUCER_SHARE
        self._guard = ConnectionGuard(settings)
        self._producer = AIOKafkaProducer(
            max_batch_size=2 * BATCH_BYTES,
            request_timeout_ms=max(1, int(self._seconds * 1000)),
            acks=cluster.acks if cluster.acks == "all" else int(cluster.acks),
            enable_idempotence=cluster.acks == "all",
            **connection_options(cluster),
        )
        self._guard.watch(self._producer.client)

    async def partitions(self, topic: str) -> list[int]:
        """The partitions of a topic; `KafkaError` if its metadata cannot be read."""
        try:
            return sorted(await self._producer.partitions_for(topic))
        except errors.KafkaError:
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
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        done.set_result(False)
        awaited, client._md_update_fut = client._md_update_fut, done
        if awaited is not None and not awaited.done():
            awaited.set_result(False)
        # Requests that wait for an answer end with the connections.
        await asyncio.gather(producer._sender.close(), client.close())


KafkaProducers = SharedConnections[KafkaCluster, KafkaProducer]

_TOO_LARGE = (errors.MessageSizeTooLargeError, errors.RecordListTooLargeError)
_TOGETHER_TOO_LARGE = SinkRefused(reason="the broker takes no batch of records as large as this")
_NOT_TRIED = SinkRefused(reason="an event before this one was not accepted")


def open_connections(settings: Settings, _: Callable[[], datetime]) -> SinkConnections:
    """The producers of one process for Kafka clusters, which Kafka sinks share."""
    return broker_connections(settings, KafkaProducer.connect, KafkaSink)


class KafkaSink(Sink):
    """The topic of one subscription.

    Batches of different partitions are sent concurrently, batches of one partition in order.
    """

    most_events = 500

    def __init__(
        self, producers: KafkaProducers, settings: Settings, subscription: Subscription
    ) -> None:
        sink = subscription.definition.sink
        given = KafkaSettings.model_validate(subscription.definition.settings)
        self._producers = producers
        self._seconds = settings.delivery_timeout_seconds * _SINK_SHARE
        self._topic = given.topic_of(sink)
        self._key_attribute = given.partitionkeyextractor
        self._structured = given.contentmode == "structured"
        self._batch_bytes = BATCH_BYTES
        self._cluster = KafkaCluster(
            servers=servers_of(sink),
            clientid=given.clientid,
            acks=given.acks,
            tls=sink.lower().startswith("kafkas:"),
            cacertificate=given.cacertificate,
            saslmechanism=given.saslmechanism,
            credential=subscription.credential,
        )

    async def send(self, events: Sequence[OutgoingEvent]) -> Sequence[SinkAnswer]:
        answers: list[SinkAnswer] = []
        while True:
            answers += await self._send(events[len(answers) :])
            if answers[-1] is not _TOGETHER_TOO_LARGE:
                return answers
            # The next batches are smaller; in the end, each batch has one record.
            answers.pop()

    async def _send(self, events: Sequence[OutgoingEvent]) -> list[SinkAnswer]:
        records = [
            record_of(event, number, key_attribute=self._key_attribute, structured=self._structured)
            for number, event in enumerate(events)
        ]
        answers: list[SinkAnswer | None] = [None] * len(events)
        refused = _NOT_TRIED
        lent: KafkaProducer | None = None
        try:
            async with asyncio.timeout(self._seconds), self._producers.hold(self._cluster) as lent:
                partitions = await lent.partitions(self._topic)
                async with asyncio.TaskGroup() as group:
                    for partition, found in by_partition(records, partitions).items():
                        group.create_task(self._append(lent, partition, found, answers))
        except (errors.KafkaError, OSError) as error:
            refused = _refused(error if lent is None else lent.cause_of(error))
        return up_to_first_failure(answer or refused for answer in answers)

    async def _append(
        self,
        producer: KafkaProducer,
        partition: int,
        records: Sequence[KafkaRecord],
        answers: list[SinkAnswer | None],
    ) -> None:
        """Append records to a partition up to the first failure, and note the answers."""
        for batch in batches_of(records, self._batch_bytes):
            try:
                offset = await producer.append(self._topic, partition, batch)
            except (errors.KafkaError, OSError) as error:
                cause = producer.cause_of(error)
                answer = _refused(cause)
                if isinstance(cause, _TOO_LARGE) and len(batch) > 1:
                    self._batch_bytes = sum(each.size for each in batch) // 2
                    answer = _TOGETHER_TOO_LARGE
                answers[batch[0].number] = answer
                return
            for place, record in enumerate(batch):
                where = "not acknowledged" if offset < 0 else f"offset {offset + place}"
                answers[record.number] = Delivered(detail=f"partition {partition}, {where}")


def _refused(error: BaseException) -> SinkRefused:
    return SinkRefused(
        reason=_reason_of(error),
        cause=described(error),
        is_final=isinstance(error, _TOO_LARGE),
        is_unauthorized=isinstance(error, errors.SaslAuthenticationFailed),
    )


def _reason_of(error: BaseException) -> str:
    late = "the sink did not acknowledge in time"
    match error:
        case errors.MessageSizeTooLargeError() | errors.RecordListTooLargeError():
            return "the broker takes no record as large as this event"
        case errors.SaslAuthenticationFailed():
            return "the broker refused the sink credential"
        case errors.UnsupportedSaslMechanismError():
            return "the broker does not offer this SASL mechanism"
        case errors.UnknownTopicOrPartitionError() | errors.InvalidTopicError():
            return "the broker has no topic of this name"
        case errors.TopicAuthorizationFailedError() | errors.ClusterAuthorizationFailedError():
            return "the broker does not permit this client to write to the topic"
        case errors.NotEnoughReplicasError() | errors.NotEnoughReplicasAfterAppendError():
            return "too few replicas of the partition are in step"
        case TimeoutError() | errors.KafkaTimeoutError():
            return late
        case errors.RequestTimedOutError() | errors.NodeNotReadyError():
            return late
        case errors.KafkaConnectionError():
            return (
                "the sink ended the connection: it may want TLS (kafkas://), or a sink credential"
            )
        case OSError():
            return f"the sink {why_unreachable(error)}"
        case _:
            return f"the broker answered {type(error).__name__}"
