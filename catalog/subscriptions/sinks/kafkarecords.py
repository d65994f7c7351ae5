"""Events as Kafka records (kafka-protocol-binding.md 3), and batches of records."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from cloudevents.core.v1.event import CloudEvent

from catalog.subscriptions.sinks.outgoing import OutgoingEvent, texts_of

Headers = list[tuple[str, bytes]]
Partitioner = Callable[[bytes, Sequence[int]], int]

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
    records: Sequence[KafkaRecord], partitions: Sequence[int], partition_of: Partitioner
) -> dict[int, list[KafkaRecord]]:
    """Records by partition, in order; records without a key share a random partition."""
    without_key = random.choice(partitions)
    known: dict[bytes, int] = {}
    found: dict[int, list[KafkaRecord]] = {}
    for record in records:
        if record.key is None:
            partition = without_key
        elif record.key in known:
            partition = known[record.key]
        else:
            partition = known[record.key] = partition_of(record.key, partitions)
        found.setdefault(partition, []).append(record)
    return found


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
