"""The methods of Confluent's client of the registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    Metadata,
    MetadataProperties,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    ServerConfig,
)

from tests.confluent.shop import AVRO_CUSTOMER, JSON_ORDER, PROTO_CUSTOMER, avro_order
from tests.confluent.topics import opened_registry


def _order(*fields: dict[str, Any], major: str | None = None) -> Schema:
    record = {"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)}
    properties = MetadataProperties(properties={"major": major}) if major else None
    metadata = Metadata(tags=None, properties=properties, sensitive=None) if major else None
    return Schema(json.dumps(record), metadata=metadata)


ID, TEXT_ID = {"name": "id", "type": "int"}, {"name": "id", "type": "string"}
NOTE = {"name": "note", "type": "string", "default": ""}
FIRST, SECOND, OTHER = _order(ID), _order(ID, NOTE), _order(TEXT_ID)


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    """A subject that is named after the test."""
    return f"{request.node.name}-value"


def test_a_registered_schema_is_found_by_all_of_its_names(
    registry: SchemaRegistryClient, registry_url: str, subject: str
) -> None:
    """By its id, its GUID, its version, its text, and as the latest."""
    first = _order(ID, {"name": "found", "type": "boolean"})
    second = _order(ID, {"name": "found", "type": "boolean"}, NOTE)
    known = registry.register_schema(subject, first)
    assert registry.register_schema(subject, second) != known
    assert registry.register_schema(f"{subject}-2", first) == known
    with opened_registry(registry_url) as other:
        assert other.register_schema(subject, first) == known
        found = other.lookup_schema(subject, first)
        assert (found.subject, found.version, found.schema_id) == (subject, 1, known)
        oldest, latest = other.get_version(subject, 1), other.get_latest_version(subject)
        assert (oldest.version, oldest.schema_id, oldest.guid) == (1, known, found.guid)
        assert (latest.version, latest.schema.schema_str) == (2, _minified(second))
        for held in (other.get_schema(known), other.get_schema_by_guid(found.guid)):
            assert held.schema_str == _minified(first)
            assert held.schema_type == "AVRO"
        with opened_registry(registry_url) as third:
            assert third.get_schema(known, subject_name=subject).schema_str == _minified(first)
    assert registry.get_versions(subject) == [1, 2]
    assert registry.get_subjects_by_schema_id(known) == [subject, f"{subject}-2"]
    versions = registry.get_schema_versions(known)
    assert [(one.subject, one.version) for one in versions] == [(subject, 1), (f"{subject}-2", 1)]
    assert registry.get_subjects(subject_prefix=subject) == [subject, f"{subject}-2"]
    assert sorted(registry.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]


def test_types_other_than_avro_are_named(registry: SchemaRegistryClient, subject: str) -> None:
    """What an answer says of Avro by leaving it out."""
    for type, text in (
        ("JSON", json.dumps(JSON_ORDER | {"properties": {}})),
        ("PROTOBUF", PROTO_CUSTOMER),
    ):
        registry.register_schema(f"{type}-{subject}", Schema(text, schema_type=type))
        assert registry.get_latest_version(f"{type}-{subject}").schema.schema_type == type


def test_the_name_of_a_subject_may_have_any_character(registry: SchemaRegistryClient) -> None:
    """Slashes, colons, spaces and percent signs are no part of the path."""
    subject = "a/b:c d%2Fe+ü?-value"
    known = registry.register_schema(subject, FIRST)
    assert registry.get_latest_version(subject).schema_id == known
    assert registry.lookup_schema(subject, FIRST).subject == subject
    assert registry.get_subjects(subject_prefix="a/b:c") == [subject]
    assert registry.delete_subject(subject) == [1]


def test_compatibility_is_checked_and_set(registry: SchemaRegistryClient, subject: str) -> None:
    """Against one version, all versions, and at a registration."""
    registry.register_schema(subject, FIRST)
    assert registry.get_compatibility() == "BACKWARD"
    assert _code(lambda: registry.get_compatibility(subject)) == (404, 40408)
    assert registry.test_compatibility(subject, SECOND)
    assert not registry.test_compatibility(subject, OTHER, version=1)
    assert not registry.test_compatibility_all_versions(subject, OTHER)
    assert _code(lambda: registry.register_schema(subject, OTHER)) == (409, 40901)
    registry.set_compatibility(subject, "NONE")
    assert registry.get_compatibility(subject) == "NONE"
    assert registry.test_compatibility(subject, OTHER)
    registry.register_schema(subject, OTHER)
    registry.set_config(
        subject,
        ServerConfig(
            compatibility=ConfigCompatibilityLevel.FULL_TRANSITIVE, compatibility_group="major"
        ),
    )
    held = registry.get_config(subject)
    assert held.compatibility_level == ConfigCompatibilityLevel.FULL_TRANSITIVE
    assert held.compatibility_group == "major"
    assert registry.delete_config(subject) == held
    assert _code(lambda: registry.get_config(subject)) == (404, 40408)


def test_the_latest_version_with_given_metadata(
    registry: SchemaRegistryClient, subject: str
) -> None:
    """Not the latest of all, and another one for each value."""
    for schema in (_order(ID, major="1"), _order(ID, NOTE, major="1"), _order(ID, major="2")):
        registry.register_schema(subject, schema)
    latest = {
        major: registry.get_latest_with_metadata(subject, {"major": major}).version
        for major in ("1", "2")
    }
    assert latest == {"1": 2, "2": 3}
    absent = {"major": "3"}
    assert _code(lambda: registry.get_latest_with_metadata(subject, absent)) == (404, 40403)


def test_a_context_has_subjects_ids_and_an_address_of_its_own(
    registry: SchemaRegistryClient, registry_url: str
) -> None:
    """A subject names its context, or the URL of the client does."""
    first = registry.register_schema(":.lab:orders-value", FIRST)
    assert first == 1
    assert ".lab" in registry.get_contexts()
    assert registry.get_subjects(subject_prefix=":.lab:") == [":.lab:orders-value"]
    with opened_registry(f"{registry_url}/contexts/.lab") as lab:
        assert lab.register_schema("orders-value", FIRST) == first
        assert lab.register_schema("orders-value", SECOND) == 2
        assert lab.get_latest_version("orders-value").subject == ":.lab:orders-value"
    with opened_registry(registry_url) as other:
        latest = other.get_latest_version(":.lab:orders-value")
        assert (latest.version, latest.schema_id) == (2, 2)
        # A subject that the default context lacks is looked for in the others.
        assert other.get_latest_version("orders-value").subject == ":.lab:orders-value"
        assert other.register_schema("orders-value", SECOND) not in (1, 2)
        assert other.get_versions("orders-value") == [1]


def test_references_hold_what_they_refer_to(registry: SchemaRegistryClient, subject: str) -> None:
    """A schema with a reference is registered after the other one, and deleted before it."""
    customer = f"customer-{subject}"
    order = avro_order(customer)
    assert _code(lambda: registry.register_schema(subject, order)) == (422, 42201)
    registry.register_schema(customer, Schema(json.dumps(AVRO_CUSTOMER)))
    known = registry.register_schema(subject, order)
    assert registry.get_schema(known).references == [SchemaReference("shop.Customer", customer, 1)]
    assert registry.get_referenced_by(customer, 1) == [known]
    assert _code(lambda: registry.delete_subject(customer)) == (422, 42206)
    assert registry.delete_subject(subject) == [1]
    assert registry.delete_subject(customer) == [1]


def test_deletion_is_soft_before_it_is_permanent(
    registry: SchemaRegistryClient, registry_url: str, subject: str
) -> None:
    """What is deleted softly is still decoded, and shown to those who ask for it."""
    known = registry.register_schema(subject, FIRST)
    registry.register_schema(subject, SECOND)
    assert registry.delete_version(subject, 1) == 1
    assert registry.get_versions(subject) == [2]
    assert registry.delete_subject(subject) == [2]
    assert registry.get_subjects(subject_prefix=subject) == []
    assert registry.get_subjects(subject_prefix=subject, deleted=True) == [subject]
    with opened_registry(registry_url) as consumer:
        assert consumer.get_schema(known).schema_str == _minified(FIRST)
        assert _code(lambda: consumer.lookup_schema(subject, FIRST)) == (404, 40401)
        assert consumer.lookup_schema(subject, FIRST, deleted=True).version == 1
    assert registry.delete_subject(subject, permanent=True) == [1, 2]
    assert registry.get_subjects(subject_prefix=subject, deleted=True) == []


def test_a_subject_that_is_read_only_takes_no_new_schema(
    registry: SchemaRegistryClient, subject: str
) -> None:
    """Its mode is set, holds, and is taken back."""
    registry.register_schema(subject, FIRST)
    assert registry.get_global_mode() == "READWRITE"
    assert _code(lambda: registry.get_mode(subject)) == (404, 40409)
    assert registry.update_mode(subject, "READONLY") == "READONLY"
    assert registry.get_mode(subject) == "READONLY"
    assert _code(lambda: registry.register_schema(subject, SECOND)) == (422, 42205)
    assert registry.delete_mode(subject) == "READONLY"
    registry.register_schema(subject, SECOND)


def test_errors_have_the_codes_of_the_registry(
    registry: SchemaRegistryClient, subject: str
) -> None:
    """Those that clients of it tell apart."""
    assert _code(lambda: registry.get_latest_version(subject)) == (404, 40401)
    assert _code(lambda: registry.register_schema(subject, Schema("{"))) == (422, 42201)
    registry.register_schema(subject, FIRST)
    assert _code(lambda: registry.get_version(subject, 9)) == (404, 40402)
    assert _code(lambda: registry.lookup_schema(subject, OTHER)) == (404, 40403)
    assert _code(lambda: registry.get_schema(2**31 - 1)) == (404, 40403)
    assert _code(lambda: registry.set_compatibility(subject, "SOME")) == (422, 42203)


def _minified(schema: Schema) -> str:
    return json.dumps(json.loads(schema.schema_str or ""), separators=(",", ":"))


def _code(call: Callable[[], object]) -> tuple[int, int]:
    """The status and the code of the error that a call ends with."""
    with pytest.raises(SchemaRegistryError) as error:
        call()
    return error.value.http_status_code, error.value.error_code
