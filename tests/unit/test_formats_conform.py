"""Which payloads a schema describes, in every format, and what is said of the others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from io import BytesIO

import avro.schema
import pytest
import pytest_asyncio
from avro.io import BinaryEncoder, DatumWriter

from catalog.formats.checker import MAX_BYTES, Checker
from catalog.formats.process import UnusableSchema

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = "application/json"
D7 = "JsonSchema/draft-07"
PERSON = '{"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}'
PARTS = '{"$id": "https://a.example/s", "definitions": {"N": {"minimum": 3}}, "type": "object"}'
LOOP = '{"anyOf": [{"type": "null"}, {"items": {"$ref": "#"}, "type": "array"}]}'

RECORD = json.dumps(
    {
        "type": "record",
        "name": "a.Reading",
        "fields": [
            {"name": "at", "type": "long"},
            {"name": "unit", "type": ["null", "string"], "default": None},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
            {"name": "next", "type": ["null", "Reading"]},
        ],
    }
)
READING = {"at": 7, "unit": {"string": "C"}, "kind": "B", "next": None}

PROTO = """syntax = "proto3"; package a;
import "google/protobuf/timestamp.proto";
message First { string name = 1; repeated Inner inner = 2; map<string, Inner> by = 3;
  google.protobuf.Timestamp at = 4; message Inner { int32 n = 1; } }
