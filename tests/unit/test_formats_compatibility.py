"""Which changes between two versions are compatible, in which direction."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from catalog.formats.checker import Checker
from tests.documentchecks import compare

pytestmark = pytest.mark.asyncio(loop_scope="module")

BACKWARD, FORWARD = "backward", "forward"
FULL, NONE = {BACKWARD, FORWARD}, set[str]()
NULL_OR_INT = ["null", "int"]


def record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def field(type: Any, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


AVRO = [
    ("int", "long", {BACKWARD}),
    ("long", "float", {BACKWARD}),
    ("string", "bytes", FULL),
    ("int", "string", NONE),
    ("int", NULL_OR_INT, {BACKWARD}),
    (enum("A"), enum("A", "B"), {BACKWARD}),
    (enum("A"), enum("A", "B", default="A"), {BACKWARD}),
    (enum("A", default="A"), enum("A", "B", default="A"), FULL),
    (record(), record(field("int")), {FORWARD}),
    (record(), record(field("int", default=0)), FULL),
    (record(field("int")), record(field("int", "b")), NONE),
    (record(field("int")), record(field("int", "b", aliases=["a"])), {BACKWARD}),
    (record(field("int")), record(field("long")), {BACKWARD}),
    (record(), {**record(), "name": "S"}, NONE),
    (
        {"type": "fixed", "name": "F", "size": 1},
        {"type": "fixed", "name": "F", "size": 2},
        NONE,
    ),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "double"}, {BACKWARD}),
    (record(field(["null", "R"])), record(field(["null", "R"]), field("int", "b")), {FORWARD}),
]


def thing(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


TEXT, INT, NUMBER = ({"type": name} for name in ("string", "integer", "number"))
CLOSED: dict[str, Any] = {"additionalProperties": False}
NODE = {"v": INT, "next": {"$ref": "#/$defs/node"}}
PET = {"properties": {"kind": {"const": "cat"}}, "required": ["kind"], "type": "object"}
DOG = {"properties": {"kind": {"const": "dog"}}, "required": ["kind"], "type": "object"}

JSON_SCHEMA = [
    (thing({"a": TEXT}), thing({"a": TEXT, "b": TEXT}), FULL),
    (thing({"a": TEXT}), thing({"a": TEXT, "b": TEXT}, "b"), {FORWARD}),
    (thing({"a": TEXT}), thing({"a": TEXT}, "a"), {FORWARD}),
    (thing({"a": TEXT}, **CLOSED), thing({"a": TEXT, "b": TEXT}, **CLOSED), {BACKWARD}),
    (thing({"a": TEXT}), thing({"a": TEXT}, **CLOSED), {FORWARD}),
    (thing({"a": TEXT}, "a"), thing({"b": TEXT}, "b"), NONE),
    (thing({}), thing({"a": False}), {FORWARD}),
    (thing({}, additionalProperties=INT), thing({"a": TEXT}, additionalProperties=INT), NONE),
    (thing({"a1": INT}), thing({"a1": INT}, patternProperties={"^a": NUMBER}), FULL),
    (thing({"a1": TEXT}), thing({"a1": TEXT}, patternProperties={"^a": NUMBER}), {FORWARD}),
    (thing({"a": INT}), thing({"a": NUMBER}), {BACKWARD}),
    (TEXT, {"type": ["string", "null"]}, {BACKWARD}),
    (TEXT, {"type": "string", "maxLength": 5}, {FORWARD}),
    ({"minimum": 1, **NUMBER}, {"exclusiveMinimum": 0, **NUMBER}, {BACKWARD}),
    ({"multipleOf": 0.3, **NUMBER}, {"multipleOf": 0.1, **NUMBER}, {BACKWARD}),
    ({"pattern": "^a", **TEXT}, TEXT, {BACKWARD}),
    ({"const": "ab"}, {"pattern": "^a", **TEXT}, {BACKWARD}),
    ({"enum": ["x"]}, {"enum": ["x", 1]}, {BACKWARD}),
    ({"enum": [1]}, {"enum": [True]}, NONE),
    ({"enum": [True, False]}, {"type": "boolean"}, FULL),
    ({"enum": [1, 2]}, {"maximum": 2, **INT}, {BACKWARD}),
    ({"anyOf": [TEXT, INT]}, {"anyOf": [TEXT, NUMBER, {"type": "null"}]}, {BACKWARD}),
    ({"oneOf": [PET]}, {"oneOf": [DOG, PET]}, {BACKWARD}),
    ({"oneOf": [TEXT, INT]}, {"type": ["string", "integer"]}, FULL),
    ({"allOf": [thing({"a": INT}), thing({}, "b")]}, {"allOf": [thing({"a": NUMBER})]}, {BACKWARD}),
    ({"not": TEXT}, {"not": {"type": ["string", "null"]}}, {FORWARD}),
    # What excludes some objects excludes all other types, too.
    ({"enum": [None]}, {"enum": [None], "not": {"required": ["a"], **CLOSED}}, {FORWARD}),
    ({"allOf": [{"enum": [None]}]}, False, {FORWARD}),
    ({"if": TEXT, "then": {"minLength": 1}}, {"if": TEXT, "then": {"minLength": 2}}, NONE),
    ({"items": INT, "type": "array"}, {"items": NUMBER, "type": "array"}, {BACKWARD}),
    ({"type": "array"}, {"uniqueItems": True, "type": "array"}, {FORWARD}),
    ({"type": "array", "maxItems": 1}, {"uniqueItems": True, "type": "array"}, {BACKWARD}),
    (
        {"prefixItems": [INT, TEXT], "items": False, "type": "array"},
        {"prefixItems": [NUMBER], "items": TEXT, "type": "array"},
        {BACKWARD},
    ),
    (
        {"$ref": "#/$defs/node", "$defs": {"node": thing(NODE)}},
        {"$ref": "#/$defs/node", "$defs": {"node": thing({**NODE, "v": NUMBER})}},
        {BACKWARD},
    ),
    ({"$ref": "https://a.example/"}, {"$ref": "https://a.example/", "title": "A"}, FULL),
    ({"$ref": "https://a.example/"}, {"$ref": "https://b.example/"}, NONE),
    ({"anyOf": [{"$ref": "#"}]}, {"anyOf": [{"$ref": "#"}, TEXT]}, NONE),
    (TEXT, {**TEXT, "format": "date", "title": "A", "x-mine": {"$ref": "?"}}, FULL),
]

DRAFT_04 = [
    ({"minimum": 0, "exclusiveMinimum": True, **NUMBER}, {"minimum": 0, **NUMBER}, {BACKWARD}),
    ({"items": [INT], "type": "array"}, {"items": [NUMBER], "type": "array"}, {BACKWARD}),
    (
        {"items": [INT], "additionalItems": False, "type": "array"},
        {"items": [INT], "type": "array"},
        {BACKWARD},
    ),
    # Beside a reference, other keywords mean nothing in this draft.
    (
        {"$ref": "#/definitions/a", "definitions": {"a": INT}},
        {"$ref": "#/definitions/a", "minimum": 3, "definitions": {"a": INT}},
        FULL,
    ),
]

B = "message B { int32 a = 1; }"
PROTOBUF_3 = [
    ("int32 a = 1;", "int32 a = 1; string b = 2;", FULL),
    ("int32 a = 1; string b = 2;", "int32 a = 1;", FULL),
    ("int32 a = 1;", "int32 b = 1;", FULL),
    ("int32 a = 1;", "string a = 1;", NONE),
    ("int32 a = 1;", "int32 b = 2; string c = 1;", NONE),
    ("reserved 2; int32 a = 1;", "int32 a = 1; string c = 2;", {FORWARD}),
    ("int32 a = 1;", "int64 a = 1;", FULL),
    ("int32 a = 1;", "sint32 a = 1;", NONE),
    ("fixed32 a = 1;", "sfixed32 a = 1;", FULL),
    ("string a = 1;", "bytes a = 1;", {BACKWARD}),
    ("bool a = 1;", "E a = 1; enum E { Z = 0; }", NONE),
    ("int32 a = 1;", "E a = 1; enum E { Z = 0; }", FULL),
    ("E a = 1; enum E { Z = 0; }", "E a = 1; enum E { Z = 0; Y = 1; }", FULL),
    ("int32 a = 1;", "repeated int32 a = 1;", {BACKWARD}),
    ("string a = 1;", "repeated string a = 1;", FULL),
    ("int32 a = 1; int32 b = 2;", "oneof c { int32 a = 1; int32 b = 2; }", {FORWARD}),
    ("int32 a = 1;", "oneof c { int32 a = 1; int32 b = 2; }", FULL),
    ("message B { int32 a = 1; } B b = 1;", "message B { string a = 1; } B b = 1;", NONE),
    ("map<string, int32> a = 1;", "map<string, int64> a = 1;", FULL),
    ("map<string, int32> a = 1;", "map<string, string> a = 1;", NONE),
    ("message B {} int32 a = 1;", "int32 a = 1;", {FORWARD}),
    (
        "message B { int32 a = 1; } B b = 1;",
        "message B {} message C { int32 a = 1; } C b = 1;",
        FULL,
    ),
    (
        "message B { int32 a = 1; } B b = 1;",
        "message B {} message C { bytes a = 1; } C b = 1;",
        NONE,
    ),
]

PROTOBUF_2 = [
    ("optional int32 a = 1;", "required int32 a = 1;", {FORWARD}),
    ("", "required int32 a = 1;", {FORWARD}),
    ("", "optional int32 a = 1 [default = 3];", FULL),
    (
        "optional E a = 1; enum E { Z = 0; }",
        "optional E a = 1; enum E { Z = 0; Y = 1; }",
        {BACKWARD},
    ),
    (
        "extensions 5 to 9; extend M { optional int32 x = 5; }",
        "extensions 5 to 9; extend M { optional string x = 5; }",
        NONE,
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checker() -> AsyncIterator[Checker]:
    async with Checker(processes=1) as checker:
        yield checker


async def compatible(checker: Checker, format: str, older: str, newer: str) -> set[str]:
    """The directions in which two versions are compatible; each is so with itself."""
    versions = older.encode(), newer.encode()
    for version in versions:
        assert await compare(checker, format, version, version + b" ", "backward") == ""
        assert await compare(checker, format, version, version + b" ", "forward") == ""
    backward = await compare(checker, format, *versions, "backward")
    forward = await compare(checker, format, *versions, "forward")
    assert "ended with" not in backward + forward
    return {way for way, reason in ((BACKWARD, backward), (FORWARD, forward)) if not reason}


@pytest.mark.parametrize(("older", "newer", "ways"), AVRO)
async def test_avro(checker: Checker, older: Any, newer: Any, ways: set[str]) -> None:
    both = json.dumps(older), json.dumps(newer)
    assert await compatible(checker, "Avro/1.12", *both) == ways


@pytest.mark.parametrize(("older", "newer", "ways"), JSON_SCHEMA)
async def test_json_schema(checker: Checker, older: Any, newer: Any, ways: set[str]) -> None:
    both = json.dumps(older), json.dumps(newer)
    assert await compatible(checker, "JsonSchema/draft/2020-12", *both) == ways


@pytest.mark.parametrize(("older", "newer", "ways"), DRAFT_04)
async def test_json_schema_draft_04(
    checker: Checker, older: Any, newer: Any, ways: set[str]
) -> None:
    both = json.dumps(older), json.dumps(newer)
    assert await compatible(checker, "JsonSchema/draft-04", *both) == ways


@pytest.mark.parametrize(("older", "newer", "ways"), PROTOBUF_3)
async def test_protobuf_3(checker: Checker, older: str, newer: str, ways: set[str]) -> None:
    both = (f'syntax = "proto3"; package p; message M {{ {body} }}' for body in (older, newer))
    assert await compatible(checker, "Protobuf/3", *both) == ways


@pytest.mark.parametrize(("older", "newer", "ways"), PROTOBUF_2)
async def test_protobuf_2(checker: Checker, older: str, newer: str, ways: set[str]) -> None:
    both = (f'syntax = "proto2"; message M {{ {body} }}' for body in (older, newer))
    assert await compatible(checker, "Protobuf/2", *both) == ways


async def test_the_reason_names_the_place(checker: Checker) -> None:
    older, newer = (json.dumps(thing({"a": type})).encode() for type in (NUMBER, INT))
    reason = await compare(checker, "JsonSchema/draft-07", older, newer, "backward")
    assert reason.startswith("/properties/a: may be of type number")


async def test_a_version_that_is_no_schema_is_compatible_with_nothing(checker: Checker) -> None:
    assert await compare(checker, "Avro/1.12", b"", b'"int"', "backward")
    assert await compare(checker, "Avro/1.12", b'"int"', b"", "backward")


async def test_versions_of_a_format_without_rules_cannot_be_compared(checker: Checker) -> None:
    with pytest.raises(ValueError, match="XSD"):
        await compare(checker, "XSD/1.0", b"", b"", "backward")
