"""A Kafka topic of copies: its settings, its reader without a consumer group, and its writer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiokafka import AIOKafkaConsumer, TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import ConsumerRecord

from catalog.client import ClientError
from catalog.model.connectionfailure import why_unreachable
from catalog.settings import Settings
from catalog.subscriptions.sinks.kafkaconnection import (
    ConnectionGuard,
    connection_options,
    create_no_topics,
    with_global,
)
from catalog.subscriptions.sinks.kafkasink import (
    BATCH_BYTES,
    KafkaProducer,
    KafkaRecord,
    batches_of,
    partition_of,
)
from replication.transfer.topicrecords import (
    LARGEST_RECORD,
    MOST_PARTITIONS,
    TopicAddress,
    TopicLost,
    TopicUnusable,
)

_FETCH_BYTES = 4 * 1024 * 1024
_PARTITION_BYTES = 1024 * 1024
_RECORDS_AT_ONCE = 1000
# A broker answers the requests of a connection in turn, so a long fetch delays later requests.
_LONGEST_FETCH_MS = 100
_PATIENCE_SECONDS = 1.0
# The bytes of a record beside its value.
_ROOM = 64 * 1024
_NO_TOPIC = "the cluster has no topic of this name"
_REASONS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((errors.UnknownTopicOrPartitionError,), _NO_TOPIC),
    (
        (errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError),
        "the cluster does not permit it to this node",
    ),
    ((errors.SaslAuthenticationFailed,), "the cluster refused the credential"),
    ((errors.MessageSizeTooLargeError,), "the cluster takes no batch of records as large as this"),
    (
        (errors.InvalidReplicationFactorError, errors.PolicyViolationError),
        "the cluster does not create it so",
    ),
    ((errors.CorruptRecordException,), "it has a record that is damaged"),
    ((errors.InvalidTimestampError,), "the cluster refuses the time of this node's clock"),
)
# Brokers learn of a new topic with a delay.
_LOOKS, _BETWEEN_LOOKS = 100, 0.05
_SETTINGS = {
    "cleanup.policy": "compact",
    "max.message.bytes": str(LARGEST_RECORD + _ROOM),
    # The broker stores every record uncompressed, so that a small record cannot exhaust a reader.
    "compression.type": "uncompressed",
    # Brokers refuse producer timestamps that are an hour ahead.
    "message.timestamp.type": "LogAppendTime",
}
_UNCOMPRESSED = ("uncompressed", "producer", "none")
_RECORD_BYTES = 64

TopicRecord: TypeAlias = ConsumerRecord[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicBounds:
    """For each partition, the offset of the first record and the offset of the next record."""

    begins: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        return self.begins == self.ends


class Topic:
    """A topic, read from offsets that the reader keeps; `offsets` has the next offsets.

    The memory of a reader is bounded by a few megabytes, whatever the size of the topic.
    """

    def __init__(self, address: TopicAddress, settings: Settings) -> None:
        self.address = address
        self._settings = settings
        self._guard = ConnectionGuard(settings, _FETCH_BYTES + LARGEST_RECORD + _ROOM)
        milliseconds = max(1, int(settings.request_timeout_seconds * 1000))
        self._options = {"request_timeout_ms": milliseconds, **connection_options(address.cluster)}
        self._consumer = AIOKafkaConsumer(
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_bytes=_FETCH_BYTES,
            fetch_max_wait_ms=_LONGEST_FETCH_MS,
            max_partition_fetch_bytes=_PARTITION_BYTES,
            **self._options,
        )
        self._partitions: list[TopicPartition] = []
        self.offsets: tuple[int, ...] = ()

    async def start(self) -> None:
        with self.told():
            client = self._consumer._client
            self._guard.watch(client)
            create_no_topics(client)
            async with asyncio.timeout(self._settings.request_timeout_seconds):
                await self._consumer.start()
            fetcher: Any = self._consumer._fetcher
            fetcher._proc_fetch_request = with_global(
                fetcher._proc_fetch_request, MemoryRecords.__name__, _PlainRecords
            )

    async def close(self) -> None:
        await self._guard.close(self._consumer.stop())

    @contextmanager
    def told(self, guard: ConnectionGuard | None = None) -> Iterator[None]:
        """Translate errors into words for operators.

        Args:
            guard: the guard of another client; by default the reader's.

        Raises:
            TopicLost: the topic does not have the requested offsets.
            TopicUnusable: the topic cannot be read or written for another reason.
        """
        try:
            yield
        except errors.OffsetOutOfRangeError as error:
            raise TopicLost("it has none of the offsets that come next") from error
        except (errors.KafkaError, OSError, TimeoutError) as error:
            cause = (guard or self._guard).failure or error
            reasons = (text for types, text in _REASONS if isinstance(cause, types))
            reason = next(reasons, f"{self.address.brokers} {why_unreachable(cause)}")
            raise self._unusable(reason) from error

    async def partitions(self) -> int:
        """The number of partitions; 0 if the topic does not exist. A missing topic is not created.

        Raises:
            TopicUnusable
        """
        with self.told():
            name, client = self.address.name, self._consumer._client
            request = MetadataRequest([name], allow_auto_topic_creation=False)
            answer = await client.send(client.get_random_node(), request)
            [topic] = answer.to_object()["topics"]
            fault = errors.for_code(topic["error_code"])
            if issubclass(fault, errors.UnknownTopicOrPartitionError):
                return 0
            if topic["error_code"]:
                raise fault(name)
            found = len(topic["partitions"])
        if found > MOST_PARTITIONS:
            raise TopicUnusable(
                f'The topic "{name}" has {found} partitions, more than {MOST_PARTITIONS}.'
            )
        return found

    async def bounds(self, partitions: int) -> TopicBounds:
        """The present bounds of the first partitions.

        Raises:
            TopicUnusable: the topic does not exist, or has fewer partitions.
        """
        if not partitions:
            raise self._unusable(_NO_TOPIC)
        wanted = [TopicPartition(self.address.name, each) for each in range(partitions)]
        asking = (
            asyncio.create_task(self._consumer.beginning_offsets(wanted)),
            asyncio.create_task(self._consumer.end_offsets(wanted)),
        )
        try:
            # aiokafka repeats requests for missing partitions until the time of a request ends.
            while (await asyncio.wait(asking, timeout=_PATIENCE_SECONDS))[1]:
                await self._check_partitions(partitions)
            with self.told():
                begins, ends = [each.result() for each in asking]
        finally:
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return TopicBounds(
            begins=tuple(begins[each] for each in wanted), ends=tuple(ends[each] for each in wanted)
        )

    async def _check_partitions(self, partitions: int) -> None:
        found = await self.partitions()
        if not found:
            raise self._unusable(_NO_TOPIC)
        if found < partitions:
            raise self._unusable(f"it has {found} partitions, and {partitions} were there before")

    def seek(self, offsets: Mapping[int, int]) -> None:
        """Continue at these offsets, by partition."""
        name = self.address.name
        self._partitions = [TopicPartition(name, each) for each in sorted(offsets)]
        if self._consumer.assignment() != {*self._partitions}:
            self._consumer.assign(self._partitions)
        for each in self._partitions:
            self._consumer.seek(each, offsets[each.partition])
        self.offsets = tuple(offsets[each.partition] for each in self._partitions)

    async def read(self, seconds: float) -> list[TopicRecord]:
        """Read the next records, at most 1000; wait up to `seconds` if the topic has none."""
        with self.told():
            found = await self._consumer.getmany(
                timeout_ms=int(seconds * 1000), max_records=_RECORDS_AT_ONCE
            )
            offsets = [await self._consumer.position(each) for each in self._partitions]
        self.offsets = tuple(offsets)
        return [each for records in found.values() for each in records]

    async def read_range(
        self, begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> AsyncIterator[list[TopicRecord]]:
        """Read the records between offsets that the topic has reached.

        Raises:
            TopicUnusable: the topic no longer reaches the offsets, or does not deliver its records.
        """
        left = {each for each, end in ends.items() if begins[each] < end}
        if not left:
            return
        self.seek({each: begins[each] for each in sorted(left)})
        loop, patience = asyncio.get_running_loop(), self._settings.request_timeout_seconds
        waited, checked = 0.0, loop.time()
        while left:
            began = loop.time()
            records = await self.read(min(_PATIENCE_SECONDS, patience))
            if left.isdisjoint(each.partition for each in records):
                waited += loop.time() - began
            else:
                waited = 0.0
            offsets = zip((each.partition for each in self._partitions), self.offsets, strict=True)
            left = {each for each, offset in offsets if offset < ends[each]}
            if left and waited >= patience:
                raise self._unusable(
                    f"{self.address.brokers} {why_unreachable(self._guard.failure)}"
                )
            # A topic that was created anew may slowly grow up to the same offsets.
            if left and loop.time() - checked >= _PATIENCE_SECONDS:
                bounds, checked = await self.bounds(max(ends) + 1), loop.time()
                if any(bounds.ends[each] < end for each, end in ends.items()):
                    raise self._unusable("it lost records while it was read")
            yield [each for each in records if each.offset < ends[each.partition]]

    def _unusable(self, reason: str) -> TopicUnusable:
        return TopicUnusable(f'The topic "{self.address.name}" cannot be used: {reason}.')

    @asynccontextmanager
    async def administration(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """A client that creates and describes topics of the cluster."""
        admin = AIOKafkaAdminClient(**self._options)
        guard = ConnectionGuard(self._settings, _FETCH_BYTES)
        guard.watch(admin._client)
        with self.told(guard):
            try:
                async with asyncio.timeout(self._settings.request_timeout_seconds):
                    await admin.start()
                    yield admin
            finally:
                await guard.close(admin._client.close())


class _PlainRecords:
    """The uncompressed batches of an answer; a small compressed batch could expand without end."""

    def __init__(self, data: bytes) -> None:
        self._records = MemoryRecords(data)
        self.has_next = self._records.has_next
        self.size_in_bytes = self._records.size_in_bytes

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        if batch is not None and getattr(batch, "compression_type", True):
            raise TopicUnusable(
                "The topic has compressed records, which could be endless.",
                "Set its compression.type to uncompressed.",
            )
        return batch


async def prepare(topic: Topic) -> int:
    """Create a missing topic; return the most bytes that the topic takes for a copy.

    Raises:
        TopicUnusable: the topic cannot be created or read.
        ClientError: the topic exists, but does not keep copies.
    """
    partitions = await topic.partitions()
    if not partitions:
        await _create_topic(topic)
        partitions = await topic.partitions()
    settings = await _read_settings(topic)
    if _why_unfit(settings) and (await topic.bounds(partitions)).is_empty:
        await _set_up_topic(topic)
        settings = await _read_settings(topic)
    if fault := _why_unfit(settings):
        raise ClientError(
            f"The topic cannot hold copies: {fault}.",
            "Change its settings, delete it, or name another topic.",
        )
    return _largest_in(settings)


async def _create_topic(topic: Topic) -> None:
    """Create the topic, compacted."""
    async with topic.administration() as admin:
        # -1 means the cluster's default number of replicas.
        wanted = NewTopic(
            topic.address.name, 1, -1, replica_assignments={}, topic_configs=_SETTINGS
        )
        answer: Any = await admin.create_topics([wanted])
        for _, code, *_ in answer.topic_errors:
            fault = errors.for_code(code)
            if code and not issubclass(fault, errors.TopicAlreadyExistsError):
                raise fault(topic.address.name)
    for _ in range(_LOOKS):
        if await topic.partitions():
            return
        await asyncio.sleep(_BETWEEN_LOOKS)
    raise TopicUnusable(f'The topic "{topic.address.name}" was created, and is not there.')


async def _read_settings(topic: Topic) -> dict[str, str]:
    """The relevant settings of the topic; none if the cluster does not show them."""
    async with topic.administration() as admin:
        wanted = ConfigResource(
            ConfigResourceType.TOPIC, topic.address.name, dict.fromkeys(_SETTINGS)
        )
        answer: Any = (await admin.describe_configs([wanted]))[0]
        [(code, _, _, _, entries)] = answer.resources
        if code and issubclass(errors.for_code(code), errors.TopicAuthorizationFailedError):
            return {}
        if code:
            raise errors.for_code(code)(topic.address.name)
        return {name: value for name, value, *_ in entries}


async def _set_up_topic(topic: Topic) -> None:
    """Give the topic, which is empty, the settings of a new topic of copies."""
    async with topic.administration() as admin:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic.address.name, _SETTINGS)
        answer: Any = (await admin.alter_configs([wanted]))[0]
        for code, *_ in answer.resources:
            if code:
                raise errors.for_code(code)(topic.address.name)


def _why_unfit(settings: Mapping[str, str]) -> str:
    """The reason why a topic with these settings does not keep copies; "" for a suitable topic."""
    policy = settings.get("cleanup.policy", "compact")
    if policy != "compact":
        return f'its cleanup.policy is "{policy}", so that Kafka deletes what new readers need'
    compression = settings.get("compression.type", "producer")
    if compression not in _UNCOMPRESSED:
        return f'its compression.type is "{compression}", and readers take none'
    return ""


def _largest_in(settings: Mapping[str, str]) -> int:
    """The most bytes of the value of a record."""
    text = settings.get("max.message.bytes", "")
    most = int(text) if text.isdigit() else 1024 * 1024
    return max(0, min(most - _ROOM, LARGEST_RECORD)) if most > 2 * _ROOM else most // 2


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
            except (errors.KafkaError, OSError) as error:
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