message Second { int32 count = 1; }"""
PROTO2 = (
    'syntax = "proto2"; message A { required int32 n = 1; optional E e = 2; } enum E { X = 0; }'
)

XS = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
OVEN = (
    f'{XS}<xs:element name="oven"><xs:complexType><xs:sequence>'
    '<xs:element name="heat" type="xs:int"/>'
    "</xs:sequence></xs:complexType></xs:element></xs:schema>"
)
BILLION = '<!DOCTYPE a [<!ENTITY b "b"><!ENTITY c "&b;&b;">]><oven><heat>&c;</heat></oven>'
FILE = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><oven><heat>&b;</heat></oven>'

STRUCTURE = json.dumps(
    {
        "$schema": "https://json-structure.org/meta/core/v0/#",
        "$id": "https://a.b/c",
        "name": "Reading",
        "type": "object",
        "properties": {"n": {"type": "int32"}, "at": {"type": "datetime"}},
        "required": ["n"],
        "definitions": {"Small": {"name": "Small", "type": "uint8"}},
    }
)


def binary(schema: str, value: object) -> bytes:
    written = BytesIO()
    DatumWriter(avro.schema.parse(schema)).write(value, BinaryEncoder(written))
    return written.getvalue()


PLAIN = {"at": 7, "unit": "C", "kind": "B", "next": None}

CONFORMS: list[tuple[str, str, str | bytes, str, str]] = [
    (D7, PERSON, '{"name": "x", "more": 1}', JSON, ""),
    (D7, PERSON, '{"name": "x"}', "", ""),
    (D7, "true", "[1]", JSON, ""),
    (D7, PARTS, "4", JSON, "/definitions/N"),
    (D7, LOOP, "[[[null]]]", "application/vnd.a+json", ""),
    ("JsonSchema", '{"prefixItems": [{"type": "string"}]}', '["a", 1]', JSON, ""),
    ("JsonSchema/draft-04", '{"maximum": 3, "exclusiveMaximum": true}', "2", JSON, ""),
    ("Avro/1.11", RECORD, json.dumps(READING), JSON, ""),
    ("Avro/1.11", RECORD, binary(RECORD, PLAIN), "avro/binary", ""),
    ("Avro/1.11", RECORD, binary(RECORD, PLAIN), "", "Reading"),
    ("Avro/1.11", RECORD, '"A"', JSON, "a.Kind"),
    ("Avro", '{"type": "map", "values": "bytes"}', '{"a": "\\u00ff"}', "application/avro+json", ""),
    ("Avro", '"double"', "1", JSON, ""),
    ("Protobuf/3", PROTO, b"\x0a\x01x\x12\x02\x08\x05", "application/protobuf", ""),
    ("Protobuf/3", PROTO, b"", "", ""),
    ("Protobuf/3", PROTO, b"\xf8\x06\x01", "application/protobuf", ""),
    ("Protobuf/3", PROTO, '{"name": "x", "at": "2030-01-01T00:00:00Z"}', JSON, "a.First"),
    ("Protobuf/3", PROTO, '{"count": 3}', JSON, "Second"),
    ("Protobuf/3", PROTO, '{"n": 3}', JSON, "Inner"),
    ("Protobuf/2", PROTO2, b"\x08\x01\x10\x63", "application/x-protobuf", ""),
    ("XSD/1.0", OVEN, "<oven><heat>3</heat></oven>", "application/xml", ""),
    ("XSD/1.1", json.dumps(OVEN), "<oven><heat>3</heat></oven>", "", ""),
    ("JsonStructure/draft-02", STRUCTURE, '{"n": 3, "at": "2030-01-01T00:00:00Z"}', JSON, ""),
    ("JsonStructure/draft-02", STRUCTURE, "255", JSON, "/definitions/Small"),
]

DIFFERS: list[tuple[str, str, str | bytes, str, str, str]] = [
    (D7, PERSON, '{"name": 5}', JSON, "", "/name: 5 is not of type"),
    (D7, PERSON, "{", JSON, "", "it is not JSON"),
    (D7, PERSON, "", JSON, "", "it is empty"),
    (D7, PARTS, "2", JSON, "/definitions/N", "minimum"),
    ("Avro", RECORD, json.dumps(READING | {"unit": "C"}), JSON, "", "/unit: an object is needed"),
    ("Avro", RECORD, json.dumps(READING | {"kind": "C"}), JSON, "", "symbols of a.Kind"),
    ("Avro", RECORD, json.dumps(READING | {"at": 2**63}), JSON, "", "/at: it is no long"),
    ("Avro", RECORD, json.dumps(READING | {"x": 1}), JSON, "", "a.Reading has no x"),
    ("Avro", RECORD, '{"at": 7}', JSON, "", "it lacks kind, next, unit"),
    ("Avro", '"bytes"', '"\\u0100"', JSON, "", "it is no bytes"),
    ("Avro", '{"type": "fixed", "name": "F", "size": 2}', '"a"', JSON, "", "2 bytes"),
    ("Avro", '"int"', "true", JSON, "", "it is no int"),
    ("Avro", RECORD, binary(RECORD, PLAIN) + b"\0", "avro/binary", "", "1 bytes are left"),
    ("Avro", RECORD, binary(RECORD, PLAIN)[:-2], "avro/binary", "", "no binary a.Reading"),
    ("Avro", RECORD, b"\x0e\x09", "avro/binary", "", "no binary a.Reading"),
    ("Protobuf/3", PROTO, b"\x0a\xff", "application/protobuf", "", "no binary a.First"),
    ("Protobuf/3", PROTO, b"\x08\x01", "application/protobuf", "", "a.First.name is encoded"),
    ("Protobuf/3", PROTO, b"\x12\x02\x0a\x00", "application/protobuf", "", "a.First.Inner.n"),
    ("Protobuf/3", PROTO, '{"nom": "x"}', JSON, "", "nom"),
    ("Protobuf/3", PROTO, '{"name": "x"}', JSON, "Second", "name"),
    ("Protobuf/2", PROTO2, b"", "application/protobuf", "", "it lacks n"),
    ("XSD/1.0", OVEN, "<oven><heat>hot</heat></oven>", "text/xml", "", "/oven/heat"),
    ("XSD/1.0", OVEN, "<grill/>", "text/xml", "", "grill"),
    ("XSD/1.0", OVEN, "<oven>", "text/xml", "", "cannot be read as XML"),
    ("XSD/1.0", OVEN, "", "text/xml", "", "cannot be read as XML"),
    ("XSD/1.0", OVEN, BILLION, "text/xml", "", "cannot be read as XML"),
    ("XSD/1.0", OVEN, FILE, "text/xml", "", "cannot be read as XML"),
    ("JsonStructure/draft-02", STRUCTURE, '{"n": "3"}', JSON, "", "n"),
    ("JsonStructure/draft-02", STRUCTURE, "256", JSON, "/definitions/Small", "uint8"),
]

UNUSABLE: list[tuple[str, str, str, str]] = [
    (D7, '{"type": "strin"}', "", "strin"),
    (D7, '{"$ref": "http://elsewhere.example/s"}', "", "elsewhere.example"),
    (D7, PARTS, "/definitions/M", "/definitions/M"),
    ("Avro", '"strin"', "", "strin"),
    ("Avro", RECORD, "Writing", "it declares no type Writing"),
    ("Protobuf/3", 'syntax = "proto3";', "", "it declares no message"),
    ("Protobuf/3", PROTO, "Third", "it declares no message Third"),
    ("Protobuf/3", "massage", "", "1:1"),
    ("XSD/1.0", "<a/>", "", "not an element"),
    ("JsonStructure/draft-02", '{"type": "object"}', "", "$"),
]


def encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checker() -> AsyncIterator[Checker]:
    async with Checker(processes=1) as checker:
        yield checker


@pytest.mark.parametrize(("format", "schema", "payload", "contenttype", "part"), CONFORMS)
async def test_a_payload_that_its_schema_describes_conforms(
    checker: Checker, format: str, schema: str, payload: str | bytes, contenttype: str, part: str
) -> None:
    answer = await checker.conform(format, schema.encode(), encoded(payload), contenttype, part)
    assert answer == ""


@pytest.mark.parametrize(("format", "schema", "payload", "contenttype", "part", "says"), DIFFERS)
async def test_another_payload_does_not_and_it_is_said_where(
    checker: Checker,
    format: str,
    schema: str,
    payload: str | bytes,
    contenttype: str,
    part: str,
    says: str,
) -> None:
    answer = await checker.conform(format, schema.encode(), encoded(payload), contenttype, part)
    assert says in answer


@pytest.mark.parametrize(("format", "schema", "part", "says"), UNUSABLE)
async def test_a_schema_that_cannot_be_used_is_no_fault_of_the_payload(
    checker: Checker, format: str, schema: str, part: str, says: str
) -> None:
    with pytest.raises(UnusableSchema) as raised:
        await checker.conform(format, schema.encode(), b"{}", JSON, part)
    assert says in str(raised.value)
    assert await checker.conform(D7, b"true", b"{}", JSON) == ""


@pytest.mark.parametrize("format", ["Avro", D7, "Protobuf/3", "XSD/1.0", "JsonStructure/draft-02"])
async def test_a_payload_that_is_nested_very_deeply_is_refused(
    checker: Checker, format: str
) -> None:
    schemas = {
        "Avro": '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}',
        D7: LOOP,
        "Protobuf/3": 'syntax = "proto3"; message R { R r = 1; }',
        "XSD/1.0": OVEN,
        "JsonStructure/draft-02": STRUCTURE,
    }
    payload = "<oven>" * 100_000 if format == "XSD/1.0" else '{"r":' * 900 + "null" + "}" * 900
    assert await checker.conform(format, schemas[format].encode(), payload.encode(), JSON)


async def test_avro_arrays_of_nothing_cannot_fill_the_memory(checker: Checker) -> None:
    schema, bomb = b'{"type": "array", "items": "null"}', b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0"
    assert await checker.conform("Avro", schema, bomb, "avro/binary")
    assert await checker.conform("Avro", b'"int"', b"\x02", "avro/binary") == ""


async def test_a_huge_payload_is_refused_before_it_is_read(checker: Checker) -> None:
    assert "more than" in await checker.conform(D7, b"true", b" " * (MAX_BYTES + 1), JSON)


async def test_a_payload_that_takes_too_long_is_ended() -> None:
    schema = (
        f'{XS}<xs:element name="a"><xs:simpleType><xs:restriction base="xs:string">'
        '<xs:pattern value="(a+)+"/></xs:restriction></xs:simpleType></xs:element></xs:schema>'
    )
    payload = f"<a>{'a' * 40}!</a>"
    async with Checker(processes=1, seconds=2) as checker:
        answer = await checker.conform("XSD/1.0", schema.encode(), payload.encode(), "text/xml")
        assert answer == "the check took longer than 2 seconds (CONCORD_CHECK_SECONDS)"
        assert await checker.conform("Avro", b'"int"', b"\x02", "avro/binary") == ""
