"""Lists the topics of a Kafka cluster, and samples the last records of each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from catalog.commands.console import CommandError
from catalog.commands.discover.proposal import EventKind, TopicSample
from catalog.subscriptions.sinks.kafkaconnection import connection_options
from catalog.subscriptions.sinks.protocols import KafkaCluster

if TYPE_CHECKING:
    from catalog.commands.discover.payloads import PayloadSample

_STRUCTURED = b"application/cloudevents+json"
_CONTEXT = "ce_"
# The format of Confluent's serializers: a zero byte, and the schema id in four bytes.
_MAGIC, _PREFIX_BYTES = 0, 5
# Newer serializers can write a header: the byte 1, and the GUID of the schema in sixteen bytes.
_SCHEMA_HEADER = "__value_schema_id"
_MAGIC_GUID, _GUID_BYTES = 1, 16
_TOPICS_AT_ONCE = 20
_FETCH_BYTES = 4 * 1024 * 1024
_PARTITION_BYTES = 256 * 1024
_LONGEST_EVENT = 256 * 1024
_LONGEST_ATTRIBUTE = 1024
_MOST_KINDS = 200
_SECONDS = 10.0
_POLL_MS = 500


async def sample_topics(
    cluster: KafkaCluster,
    patterns: Sequence[str],
    records: int,
    new_payloads: Callable[[], PayloadSample] | None = None,
) -> AsyncIterator[TopicSample]:
    """Sample topics in the order of their names, without a consumer group.

    Args:
        patterns: the topics by name, with wildcards; topics whose name begins with `_` are
            internal, and need a pattern that begins so.
        records: the most records of each partition, the last ones.
        new_payloads: makes a sample of payloads; without it, payloads are not read.

    Raises:
        CommandError: the cluster cannot be reached, or refuses.
    """
    options = connection_options(cluster)
    admin = AIOKafkaAdminClient(**options, request_timeout_ms=int(_SECONDS * 1000))
    consumer = AIOKafkaConsumer(
        **options,
        group_id=None,
        enable_auto_commit=False,
        fetch_max_bytes=_FETCH_BYTES,
        max_partition_fetch_bytes=_PARTITION_BYTES,
        request_timeout_ms=int(_SECONDS * 1000),
    )
    try:
        await admin.start()
        await consumer.start()
        topics = sorted(topic for topic in await admin.list_topics() if is_wanted(topic, patterns))
        for start in range(0, len(topics), _TOPICS_AT_ONCE):
            told = await admin.describe_topics(topics[start : start + _TOPICS_AT_ONCE])
            numbers = {
                each["topic"]: [partition["partition"] for partition in each["partitions"]]
                for each in sorted(told, key=lambda each: each["topic"])
            }
            for sample in await _sample(consumer, numbers, records, new_payloads):
                yield sample
    except (KafkaError, OSError) as error:
        hosts = ", ".join(f"{host}:{port}" for host, port in cluster.servers)
        raise CommandError(
            f"The cluster at {hosts} cannot be read: {type(error).__name__}: {error}.",
            "Look at the address, at kafkas:// for TLS, and at --user and --password-from.",
        ) from error
    finally:
        await consumer.stop()
        await admin.close()


def is_wanted(topic: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern names a topic."""
    return any(
        fnmatchcase(topic, pattern) and topic.startswith("_") <= pattern.startswith("_")
        for pattern in patterns
    )


async def _sample(
    consumer: AIOKafkaConsumer,
    numbers: Mapping[str, Sequence[int]],
    records: int,
    new_payloads: Callable[[], PayloadSample] | None,
) -> list[TopicSample]:
    """Sample topics, given the numbers of their partitions."""
    samples = {
        topic: TopicSample(topic=topic, partitions=len(found)) for topic, found in numbers.items()
    }
    partitions = [TopicPartition(topic, n) for topic, found in numbers.items() for n in found]
    consumer.assign(partitions)
    begins = await consumer.beginning_offsets(partitions)
    ends = await consumer.end_offsets(partitions)
    waiting = {each: ends[each] for each in partitions if ends[each] > begins[each]}
    for topic, sample in samples.items():
        sample.is_empty = not any(each.topic == topic for each in waiting)
    if empty := [each for each in partitions if each not in waiting]:
        consumer.pause(*empty)
    for each, end in waiting.items():
        consumer.seek(each, max(begins[each], end - records))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SECONDS
    # Transactions leave offsets without records, so the position tells whether a partition ends.
    while waiting and loop.time() < deadline:
        batches: Mapping[TopicPartition, Sequence[ConsumerRecord[bytes, bytes]]]
        batches = await consumer.getmany(timeout_ms=_POLL_MS)
        for partition, batch in batches.items():
            for record in batch:
                _note(samples[partition.topic], record, new_payloads)
        for each in [each for each in waiting if await consumer.position(each) >= waiting[each]]:
            del waiting[each]
            consumer.pause(each)
    return list(samples.values())


