"""The client of the package python-schema-registry-client."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from schema_registry.client import AsyncSchemaRegistryClient, SchemaRegistryClient
from schema_registry.client.errors import ClientError
from schema_registry.client.schema import AvroSchema, JsonSchema
from schema_registry.serializers import AvroMessageSerializer, JsonMessageSerializer

from tests.confluent.shop import AVRO_CUSTOMER, JSON_CUSTOMER


@pytest.fixture
def client(registry_url: str) -> SchemaRegistryClient:
    return SchemaRegistryClient(url=registry_url)


def _avro(name: str, *fields: tuple[str, str]) -> AvroSchema:
    members = [{"name": field, "type": type} for field, type in fields]
    return AvroSchema({"type": "record", "name": name, "fields": members})


def test_a_schema_is_registered_and_found(client: SchemaRegistryClient, registry_url: str) -> None:
    """By its id, its version and its text."""
    subject, schema = "python-found", _avro("PythonFound", ("id", "int"))
    assert client.check_version(subject, schema) is None
    known = client.register(subject, schema)
    other = SchemaRegistryClient(url=registry_url)
    found = other.check_version(subject, schema)
    assert found is not None
    assert (found.schema_id, found.version) == (known, 1)
    held = other.get_schema(subject)
    assert held is not None
    assert (held.schema_id, held.version, held.schema) == (known, 1, schema)
    third = SchemaRegistryClient(url=registry_url)
    assert third.get_by_id(known) == schema
    assert third.get_by_id(2**31 - 1) is None
    [place] = third.get_schema_subject_versions(known) or []
    assert (place.subject, place.version) == (subject, 1)
    assert subject in third.get_subjects()
    assert third.register(subject, schema) == known


def test_schemas_of_json_are_registered(client: SchemaRegistryClient, registry_url: str) -> None:
    """Their type is named in requests, and read from answers."""
    known = client.register("python-json", JsonSchema(JSON_CUSTOMER))
    held = SchemaRegistryClient(url=registry_url).get_schema("python-json")
    assert held is not None
    assert (held.schema_id, held.schema) == (known, JsonSchema(JSON_CUSTOMER))


def test_compatibility_is_checked_and_set(client: SchemaRegistryClient) -> None:
    """For one subject."""
    subject, other = "python-compatible", _avro("PythonCompatible", ("id", "string"))
    client.register(subject, _avro("PythonCompatible", ("id", "int")))
    assert client.test_compatibility(subject, other) is False
    with pytest.raises(ClientError) as refused:
        client.register(subject, other)
    assert refused.value.http_code == 409
    assert client.update_compatibility("NONE", subject=subject)
    assert client.get_compatibility(subject=subject) == "NONE"
    assert client.test_compatibility(subject, other) is True
    client.register(subject, other)
    assert client.get_versions(subject) == [1, 2]


def test_the_compatibility_of_all_subjects_is_set(client: SchemaRegistryClient) -> None:
    """The client leaves the subject out of the path, but not the slash before it."""
    assert client.get_compatibility() == "BACKWARD"
    assert client.update_compatibility("BACKWARD")


def test_versions_and_subjects_are_deleted(client: SchemaRegistryClient) -> None:
    """What is not there is no error to this client."""
    subject = "python-deleted"
    client.register(subject, _avro("PythonDeleted", ("id", "int")))
    client.update_compatibility("NONE", subject=subject)
    client.register(subject, _avro("PythonDeleted", ("id", "string")))
    assert client.delete_version(subject, 1) == 1
    assert client.delete_version(subject, 7) is None
    assert client.get_versions(subject) == [2]
    assert client.delete_subject(subject) == [2]
    assert client.delete_subject(subject) == []
    assert client.get_versions(subject) == []


def test_messages_go_to_confluents_client_and_back(
    client: SchemaRegistryClient, registry: ConfluentClient
) -> None:
    """Either reads what the other one has written."""
    value = {"name": "Ada"}
    context = SerializationContext("python-messages", MessageField.VALUE)
    ours = AvroMessageSerializer(client)
    written = ours.encode_record_with_schema(
        "python-messages-value", AvroSchema(AVRO_CUSTOMER), value
    )
    assert AvroDeserializer(registry)(written, context) == value
    assert AvroSerializer(registry, json.dumps(AVRO_CUSTOMER))(value, context) == written
    assert ours.decode_message(written) == value
    of_json = JsonMessageSerializer(client)
    message = of_json.encode_record_with_schema(
        "python-messages-json", JsonSchema(JSON_CUSTOMER), value
    )
    assert of_json.decode_message(message) == value


async def test_the_asynchronous_client_does_the_same(registry_url: str) -> None:
    """Its requests differ in nothing but the library that sends them."""
    client = AsyncSchemaRegistryClient(url=registry_url)
    schema = _avro("PythonAsync", ("id", "int"))
    known = await client.register("python-async", schema)
    other = AsyncSchemaRegistryClient(url=registry_url)
    assert await other.get_by_id(known) == schema
    assert await other.test_compatibility("python-async", schema) is True
    assert await other.delete_subject("python-async") == [1]
