"""Rules that the registry keeps with a schema, and Confluent's client executes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.error import ValueSerializationError
from confluent_kafka.schema_registry import (
    Metadata,
    MetadataProperties,
    MetadataTags,
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.rule_registry import RuleRegistry
from confluent_kafka.schema_registry.rules.cel.cel_executor import CelExecutor
from confluent_kafka.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
from confluent_kafka.schema_registry.rules.jsonata.jsonata_executor import JsonataExecutor

from tests.confluent.topics import Coder, Topic, opened_registry

pytestmark = pytest.mark.timeout(300)  # Kafka starts with the first of them

_LATEST = {"auto.register.schemas": False, "use.latest.version": True}


def _rule(name: str, type: str, mode: RuleMode, expr: str, **members: Any) -> Rule:
    return Rule(
        name=name,
        doc=None,
        kind=members.get("kind", RuleKind.CONDITION),
        mode=mode,
        type=type,
        tags=members.get("tags"),
        params=None,
        expr=expr,
        on_success=None,
        on_failure=None,
        disabled=False,
    )


def _executors() -> RuleRegistry:
    registry = RuleRegistry()
    for executor in (CelExecutor(), CelFieldExecutor(), JsonataExecutor()):
        registry.register_executor(executor)
    return registry


def _order(*fields: str, metadata: Metadata | None = None, rules: RuleSet | None = None) -> Schema:
    text = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": name, "type": "string"} for name in fields],
    }
    return Schema(json.dumps(text), metadata=metadata, rule_set=rules)


def _properties(**properties: str) -> Metadata:
    return Metadata(tags=None, properties=MetadataProperties(properties=properties), sensitive=None)


def _refuse(value: dict[str, str], topic: Topic, serializer: Coder) -> None:
    with pytest.raises(ValueSerializationError) as refused:
        topic.send([value], serializer)
    assert str(NAMED.expr) in str(refused.value.exception.__cause__)


NAMED = _rule("named", "CEL", RuleMode.WRITE, "size(message.id) > 0")


def test_a_value_that_breaks_a_condition_is_not_produced(
    registry: SchemaRegistryClient, topic: Topic
) -> None:
    """The rule set is read from the registry with the latest version."""
    rules = RuleSet(migration_rules=None, domain_rules=[NAMED])
    registry.register_schema(topic.subject, _order("id", rules=rules))
    serializer = AvroSerializer(registry, conf=_LATEST, rule_registry=_executors())
    _refuse({"id": ""}, topic, serializer)
    topic.send([{"id": "a"}], serializer)
    assert topic.read(1, AvroDeserializer(registry)) == [{"id": "a"}]


def test_a_field_with_a_tag_of_the_metadata_is_transformed(
    registry: SchemaRegistryClient, topic: Topic
) -> None:
    """A rule for all fields with a tag, which the schema's metadata gives to one of them."""
    hide = _rule(
        "hide",
        "CEL_FIELD",
        RuleMode.WRITE,
        "'hidden ' + name",
        kind=RuleKind.TRANSFORM,
        tags=["PII"],
    )
    tagged = Metadata(
        tags=MetadataTags(tags={"shop.Order.by": ["PII"]}), properties=None, sensitive=["by"]
    )
    rules = RuleSet(migration_rules=None, domain_rules=[hide])
    registry.register_schema(topic.subject, _order("id", "by", metadata=tagged, rules=rules))
    topic.send(
        [{"id": "a", "by": "Ada"}],
        AvroSerializer(registry, conf=_LATEST, rule_registry=_executors()),
    )
    assert topic.read(1, AvroDeserializer(registry)) == [{"id": "a", "by": "hidden by"}]
    held = registry.get_latest_version(topic.subject).schema
    assert held.metadata == tagged
    assert held.rule_set is not None
    assert held.rule_set.domain_rules == [hide]


def test_rules_of_the_config_hold_for_schemas_that_bring_none(
    registry: SchemaRegistryClient, topic: Topic
) -> None:
    """Defaults fill what a registration leaves out, and overrides win over what it brings."""
    registry.set_config(
        topic.subject,
        ServerConfig(
            default_rule_set=RuleSet(migration_rules=None, domain_rules=[NAMED]),
            default_metadata=_properties(owner="nobody", stage="draft"),
            override_metadata=_properties(region="eu"),
        ),
    )
    registry.register_schema(
        topic.subject, _order("id", metadata=_properties(owner="us", region="us"))
    )
    held = registry.get_latest_version(topic.subject).schema
    assert held.metadata is not None
    assert held.metadata.properties == MetadataProperties(
        properties={"owner": "us", "stage": "draft", "region": "eu"}
    )
    serializer = AvroSerializer(registry, conf=_LATEST, rule_registry=_executors())
    _refuse({"id": ""}, topic, serializer)


def test_messages_of_another_major_version_are_migrated(
    registry: SchemaRegistryClient, registry_url: str, topic: Topic
) -> None:
    """Versions of one major version are compatible; a consumer of the second one asks for it by
    its metadata, and transforms messages of the first one as the rules of the second one say."""
    registry.set_config(topic.subject, ServerConfig(compatibility_group="major"))
    registry.register_schema(topic.subject, _order("id", "by", metadata=_properties(major="1")))
    up = "$merge([$sift($, function($v, $k) {$k != 'by'}), {'customer': $.'by'}])"
    down = "$merge([$sift($, function($v, $k) {$k != 'customer'}), {'by': $.'customer'}])"
    migrations = [
        _rule(name, "JSONATA", mode, expr, kind=RuleKind.TRANSFORM)
        for name, mode, expr in (
            ("up", RuleMode.UPGRADE, up),
            ("down", RuleMode.DOWNGRADE, down),
        )
    ]
    second = _order(
        "id",
        "customer",
        metadata=_properties(major="2"),
        rules=RuleSet(migration_rules=migrations, domain_rules=None),
    )
    registry.register_schema(topic.subject, second)
    values = {"1": {"id": "a", "by": "Ada"}, "2": {"id": "b", "customer": "Grace"}}
    for major, value in values.items():
        chosen = {"auto.register.schemas": False, "use.latest.with.metadata": {"major": major}}
        topic.send([value], AvroSerializer(registry, conf=chosen, rule_registry=_executors()))
    for major, expected in {
        "1": [{"id": "a", "by": "Ada"}, {"id": "b", "by": "Grace"}],
        "2": [{"id": "a", "customer": "Ada"}, {"id": "b", "customer": "Grace"}],
    }.items():
        with opened_registry(registry_url) as consumer:
            deserializer = AvroDeserializer(
                consumer,
                conf={"use.latest.with.metadata": {"major": major}},
                rule_registry=_executors(),
            )
            assert topic.read(2, deserializer) == expected
