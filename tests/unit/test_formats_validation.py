"""Which documents are valid in their format, and what is said of the others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import catalog.demo
from catalog.formats.checker import Checker
from tests.documentchecks import validate

pytestmark = pytest.mark.asyncio(loop_scope="module")

DATA = Path(catalog.demo.__file__).parent / "data"
XS = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'
ASSERT = f'{XS}<xs:complexType name="a"><xs:assert test="1 = 1"/></xs:complexType></xs:schema>'
ELSEWHERE = 'schemaLocation="http://b.example/"'
JSTRUCT = {"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://a.b/c"}

VALID = [
    ("Avro/1.12.0", '"string"'),
    ("Avro", '{"type": "record", "name": "a.B", "fields": [{"name": "b", "type": "B"}]}'),
    ("avro/1.9", '["null", {"type": "long", "logicalType": "unheard-of"}]'),
    ("JsonSchema/draft-07", '{"$schema": "http://json-schema.org/draft-07/schema#"}'),
    ("JsonSchema/draft-07", "true"),
    ("JsonSchema/draft-04", '{"maximum": 3, "exclusiveMaximum": true}'),
    ("JsonSchema/draft/2019-09", '{"$ref": "#/$defs/a", "$defs": {"a": {"minimum": 1}}}'),
    ("JsonSchema/draft-2020-12", '{"prefixItems": [{"$ref": "https://elsewhere.example/s"}]}'),
    ("JsonSchema", '{"$schema": "http://json-schema.org/draft-04/schema", "id": "urn:a"}'),
    (
        "JsonSchema/draft-07",
        '{"properties": {"$ref": {"type": "string"}, "n": {"pattern": "\\\\p{L}"}}}',
    ),
    ("Protobuf/3", 'syntax = "proto3"; message A { A a = 1; }'),
    ("Protobuf/3", json.dumps('syntax = "proto3"; message A {}')),
    ("Protobuf/2", "message A { required int32 a = 1; }"),
    ("Protobuf/2", ""),
    ("XSD/1.0", json.dumps(f"{XS}</xs:schema>")),
    (
        "Protobuf/3",
        'syntax = "proto3"; import "google/protobuf/timestamp.proto";'
        "message A { google.protobuf.Timestamp at = 1; }",
    ),
    ("XSD/1.0", f'{XS}<xs:element name="a" type="xs:string"/></xs:schema>'),
    (
        "XSD/1.1",
        ASSERT,
    ),
    (
        "XSD/1.0",
        f'{XS}<xs:import namespace="urn:b" {ELSEWHERE}/></xs:schema>',
    ),
    ("JsonStructure/draft-04", json.dumps({**JSTRUCT, "name": "A", "type": "uint8"})),
]

INVALID = [
    ("Avro/1.12.0", "", "empty"),
    ("Avro/1.12.0", '"strin"', "strin"),
    ("Avro/1.12.0", '{"type": "record"', "not JSON"),
    ("Avro/1.12.0", '{"type": "record", "name": "a-b", "fields": []}', "a-b"),
    ("Avro/1.12.0", '{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "Duplicate"),
    ("JsonSchema/draft-07", " ", "empty"),
    ("JsonSchema/draft-07", "[]", "not of this type"),
    ("JsonSchema/draft-04", "true", "not of this type"),
    ("JsonSchema/draft-07", '{"properties": {"a": {"type": "strin"}}}', "/properties/a/type"),
    ("JsonSchema/draft-07", '{"minimum": 3, "exclusiveMinimum": true}', "/exclusiveMinimum"),
    ("JsonSchema/draft/2020-12", '{"items": [{}]}', "/items"),
    ("JsonSchema/draft-07", '{"$schema": "http://json-schema.org/draft-04/schema#"}', "$schema"),
    ("JsonSchema", '{"$schema": "https://elsewhere.example/"}', "$schema"),
    ("JsonSchema/draft-07", '{"pattern": "("}', "/pattern"),
    ("JsonSchema/draft-07", '{"items": {"$ref": "#/definitions/a"}}', "leads nowhere"),
    ("Protobuf/3", "", "syntax"),
    ("Protobuf/3", 'syntax = "proto2";', "syntax"),
    ("Protobuf/3", 'syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }', "number 1"),
    ("Protobuf/3", 'syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
    ("Protobuf/3", 'syntax = "proto3"; import "google/api/http.proto";', "not found"),
    ("Protobuf/3", 'syntax = "proto3"; import "/etc/passwd";', "not found"),
    ("Protobuf/2", 'import "../document.proto";', "not found"),
    ("XSD/1.0", "", "no element"),
    ("XSD/1.0", "<a/>", "not an element of the schema"),
    ("XSD/1.1", f'{XS}<xs:element name="a" type="xs:strin"/></xs:schema>', "xs:strin"),
    (
        "XSD/1.0",
        ASSERT,
        "xs:assert",
    ),
    ("XSD/1.0", f'{XS}<xs:include schemaLocation="/etc/passwd"/></xs:schema>', "nothing but"),
    (
        "XSD/1.0",
        f"{XS}<xs:redefine {ELSEWHERE}/></xs:schema>",
        "nothing but",
    ),
    (
        "XSD/1.1",
        f'{XS}<xs:import namespace="urn:b" {ELSEWHERE}/>'
        '<xs:element name="a" xmlns:b="urn:b" type="b:t"/></xs:schema>',
        "nothing but",
    ),
    ("JsonStructure/draft-04", "", "empty"),
    ("JsonStructure/draft-04", json.dumps({**JSTRUCT, "name": "A", "type": "strin"}), "strin"),
    (
        "JsonStructure/draft-04",
        json.dumps({**JSTRUCT, "name": "A", "type": "string", "$import": "https://b.example/"}),
        "nothing but",
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checker() -> AsyncIterator[Checker]:
    async with Checker(processes=1) as checker:
        yield checker


@pytest.mark.parametrize(("format", "document"), VALID)
async def test_a_valid_document_has_nothing_wrong(
    checker: Checker, format: str, document: str
) -> None:
    assert await validate(checker, format, document.encode()) == ""


@pytest.mark.parametrize(("format", "document", "reason"), INVALID)
async def test_of_an_invalid_document_it_is_said_what_is_wrong(
    checker: Checker, format: str, document: str, reason: str
) -> None:
    assert reason in await validate(checker, format, document.encode())


@pytest.mark.parametrize("format", ["Avro", "JsonSchema", "JsonStructure", "Protobuf/3", "XSD"])
@pytest.mark.parametrize("document", [b"\xff\xfe\x00\x01", b"\x00" * 10, b"[1, 2", b"<a>"])
async def test_bytes_that_are_no_schema_are_invalid(
    checker: Checker, format: str, document: bytes
) -> None:
    answer = await validate(checker, format, document)
    assert answer
    assert "ended with" not in answer


async def test_the_schemas_of_real_catalogs_are_valid(checker: Checker) -> None:
    schemas = [schema for path in DATA.rglob("*.json") for schema in schemas_in(path)]
    assert {format.partition("/")[0] for format, _ in schemas} == {"Avro", "JsonStructure"}
    for format, document in schemas:
        assert await validate(checker, format, document) == ""


async def test_a_format_that_is_not_supported_cannot_be_asked_for(checker: Checker) -> None:
    with pytest.raises(ValueError, match="smoke/1"):
        await validate(checker, "smoke/1", b"")


def schemas_in(path: Path) -> Iterator[tuple[str, bytes]]:
    catalog: Any = json.loads(path.read_bytes())
    for group in catalog.get("schemagroups", {}).values():
        for schema in group["schemas"].values():
            for version in schema["versions"].values():
                if "schema" in version:
                    yield version["format"], json.dumps(version["schema"]).encode()
