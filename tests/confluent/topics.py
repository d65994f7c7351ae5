"""Topics of Kafka, written and read as applications do it with Confluent's client."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    DeserializingConsumer,
    SerializingProducer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient

_SECONDS = 30

Coder = Callable[[Any, Any], Any]
"""A serializer or a deserializer, which is given a value and its context."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of one partition, so that messages come in their order."""

    broker: str
    name: str

    @classmethod
    def create(cls, broker: str, name: str) -> Topic:
        """Create a topic with a name that no former run has used at the broker."""
        legal = re.sub(r"[^\w.-]+", "-", name).strip("-")
        topic = cls(broker, f"{legal}-{secrets.token_hex(4)}")
        admin = AdminClient({"bootstrap.servers": broker})
        created = admin.create_topics([NewTopic(topic.name, 1, 1)], request_timeout=_SECONDS)
        created[topic.name].result()
        return topic

    @property
    def subject(self) -> str:
        """The subject of the topic's values."""
        return f"{self.name}-value"

    def send(self, values: Iterable[Any], serializer: Coder | None = None) -> None:
        """Produce messages; without a serializer, of bytes."""
        producer = SerializingProducer(
            {"bootstrap.servers": self.broker, "value.serializer": serializer, "linger.ms": 0}
        )
        failed: list[object] = []
        try:
            for value in values:
                producer.produce(
                    self.name,
                    value=value,
                    headers=[],
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )
            assert producer.flush(_SECONDS) == 0, "messages that Kafka has not confirmed"
        finally:
            producer.close()
        assert not failed

    def read(self, count: int, deserializer: Coder | None = None) -> Sequence[Any]:
        """The values of the first messages; without a deserializer, as bytes."""
        return [message.value() for message in self.messages(count, deserializer)]

    def messages(self, count: int, deserializer: Coder | None = None) -> Sequence[Any]:
        """The first messages."""
        consumer = DeserializingConsumer(
            {
                "bootstrap.servers": self.broker,
                "group.id": self.name,
                "enable.auto.commit": False,
                "value.deserializer": deserializer,
            }
        )
        try:
            consumer.assign([TopicPartition(self.name, 0, OFFSET_BEGINNING)])
            found = [consumer.poll(_SECONDS) for _ in range(count)]
        finally:
            consumer.close()
        assert None not in found, f"{self.name} has fewer than {count} messages"
        return found


@contextlib.contextmanager
def opened_registry(url: str, **settings: Any) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of a registry, or of several with commas between their URLs."""
    client = SchemaRegistryClient({"url": url, **settings})
    try:
        yield client
    finally:
        client.close()