def _note(
    sample: TopicSample, record: Any, new_payloads: Callable[[], PayloadSample] | None
) -> None:
    """Note what a record says of its kind."""
    sample.records += 1
    kind, id = _event_kind(record), _schema_id(record)
    if kind is not None:
        if kind in sample.events or len(sample.events) < _MOST_KINDS:
            sample.events[kind] = sample.events.get(kind, 0) + 1
    elif id is not None and (id in sample.schema_ids or len(sample.schema_ids) < _MOST_KINDS):
        sample.schema_ids[id] = sample.schema_ids.get(id, 0) + 1
    if new_payloads is None or id is not None:
        return
    key = "" if kind is None else kind.type
    payload = _payload(record)
    if payload and (key in sample.payloads or len(sample.payloads) < _MOST_KINDS):
        sample.payloads.setdefault(key, new_payloads()).note(payload)


def _schema_id(record: Any) -> int | str | None:
    """The id by which a value was written, or the GUID, from a header or before the value."""
    value = record.value or b""
    for name, header in record.headers:
        if name == _SCHEMA_HEADER and header:
            value = header
    if len(value) >= _PREFIX_BYTES and value[0] == _MAGIC:
        return int.from_bytes(value[1:_PREFIX_BYTES], "big")
    # A value that begins with the byte 1 is any value; only a header holds a GUID.
    if value is not record.value and len(value) > _GUID_BYTES and value[0] == _MAGIC_GUID:
        return str(UUID(bytes=value[1 : _GUID_BYTES + 1]))
    return None


def _payload(record: Any) -> bytes:
    """The payload of a record: the data of a CloudEvent in structured mode, or the value."""
    value: bytes = record.value or b""
    if not _is_structured(record) or len(value) > _LONGEST_EVENT:
        return value
    try:
        event = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    data = event.get("data") if isinstance(event, dict) else None
    return b"" if data is None else orjson.dumps(data)


def _is_structured(record: Any) -> bool:
    return any(
        name.lower() == "content-type" and (value or b"").lower().startswith(_STRUCTURED)
        for name, value in record.headers
    )


def _event_kind(record: Any) -> EventKind | None:
    """The kind of a CloudEvent in binary or structured mode (CloudEvents, Kafka binding)."""
    headers = {name.lower(): value or b"" for name, value in record.headers}
    if _is_structured(record):
        return _kind_of(dict(_structured(record.value or b"")))
    found = {
        name.removeprefix(_CONTEXT): value[:_LONGEST_ATTRIBUTE].decode(errors="replace")
        for name, value in headers.items()
        if name.startswith(_CONTEXT)
    }
    content_type = headers.get("content-type", b"")[:_LONGEST_ATTRIBUTE].decode(errors="replace")
    return _kind_of({**found, "datacontenttype": content_type})


def _structured(value: bytes) -> Iterator[tuple[str, str]]:
    if len(value) > _LONGEST_EVENT:
        return
    try:
        event = orjson.loads(value)
    except orjson.JSONDecodeError:
        return
    for name, member in event.items() if isinstance(event, dict) else ():
        if isinstance(member, str):
            yield name, member[:_LONGEST_ATTRIBUTE]


def _kind_of(attributes: Mapping[str, str]) -> EventKind | None:
    if not (attributes.get("type") and attributes.get("source") and "specversion" in attributes):
        return None
    return EventKind(
        type=attributes["type"],
        source=attributes["source"],
        datacontenttype=attributes.get("datacontenttype", ""),
        dataschema=attributes.get("dataschema", ""),
    )
