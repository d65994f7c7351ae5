"""Fields of schemas with their types: every format, and schemas made to take long."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.formats.fieldtypes import fields_of

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}, "doc": "Its id."},
        {"name": "note", "type": ["null", "string"], "default": None},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "sku", "type": "string"},
                        {"name": "next", "type": ["null", "Line"]},
                    ],
                },
            },
        },
    ],
}
JSON_SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "format": "uuid", "description": "Its id."},
        "note": {"type": ["null", "string"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
    },
    "$defs": {
        "Line": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "next": {"$ref": "#/$defs/Line"}},
        }
    },
}
PROTOBUF = """
syntax = "proto3";
// An { order } with "quotes".
message Order {
  string id = 1; // Its id.
  repeated Line lines = 2;
  map<string, int32> counts = 3;
  message Line { string sku = 1 [deprecated = true]; }
  enum State { OPEN = 0; }
}
"""


def shown(schema: Any) -> list[tuple[int, str, str, bool]]:
    document = schema.encode() if isinstance(schema, str) else orjson.dumps(schema)
    return [(each.depth, each.name, each.type, each.is_required) for each in fields_of(document)]


def test_the_fields_of_avro_are_shown_with_their_defaults() -> None:
    assert shown(AVRO) == [
        (0, "id", "string (uuid)", False),
        (0, "note", "null | string = null", False),
        (0, "lines", "array<Line>", False),
        (1, "sku", "string", False),
        (1, "next", "null | Line", False),
    ]


def test_the_fields_of_json_are_shown_and_then_those_of_definitions() -> None:
    assert shown(JSON_SCHEMA) == [
        (0, "id", "string (uuid)", True),
        (0, "note", "null | string", False),
        (0, "lines", "array<#Line>", False),
        (0, "#Line", "object", False),
        (1, "sku", "string", False),
        (1, "next", "#Line", False),
    ]


@pytest.mark.parametrize(
    ("schema", "type"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"type": "integer", "minimum": 0}, "integer, minimum: 0"),
        ({"type": "string", "enum": ["a"]}, 'string, enum: ["a"]'),
        ({"type": {"$ref": "#/definitions/Id"}}, "#Id"),
        ({"type": "map", "values": {"type": "int32"}}, "map<int32>"),
        (True, "true"),
        ({}, "any"),
    ],
)
def test_a_type_of_json_is_told_in_short(schema: Any, type: str) -> None:
    assert shown({"properties": {"a": schema}})[0][2] == type


def test_the_definitions_of_a_namespace_are_below_the_namespace() -> None:
    found = {"type": "object", "properties": {"code": {"type": "string"}}}
    assert shown(
        {"$root": "#/definitions/Geo/Place", "definitions": {"Geo": {"Place": found}}}
    ) == [
        (1, "Place", "object", False),
        (2, "code", "string", False),
    ]


def test_the_messages_of_protobuf_are_shown_with_their_fields() -> None:
    assert shown(PROTOBUF) == [
        (0, "Order", "message", False),
        (1, "id", "string = 1", False),
        (1, "lines", "repeated Line = 2", False),
        (1, "counts", "map<string, int32> = 3", False),
        (1, "Line", "message", False),
        (2, "sku", "string = 1", False),
        (1, "State", "enum", False),
        (2, "OPEN", "0", False),
    ]
    assert fields_of(PROTOBUF.encode())[0].doc == 'An { order } with "quotes".'


def test_a_text_that_is_no_such_schema_has_no_fields() -> None:
    assert shown("<schema/>") == []


def bomb() -> dict[str, Any]:
    """A small schema whose references make a tree of 20 to the power of 12 parts."""
    definitions = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"} for _ in range(20)]} for n in range(12)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, "d12": {"type": "object"}}}


@pytest.mark.parametrize(
    "schema",
    [
        bomb(),
        '{"type":' * 900 + '"string"' + "}" * 900,
        '{"items":' * 900 + '{"properties":{"a":{}}}' + "}" * 900,
        *(
            part * (300_000 // len(part))
            for part in (
                *("message a {", "map<", "/* ", "optional ", "a", "a.", "a ", " ", '\\"', "/"),
                *("a b = 1 ", "a b = 1;", "map<a,b> c = 1", "message ", "message a"),
            )
        ),
    ],
)
def test_a_schema_made_to_take_long_takes_no_second(schema: Any) -> None:
    began = time.process_time()
    shown(schema)
    assert time.process_time() - began < 1


JSON = st.recursive(
    st.none() | st.booleans() | st.text(max_size=8) | st.sampled_from(["#", "#/properties", "map"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "type",
                        "properties",
                        "required",
                        "items",
                        "values",
                        "$ref",
                        "allOf",
                        "oneOf",
                    ),
                    *("fields", "name", "doc", "symbols", "enum", "$root", "format", "$defs"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@given(JSON)
def test_every_json_has_fields_with_names_and_types(schema: Any) -> None:
    for field in fields_of(orjson.dumps(schema)):
        assert isinstance(field.name, str)
        assert isinstance(field.type, str)
