"""The default model: endpoints, message definitions and schemas."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import orjson
import pytest

from catalog.model.attributes import check_attributes
from catalog.model.constraints import GroupRules
from catalog.model.modelsource import default_model, load_model

NEEDS = {"endpoints": ("messages",), "messages": (), "schemas": ()}


def groups_of(domain: str) -> dict[str, Any]:
    document = orjson.loads(files("catalog.domains").joinpath(f"{domain}.json").read_bytes())
    groups: dict[str, Any] = document["groups"]
    return groups


@pytest.mark.parametrize("domain", NEEDS)
def test_each_domain_loads_with_the_ones_it_imports_from(domain: str) -> None:
    groups = groups_of(domain)
    for needed in NEEDS[domain]:
        groups |= groups_of(needed)
    assert load_model({"groups": groups}).groups


def test_the_default_model_has_the_three_domains() -> None:
    model = default_model()
    assert {group.plural: group.singular for group in model.groups.values()} == {
        "endpoints": "endpoint",
        "messagegroups": "messagegroup",
        "schemagroups": "schemagroup",
    }
    assert load_model(model.expanded()).expanded() == model.expanded()


def test_endpoints_hold_the_same_messages_as_message_groups() -> None:
    model = default_model()
    messages = model.resource_type("messagegroups", "messages")
    assert messages is not None
    assert model.resource_type("endpoints", "messages") == messages


def test_messages_have_no_document_and_keep_every_version() -> None:
    messages = default_model().expanded()["groups"]["messagegroups"]["resources"]["messages"]
    assert messages["hasdocument"] is False
    assert messages["maxversions"] == 0


def test_schemas_have_a_document_and_one_format_in_all_versions() -> None:
    group = default_model().expanded()["groups"]["schemagroups"]
    schemas = group["resources"]["schemas"]
    assert schemas["hasdocument"] is True
    assert schemas["attributes"]["format"] == {
        "name": "format",
        "type": "string",
        "description": schemas["attributes"]["format"]["description"],
        "required": True,
        "matchversions": True,
    }
    assert group["constraints"] == {"schemas.format": {"equals": "format"}}


def test_schemas_are_validated_as_far_as_they_can_be() -> None:
    """schema/spec.md, "Schema Registry Model"."""
    schemas = default_model().resource_type("schemagroups", "schemas")
    assert schemas is not None
    assert (schemas.validateformat, schemas.validatecompatibility) == (True, True)
    assert schemas.strictvalidation is False


@pytest.mark.parametrize("groups", ["endpoints", "messagegroups"])
def test_every_protocol_has_its_options(groups: str) -> None:
    model = default_model()
    message = model.resource_type("messagegroups", "messages")
    assert message is not None
    definitions = (
        message.attributes if groups == "messagegroups" else model.groups[groups].attributes
    )
    protocol = definitions["protocol"]
    assert {*protocol.ifvalues} == {
        "AMQP/1.0",
        "MQTT/3.1.1",
        "MQTT/5.0",
        "KAFKA",
        "HTTP",
        "NATS",
    }
    for siblings in protocol.ifvalues.values():
        assert siblings["protocoloptions"].attributes


def test_a_cloudevents_message_gets_the_defaults_of_its_attributes() -> None:
    message = default_model().resource_type("messagegroups", "messages")
    assert message is not None
    stored, errors = check_attributes(
        {
            "envelope": "cloudevents/1.0",
            "envelopemetadata": {"type": {"value": "com.example.done"}, "time": {}, "trace": {}},
        },
        message.version_attributes,
        subject="/messagegroups/g/messages/m/versions/1",
        model=default_model(),
    )
    assert not errors
    assert stored["envelopemetadata"] == {
        "type": {"value": "com.example.done", "type": "string", "required": True},
        "time": {"type": "timestamp", "required": False},
        "trace": {"type": "string", "required": False},
    }


def test_an_endpoint_refuses_a_usage_that_does_not_exist() -> None:
    endpoint = default_model().groups["endpoints"]
    stored, errors = check_attributes(
        {"usage": ["producer", "observer"], "messagegroups": ["/messagegroups/g"]},
        endpoint.own_attributes,
        subject="/endpoints/e",
        model=default_model(),
    )
    assert [error.arguments["name"] for error in errors] == ["usage[1]"]
    assert stored["messagegroups"] == ["/messagegroups/g"]


def test_a_kafka_endpoint_has_dotted_options_and_defaults() -> None:
    endpoint = default_model().groups["endpoints"]
    options = {"endpoints": [{"bootstrap.servers": ["one:9092"]}], "topic": "t"}
    stored, errors = check_attributes(
        {"protocol": "Kafka", "protocoloptions": options},
        endpoint.own_attributes,
        subject="/endpoints/e",
        model=default_model(),
    )
    assert not errors
    kafka = stored["protocoloptions"]
    assert (kafka["acks"], kafka["deployed"]) == (1, True)
    assert kafka["endpoints"][0]["security.protocol"] == "PLAINTEXT"


@pytest.mark.parametrize("name", ["basemessage", "basemessageuri"])
def test_a_message_refines_one_of_this_registry_or_of_another(name: str) -> None:
    message = default_model().resource_type("messagegroups", "messages")
    assert message is not None
    for value, is_valid in (
        ("/messagegroups/g/messages/m", True),
        ("/messagegroups/g/messages/m/versions/1", True),
        ("https://example.com/messagegroups/g/messages/m", True),
        ("/messagegroups/g", False),
        ("/schemagroups/g/schemas/s", False),
    ):
        errors = check_attributes(
            {name: value}, message.version_attributes, subject="/", model=default_model()
        )[1]
        assert (errors == []) is is_valid


def test_a_property_of_a_message_says_where_it_is_specified() -> None:
    message = default_model().resource_type("messagegroups", "messages")
    assert message is not None
    extension = {"specurl": "https://example.com/trace.md"}
    values = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"trace": extension}}
    stored, errors = check_attributes(
        values, message.version_attributes, subject="/", model=default_model()
    )
    assert not errors
    assert stored["envelopemetadata"]["trace"]["specurl"] == extension["specurl"]


def test_schemas_of_a_group_have_its_format_in_any_case() -> None:
    group = default_model().groups["schemagroups"]
    for own, theirs, broken in (
        ("Avro/1.12", "avro/1.12", []),
        ("Avro/1.12", "Avro/1.11", [("format", "equals")]),
        (None, "Avro/1.11", []),
    ):
        rules = GroupRules(constraints=group.constraints, attributes={"format": own})
        assert rules.broken_by({"format": theirs}, "schemas") == (broken)
    assert group.resources["schemas"].matching == (("format",),)
