"""KafkaJS's client of the registry."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.confluent.programs import javascript
from tests.confluent.shop import (
    AVRO_CUSTOMER,
    AVRO_ORDER,
    FORMATS,
    JSON_CUSTOMER,
    JSON_ORDER,
    ORDERS,
    PROTO_CUSTOMER,
)

pytestmark = pytest.mark.timeout(400)  # the client is installed with the first of them

# The client knows no files but those that are registered, and the first message of each.
PROTO_ORDER = """\
syntax = "proto3";
package shop;

import "customer.proto";

message Order {
  int32 id = 1;
  Customer customer = 2;
  string note = 3;
}
"""
SCHEMAS = {
    "AVRO": (json.dumps(AVRO_CUSTOMER), json.dumps(AVRO_ORDER), "shop.Customer"),
    "JSON": (json.dumps(JSON_CUSTOMER), json.dumps(JSON_ORDER), "customer.json"),
    "PROTOBUF": (PROTO_CUSTOMER, PROTO_ORDER, "customer.proto"),
}


@pytest.mark.parametrize("type", SCHEMAS)
def test_an_order_is_registered_and_encoded_and_decoded(registry_url: str, type: str) -> None:
    """With the reference of its schema, which a client that only decodes resolves, too."""
    client = javascript()
    wishes = order_wishes(type)
    done = client.ask(host=registry_url, register=wishes)["registered"]
    for each in done:
        assert each["id"] == each["latest"] == each["first"]
    assert done[0]["known"] == done[0]["id"]
    # Registered again, as at each start.
    again = client.ask(host=registry_url, register=wishes, decode=[done[1]["message"]])
    assert again["registered"] == done
    assert again["decoded"] == [ORDERS[0]]


def test_an_incompatible_schema_is_refused(registry_url: str) -> None:
    """The client tells the error by its status, and shows the message."""
    first = {**AVRO_CUSTOMER, "name": "Other"}
    second = {**first, "fields": [{"name": "name", "type": "int"}]}
    wishes = [
        {"type": "AVRO", "schema": json.dumps(text), "subject": "javascript-other"}
        for text in (first, second)
    ]
    accepted, refused = javascript().ask(host=registry_url, register=wishes)["registered"]
    assert accepted["id"]
    assert (refused["error"], refused["status"]) == ("ResponseError", 409)
    assert "incompatible with an earlier schema" in refused["message"]


@pytest.mark.parametrize("format", FORMATS[:2], ids=str)
def test_messages_of_confluents_serializer_are_decoded(
    registry: SchemaRegistryClient, registry_url: str, format: Any
) -> None:
    """The id in the message is all that the two clients share."""
    serializer = format.serializer(registry, f"from-python-{format}-customer")
    context = SerializationContext(f"from-python-{format}", MessageField.VALUE)
    messages = [base64.b64encode(serializer(each, context)).decode() for each in ORDERS]
    assert javascript().ask(host=registry_url, decode=messages)["decoded"] == list(ORDERS)


def order_wishes(type: str) -> list[dict[str, Any]]:
    """To register the schemas of customers and orders, and to encode an order."""
    customer, order, name = SCHEMAS[type]
    subject = f"javascript-{type}"
    return [
        {"type": type, "schema": customer, "subject": f"{subject}-customer"},
        {
            "type": type,
            "schema": order,
            "references": [{"name": name, "subject": f"{subject}-customer", "version": 1}],
            "subject": f"{subject}-order",
            "value": ORDERS[0],
        },
    ]
