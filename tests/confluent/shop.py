"""An order of a customer in the three formats: schemas with a reference, and values."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

from tests.confluent.topics import Coder

ORDERS = (
    {"id": 1, "customer": {"name": "Ada"}, "note": "first"},
    {"id": 2, "customer": {"name": "Grace"}, "note": ""},
)

AVRO_CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}],
}
AVRO_ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "customer", "type": "shop.Customer"},
        {"name": "note", "type": "string", "default": ""},
    ],
}
JSON_CUSTOMER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "customer.json",
    "title": "Customer",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}
JSON_ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"$ref": "customer.json"},
        "note": {"type": "string"},
    },
    "required": ["id"],
}
PROTO_CUSTOMER = """\
syntax = "proto3";
package shop;

message Customer {
  string name = 1;
}
"""
# The order is not the first message of its file, so that messages have to say which one they are.
PROTO_ORDER = """\
syntax = "proto3";
package shop;

import "customer.proto";
import "google/protobuf/timestamp.proto";

message Parcel {
  google.protobuf.Timestamp sent = 1;
}
message Order {
  int32 id = 1;
  Customer customer = 2;
  string note = 3;
}
"""


@dataclass(frozen=True, slots=True)
class Format:
    """What producers and consumers of orders have of a format.

    Args:
        serializer: made for a client, the subject of the schema of customers, and settings.
        deserializer: made for a client; it knows no schema but those of the registry.
    """

    name: str
    serializer: Callable[..., Coder]
    deserializer: Callable[[SchemaRegistryClient], Coder]

    def __str__(self) -> str:
        return self.name


def _avro_serializer(registry: SchemaRegistryClient, customer: str, **settings: Any) -> Coder:
    registry.register_schema(customer, Schema(json.dumps(AVRO_CUSTOMER)))
    return AvroSerializer(registry, avro_order(customer), conf=settings)


def avro_order(customer: str) -> Schema:
    """The schema of orders, which refers to that of customers under a subject."""
    reference = SchemaReference("shop.Customer", customer, 1)
    return Schema(json.dumps(AVRO_ORDER), references=[reference])


def _json_serializer(registry: SchemaRegistryClient, customer: str, **settings: Any) -> Coder:
    registry.register_schema(customer, Schema(json.dumps(JSON_CUSTOMER), schema_type="JSON"))
    reference = SchemaReference("customer.json", customer, 1)
    order = Schema(json.dumps(JSON_ORDER), schema_type="JSON", references=[reference])
    return JSONSerializer(order, registry, conf=settings)


def _json_deserializer(registry: SchemaRegistryClient) -> Coder:
    return JSONDeserializer(None, schema_registry_client=registry)


def _proto_serializer(registry: SchemaRegistryClient, customer: str, **settings: Any) -> Coder:
    # It registers what the file imports itself.
    settings["reference.subject.name.strategy"] = lambda _context, _file: customer
    serialize = ProtobufSerializer(order_class(), registry, conf=settings)
    return lambda value, context: serialize(ParseDict(value, order_class()()), context)


def _proto_deserializer(registry: SchemaRegistryClient) -> Coder:
    deserialize = ProtobufDeserializer(order_class(), schema_registry_client=registry)
    return lambda data, context: MessageToDict(
        deserialize(data, context), always_print_fields_with_no_presence=True
    )


FORMATS = (
    Format("avro", _avro_serializer, AvroDeserializer),
    Format("json", _json_serializer, _json_deserializer),
    Format("protobuf", _proto_serializer, _proto_deserializer),
)


@functools.cache
def order_class() -> Any:
    """The class of orders in Protobuf."""
    files = {"customer.proto": PROTO_CUSTOMER, "order.proto": PROTO_ORDER}
    return message_class("shop.Order", files, "order.proto")


def message_class(name: str, files: Mapping[str, str], main: str) -> Any:
    """A class of Protobuf, compiled as applications have it: all that they know of its file."""
    with tempfile.TemporaryDirectory() as directory:
        for file, text in files.items():
            Path(directory, file).write_text(text)
        compiled = Path(directory, "compiled")
        well_known = resources.files("grpc_tools") / "_proto"
        options = ["--include_imports", f"--descriptor_set_out={compiled}"]
        paths = [f"-I{directory}", f"-I{well_known}"]
        assert protoc.main(["protoc", *paths, *options, main]) == 0
        pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(compiled.read_bytes()).file:
            pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))
