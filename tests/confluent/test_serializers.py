"""Confluent's serializers and deserializers with a real Kafka."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.common.serde import SubjectNameStrategyType
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.confluent.shop import AVRO_CUSTOMER, FORMATS, ORDERS, Format, message_class
from tests.confluent.topics import Topic, opened_registry

pytestmark = pytest.mark.timeout(300)  # Kafka starts with the first of them


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_messages_of_a_format_are_read_with_what_the_registry_has(
    registry: SchemaRegistryClient, registry_url: str, topic: Topic, format: Format
) -> None:
    """A producer registers its schema and the referenced one; a consumer that has neither reads."""
    customer = f"{topic.name}-customer"
    topic.send(ORDERS, format.serializer(registry, customer))
    with opened_registry(registry_url) as consumer:
        assert topic.read(len(ORDERS), format.deserializer(consumer)) == list(ORDERS)
    held = registry.get_latest_version(topic.subject)
    assert [message[:5] for message in topic.read(2)] == [_prefix(held.schema_id)] * 2
    assert [(one.subject, one.version) for one in held.schema.references] == [(customer, 1)]
    assert registry.get_referenced_by(customer, 1) == [held.schema_id]


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_the_guid_in_a_header_leads_to_the_schema(
    registry: SchemaRegistryClient, registry_url: str, topic: Topic, format: Format
) -> None:
    """Messages of the newer form have it there, and nothing before their values."""
    customer = f"{topic.name}-customer"
    topic.send(ORDERS[:1], format.serializer(registry, customer))
    headed = format.serializer(
        registry,
        customer,
        **{
            "auto.register.schemas": False,
            "use.latest.version": True,
            "schema.id.serializer": header_schema_id_serializer,
        },
    )
    topic.send(ORDERS[1:], headed)
    with opened_registry(registry_url) as consumer:
        assert topic.read(2, format.deserializer(consumer)) == list(ORDERS)
    before, message = topic.messages(2)
    guid = registry.get_latest_version(topic.subject).guid
    assert before.headers() is None
    [(name, value)] = message.headers()
    assert name == "__value_schema_id"
    assert value[:17] == b"\x01" + UUID(guid).bytes


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_a_producer_that_registers_its_schema_can_put_the_guid_in_a_header(
    registry: SchemaRegistryClient, topic: Topic, format: Format
) -> None:
    """Nothing but the place of the id differs from what serializers do by default."""
    customer = f"{topic.name}-customer"
    settings = {"schema.id.serializer": header_schema_id_serializer}
    topic.send(ORDERS, format.serializer(registry, customer, **settings))
    assert topic.read(len(ORDERS), format.deserializer(registry)) == list(ORDERS)


def test_a_message_of_protobuf_may_have_a_map(
    registry: SchemaRegistryClient, registry_url: str
) -> None:
    """The serializer sends a descriptor, in which a map is a message of its own."""
    text = 'syntax = "proto3"; message Stock { map<string, int32> items = 1; }'
    stock = message_class("Stock", {"stock.proto": text}, "stock.proto")
    context = SerializationContext("stock", MessageField.VALUE)
    message = ProtobufSerializer(stock, registry)(stock(items={"a": 1}), context)
    with opened_registry(registry_url) as consumer:
        deserializer = ProtobufDeserializer(stock, schema_registry_client=consumer)
        assert deserializer(message, context) == stock(items={"a": 1})


def test_a_producer_that_asks_for_associations_uses_its_other_strategy(
    registry: SchemaRegistryClient,
) -> None:
    """There are none, which the client takes from the status of the error."""
    conf = {"subject.name.strategy.type": SubjectNameStrategyType.ASSOCIATED}
    serializer = AvroSerializer(registry, json.dumps(AVRO_CUSTOMER), conf=conf)
    serializer(ORDERS[0]["customer"], SerializationContext("associated", MessageField.VALUE))
    assert registry.get_versions("associated-value") == [1]


def _prefix(schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big")
