"""Fields of schemas as rows: every format, and schemas made to take long."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.console.entityschema import fields_of

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


def shown(format: str, schema: Any) -> list[tuple[int, str, str, bool]]:
    document = schema.encode() if isinstance(schema, str) else orjson.dumps(schema)
    return [(row.depth, row.name, row.type, row.is_required) for row in fields_of(format, document)]


def test_the_fields_of_avro_are_shown_and_a_record_within_itself_once() -> None:
    assert shown("Avro/1.12", AVRO) == [
        (0, "id", "uuid", True),
        (0, "note", "null or string", False),
        (0, "lines", "array of Line", True),
        (1, "sku", "string", True),
        (1, "next", "null or Line", False),
    ]


@pytest.mark.parametrize("format", ["JsonSchema/draft-07", "JsonStructure/draft-02"])
def test_the_fields_of_json_are_shown_and_references_followed_once(format: str) -> None:
    assert shown(format, JSON_SCHEMA) == [
        (0, "id", "string (uuid)", True),
        (0, "note", "null or string", False),
        (0, "lines", "array of Line", False),
        (1, "sku", "string", False),
        (1, "next", "Line", False),
    ]


def test_the_messages_of_protobuf_are_shown_with_their_fields() -> None:
    assert shown("Protobuf/3", PROTOBUF) == [
        (0, "Order", "message", False),
        (1, "id", "string", False),
        (1, "lines", "repeated Line", False),
        (1, "counts", "map<string, int32>", False),
        (1, "Line", "message", False),
        (2, "sku", "string", False),
        (1, "State", "enum", False),
    ]


@pytest.mark.parametrize("format", ["", "XSD/1.1", "Avro/1.12", "JsonSchema/draft-07"])
def test_a_text_that_is_no_such_schema_has_no_rows(format: str) -> None:
    assert shown(format, "<schema/>") == []


def bomb() -> dict[str, Any]:
    """A small schema whose references make a tree of 20 to the power of 12 parts."""
    definitions = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"} for _ in range(20)]} for n in range(12)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, "d12": {"type": "object"}}}


@pytest.mark.parametrize(
    ("format", "schema"),
    [
        ("JsonSchema/draft-07", bomb()),
        ("Avro/1.12", '{"type":' * 5000 + '"string"' + "}" * 5000),
        *(
            ("Protobuf/3", part * (300_000 // len(part)))
            for part in (
                *("message a {", "map<", "/* ", "optional ", "a", "a.", "a ", " ", '\\"', "/"),
                *("a b = 1 ", "a b = 1;", "map<a,b> c = 1", "message ", "message a"),
            )
        ),
    ],
)
def test_a_schema_made_to_take_long_takes_no_second(format: str, schema: Any) -> None:
    began = time.process_time()
    shown(format, schema)
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


@given(JSON, st.sampled_from(["Avro/1.12", "JsonSchema/draft-07", "JsonStructure/draft-02"]))
def test_no_json_makes_a_page_fail(schema: Any, format: str) -> None:
    for row in fields_of(format, orjson.dumps(schema)):
        assert isinstance(row.name, str)
        assert isinstance(row.type, str)
