"""JSON Schema as Confluent's Schema Registry checks, stores and compares it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.formats.confluent.jsonschema import canonical, formatted, incompatibilities
from catalog.formats.confluent.questions import SchemaDocument
from catalog.formats.documenttext import MalformedDocument

Json = Any
LATEST = "https://json-schema.org/draft/2020-12/schema"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"
STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
NULL, BOOLEAN, ARRAY = {"type": "null"}, {"type": "boolean"}, {"type": "array"}
CLOSED = {"additionalProperties": False}
TO_OPEN = "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"


def properties(**schemas: Json) -> Json:
    return {"type": "object", "properties": schemas}


def items(*schemas: Json, more: Json = True) -> Json:
    return ARRAY | {"items": list(schemas), "additionalItems": more}


def found(writer: Json, reader: Json) -> list[str]:
    """The types and the paths of what keeps the reader from reading."""
    messages = incompatibilities(
        SchemaDocument(json.dumps(reader), {}), SchemaDocument(json.dumps(writer), {})
    )
    parts = [
        re.match(r'{errorType:"(\w+)", description:".*?(\'(.*?)\'.*)?"}$', m) for m in messages
    ]
    return [f"{part[1]} {part[3] or ''}".strip() for part in parts if part]


def nested_in_not(depth: int) -> str:
    return '{"not":' * depth + "{}" + "}" * depth


def modern(schema: Json) -> Json:
    """The same schema in the keywords of draft 2020-12."""
    match schema:
        case list():
            return [modern(each) for each in schema]
        case {"items": list() as first, "additionalItems": more, **other}:
            return modern(other) | {"prefixItems": modern(first), "items": modern(more)}
        case {"dependencies": dict() as dependencies, **other}:
            names = {name: of for name, of in dependencies.items() if isinstance(of, list)}
            schemas = {name: modern(of) for name, of in dependencies.items() if name not in names}
            return modern(other) | {"dependentRequired": names, "dependentSchemas": schemas}
        case dict():
            return {name: modern(each) for name, each in schema.items()}
    return schema


def limits(kind: Json, upper: str, lower: str) -> list[tuple[Json, Json, list[str]]]:
    """A case of each change of two limits."""
    names = [re.sub(r"([A-Z])", r"_\1", keyword).upper() for keyword in (upper, lower)]
    return [
        (kind, kind | {upper: 3}, [f"{names[0]}_ADDED #/{upper}"]),
        (kind | {upper: 3}, kind, []),
        (kind | {upper: 3}, kind | {upper: 2}, [f"{names[0]}_DECREASED #/{upper}"]),
        (kind | {upper: 3}, kind | {upper: 4}, []),
        (kind, kind | {lower: 3}, [f"{names[1]}_ADDED #/{lower}"]),
        (kind | {lower: 3}, kind, []),
        (kind | {lower: 3}, kind | {lower: 4}, [f"{names[1]}_INCREASED #/{lower}"]),
        (kind | {lower: 3}, kind | {lower: 2}, []),
    ]


TYPES = [
    (STRING, {}, []),
    (STRING, True, []),
    (False, STRING, []),
    ({}, STRING, ["TYPE_CHANGED #/"]),
    (STRING, False, ["TYPE_CHANGED #/"]),
    (STRING, BOOLEAN, ["TYPE_CHANGED #/"]),
    (BOOLEAN, BOOLEAN, []),
    (NULL, STRING, ["TYPE_CHANGED #/"]),
    (INTEGER, NUMBER, []),
    (NUMBER, INTEGER, ["TYPE_NARROWED #/"]),
    (STRING, {"type": ["string", "null"]}, []),
    ({"type": ["string", "null"]}, STRING, ["TYPE_CHANGED #/"]),
    ({"type": ["object"]}, {"type": ["object", "array"]}, []),
    ({"type": ["object", "array"]}, {"type": ["object"]}, ["SUM_TYPE_NARROWED #/"]),
    ({"type": ["integer", "number"]}, {"type": ["integer"]}, ["SUM_TYPE_NARROWED #/"]),
    (STRING | {"title": "a", "default": 1}, STRING | {"description": "b", "$id": "c"}, []),
    (STRING | {"connect.type": "bytes"}, NUMBER | {"connect.type": "bytes"}, []),
    (STRING | {"connect.type": "bytes"}, NUMBER, ["TYPE_CHANGED #/"]),
]
SCALARS = [
    *limits(STRING, "maxLength", "minLength"),
    *limits(NUMBER, "maximum", "minimum"),
    *limits(NUMBER, "exclusiveMaximum", "exclusiveMinimum"),
    (NUMBER | {"maximum": 3}, NUMBER | {"maximum": 3.0}, []),
    (STRING, STRING | {"pattern": "a"}, ["PATTERN_ADDED #/pattern"]),
    (STRING | {"pattern": "a"}, STRING, []),
    (STRING | {"pattern": "a"}, STRING | {"pattern": "b"}, ["PATTERN_CHANGED #/pattern"]),
    (NUMBER, NUMBER | {"multipleOf": 2}, ["MULTIPLE_OF_ADDED #/multipleOf"]),
    (NUMBER | {"multipleOf": 2}, NUMBER, []),
    (NUMBER | {"multipleOf": 2}, NUMBER | {"multipleOf": 6}, ["MULTIPLE_OF_EXPANDED #/multipleOf"]),
    (NUMBER | {"multipleOf": 6}, NUMBER | {"multipleOf": 2}, []),
    (NUMBER | {"multipleOf": 0.2}, NUMBER | {"multipleOf": 0.1}, []),
    (NUMBER | {"multipleOf": 6}, NUMBER | {"multipleOf": 4}, ["MULTIPLE_OF_CHANGED #/multipleOf"]),
    ({"enum": [1]}, {"enum": [1, "a"]}, []),
    ({"enum": [1, "a"]}, {"enum": ["a"]}, ["ENUM_ARRAY_NARROWED #/enum"]),
    ({"enum": [1, "a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_CHANGED #/enum"]),
    ({"enum": [{"a": 1, "b": 2}]}, {"enum": [{"b": 2, "a": 1}]}, []),
    ({"const": "a"}, {"const": "a"}, []),
    ({"const": "a"}, {"const": "b"}, ["ENUM_ARRAY_CHANGED #/const"]),
    (STRING | {"enum": ["a"]}, STRING, []),
    (STRING, STRING | {"enum": ["a"]}, ["TYPE_CHANGED #/"]),
    ({"not": NUMBER}, {"not": INTEGER}, []),
    ({"not": INTEGER}, {"not": NUMBER}, ["NOT_TYPE_EXTENDED #/not"]),
    ({"if": STRING, "then": {"minLength": 1}}, {"if": STRING, "then": {"minLength": 2}}, []),
]
A, AB = properties(a=STRING), properties(a=STRING, b=STRING)
REQUIRED_B, B_WITH_DEFAULT = {"required": ["b"]}, properties(a=STRING, b=STRING | {"default": ""})
PARTLY = {"additionalProperties": STRING}
COVERED = "COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
OBJECTS = [
    *limits({"type": "object"}, "maxProperties", "minProperties"),
    (A, AB, [f"{TO_OPEN} #/properties/b"]),
    (A, AB | REQUIRED_B, ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"]),
    (
        A,
        B_WITH_DEFAULT | REQUIRED_B,
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b"],
    ),
    (A, properties(a=STRING, b=True), []),
    (A, properties(a=STRING, b={}), []),
    (AB, A, []),
    (A, properties(a=NUMBER), ["TYPE_CHANGED #/properties/a"]),
    (properties(a=A), properties(a=AB), [f"{TO_OPEN} #/properties/a/properties/b"]),
    (A | CLOSED, AB | CLOSED, []),
    (A | CLOSED, B_WITH_DEFAULT | CLOSED | REQUIRED_B, []),
    (
        A | CLOSED,
        AB | CLOSED | REQUIRED_B,
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b"],
    ),
    (AB | CLOSED, A | CLOSED, ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b"]),
    (properties(a=STRING, b=False) | CLOSED, A | CLOSED, []),
    (A | PARTLY, AB | PARTLY, []),
    (
        A | PARTLY,
        properties(a=STRING, b=NUMBER) | PARTLY,
        ["TYPE_CHANGED #/properties/b", f"PROPERTY_ADDED_NOT_{COVERED} #/properties/b"],
    ),
    (AB | CLOSED, A | PARTLY, []),
    (
        properties(a=STRING, b=NUMBER) | CLOSED,
        A | PARTLY,
        ["TYPE_CHANGED #/properties/b", f"PROPERTY_REMOVED_NOT_{COVERED} #/properties/b"],
    ),
    (A | CLOSED | {"patternProperties": {"^b": INTEGER}}, properties(a=STRING, b1=NUMBER), []),
    (
        AB | CLOSED,
        A | CLOSED | {"patternProperties": {r"^\p{L}$": NUMBER}},
        ["TYPE_CHANGED #/properties/b", f"PROPERTY_REMOVED_NOT_{COVERED} #/properties/b"],
    ),
    (AB, AB | REQUIRED_B, ["REQUIRED_ATTRIBUTE_ADDED #/required/b"]),
    (AB | REQUIRED_B, AB, []),
    (AB, B_WITH_DEFAULT | REQUIRED_B, []),
    (AB, AB | {"required": ["c"]}, []),
    (A | CLOSED, A, []),
    (A, A | CLOSED, ["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"]),
    (A, A | PARTLY, ["ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"]),
    (A | PARTLY, A, []),
    (
        A | PARTLY,
        A | {"additionalProperties": NUMBER},
        ["TYPE_CHANGED #/additionalProperties"],
    ),
    (AB, AB | {"dependencies": {"a": ["b"]}}, ["DEPENDENCY_ARRAY_ADDED #/dependencies/a"]),
    (AB | {"dependencies": {"a": ["b"]}}, AB, []),
    (AB, AB | {"dependencies": {"a": []}}, []),
    (
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["b", "c"]}},
        ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
    ),
    ({"dependencies": {"a": ["b", "c"]}}, {"dependencies": {"a": ["b"]}}, []),
    (
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["c"]}},
        ["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"],
    ),
    (
        {"dependencies": {"b": STRING}},
        {"dependencies": {"a": STRING}},
        ["DEPENDENCY_SCHEMA_ADDED #/dependencies/a"],
    ),
    ({"dependencies": {"a": STRING}}, {"dependencies": {}}, []),
    (
        {"dependencies": {"a": STRING}},
        {"dependencies": {"a": NUMBER}},
        ["TYPE_CHANGED #/dependencies/a"],
    ),
]
ARRAYS = [
    *limits(ARRAY, "maxItems", "minItems"),
    (ARRAY, ARRAY | {"uniqueItems": True}, ["UNIQUE_ITEMS_ADDED #/uniqueItems"]),
    (ARRAY | {"uniqueItems": True}, ARRAY, []),
    (ARRAY, ARRAY | {"items": STRING}, ["SCHEMA_ADDED"]),
    (ARRAY | {"items": STRING}, ARRAY, []),
    (ARRAY | {"items": STRING}, ARRAY | {"items": NUMBER}, ["TYPE_CHANGED #/items"]),
    (items(STRING), items(NUMBER), ["TYPE_CHANGED #/items/0"]),
    (items(STRING), items(STRING, NUMBER), ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"]),
    (items(STRING), items(STRING, True), []),
    (items(STRING, NUMBER), items(STRING), []),
    (items(STRING, more=False), items(STRING, NUMBER, more=False), []),
    (
        items(STRING, NUMBER, more=False),
        items(STRING, more=False),
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (items(STRING, False, more=False), items(STRING, more=False), []),
    (items(STRING, more=NUMBER), items(STRING, NUMBER, more=NUMBER), []),
    (
        items(STRING, more=NUMBER),
        items(STRING, STRING, more=NUMBER),
        ["TYPE_CHANGED #/items/1", f"ITEM_ADDED_NOT_{COVERED} #/items/1"],
    ),
    (items(STRING, INTEGER, more=NUMBER), items(STRING, more=NUMBER), []),
    (
        items(STRING, STRING, more=NUMBER),
        items(STRING, more=NUMBER),
        ["TYPE_CHANGED #/items/1", f"ITEM_REMOVED_NOT_{COVERED} #/items/1"],
    ),
    (items(STRING), items(STRING, more=False), ["ADDITIONAL_ITEMS_REMOVED #/additionalItems"]),
    (items(STRING, more=False), items(STRING), []),
    (items(STRING), items(STRING, more=STRING), ["ADDITIONAL_ITEMS_NARROWED #/additionalItems"]),
    (items(STRING, more=STRING), items(STRING), []),
    (
        items(STRING, more=STRING),
        items(STRING, more=NUMBER),
        ["TYPE_CHANGED #/additionalItems"],
    ),
]


def all_of(*schemas: Json) -> Json:
    return {"allOf": list(schemas)}


def any_of(*schemas: Json) -> Json:
    return {"anyOf": list(schemas)}


def one_of(*schemas: Json) -> Json:
    return {"oneOf": list(schemas)}


SHORT, LONG = STRING | {"maxLength": 2}, STRING | {"maxLength": 9}
COMBINATIONS = [
    (one_of(STRING), one_of(NUMBER, STRING), []),
    (one_of(NUMBER, STRING), one_of(STRING), ["SUM_TYPE_NARROWED #/"]),
    (one_of(STRING), one_of(NUMBER), ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),
    (one_of(NULL, SHORT), one_of(LONG, NULL), []),
    (one_of(NULL, LONG), one_of(SHORT, NULL), ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),
    # The writer's integers must give way to its numbers, which fit to a single alternative.
    (one_of(INTEGER, NUMBER), one_of(NUMBER, INTEGER | {"title": "i"}), []),
    (all_of(STRING, STRING), all_of(STRING), []),
    (all_of(STRING), all_of(STRING, STRING), []),
    (all_of(STRING, {"enum": ["a"]}), all_of({"enum": ["a", "b"]}, STRING), []),
    (all_of(STRING, {"enum": ["a"]}), all_of(STRING), []),
    (all_of(STRING), all_of(STRING, {"enum": ["a"]}), ["PRODUCT_TYPE_EXTENDED #/"]),
    (one_of(STRING), any_of(STRING), []),
    (one_of(STRING), any_of(STRING, NUMBER), []),
    (one_of(NUMBER, STRING), any_of(STRING), ["SUM_TYPE_NARROWED #/"]),
    (all_of(NUMBER, STRING), any_of(STRING), []),
    (all_of(STRING), any_of(NUMBER, STRING), []),
    (any_of(STRING), one_of(NUMBER, STRING), []),
    (any_of(NUMBER, STRING), one_of(NUMBER, STRING), ["COMBINED_TYPE_CHANGED #/"]),
    (all_of(NUMBER, STRING), one_of(STRING), []),
    (all_of(NUMBER, STRING), one_of(NUMBER, STRING), ["COMBINED_TYPE_CHANGED #/"]),
    (any_of(STRING), all_of(STRING), []),
    (one_of(STRING), all_of(STRING, {"enum": ["a"]}), ["COMBINED_TYPE_CHANGED #/"]),
    (one_of(STRING, NUMBER), all_of(STRING), ["COMBINED_TYPE_CHANGED #/"]),
    (STRING, one_of(NUMBER, STRING), []),
    (SHORT, any_of(NUMBER, STRING), []),
    (STRING, any_of(NUMBER, SHORT), ["TYPE_CHANGED #/"]),
    (STRING, all_of(STRING), []),
    (STRING, all_of(NUMBER, STRING), ["TYPE_CHANGED #/"]),
    (one_of(STRING), STRING, []),
    (one_of(STRING, NUMBER), STRING, ["TYPE_CHANGED #/"]),
    (all_of(STRING, NUMBER), STRING, []),
    (properties(a=one_of(STRING)), properties(a=one_of(STRING, NULL)), []),
    (
        properties(a=one_of(STRING, NULL)),
        properties(a=one_of(STRING)),
        ["SUM_TYPE_NARROWED #/properties/a"],
    ),
]


def defined(schema: Json, of: Json) -> Json:
    return {"definitions": {"t": of}} | schema


HERE = {"$ref": "#/definitions/t"}
LISTED = properties(next={"$ref": "#"})
REFERENCES = [
    (STRING, defined(HERE, STRING), []),
    (defined(HERE, STRING), STRING, []),
    (defined(HERE, STRING), defined(HERE, NUMBER), ["TYPE_CHANGED #/"]),
    (defined(HERE, HERE), STRING, ["TYPE_CHANGED #/"]),
    (LISTED, LISTED, []),
    (
        LISTED,
        LISTED | {"properties": LISTED["properties"] | {"a": STRING}},
        [f"{TO_OPEN} #/properties/a"],
    ),
    (properties(a=one_of({"$ref": "#"})), properties(a=one_of({"$ref": "#"}, NULL)), []),
]


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [*TYPES, *SCALARS, *OBJECTS, *ARRAYS, *COMBINATIONS, *REFERENCES],
)
def test_each_change_is_compatible_or_has_its_types_in_all_drafts(
    writer: Json, reader: Json, expected: list[str]
) -> None:
    assert found(writer, reader) == expected
    in_modern = [
        {"$schema": LATEST} | schema if isinstance(schema, dict) else schema
        for schema in map(modern, (writer, reader))
    ]
    assert found(*in_modern) == expected


@pytest.mark.parametrize("draft", [LATEST, "https://json-schema.org/draft/2019-09/schema"])
@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        (
            A,
            A | {"unevaluatedProperties": False},
            ["UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties"],
        ),
        (
            A,
            A | {"unevaluatedProperties": STRING},
            ["UNEVALUATED_PROPERTIES_NARROWED #/unevaluatedProperties"],
        ),
        (A | {"unevaluatedProperties": False}, A, []),
        (
            A | {"unevaluatedProperties": False},
            AB | {"unevaluatedProperties": False},
            [],
        ),
        (A | {"unevaluatedProperties": STRING}, AB | {"unevaluatedProperties": True}, []),
        (
            {"unevaluatedItems": STRING},
            {"unevaluatedItems": NUMBER},
            ["TYPE_CHANGED #/unevaluatedItems"],
        ),
        (
            {"contains": {}},
            {"contains": {}, "minContains": 2},
            ["MIN_CONTAINS_INCREASED #/minContains"],
        ),
        (
            ARRAY,
            {"contains": {}, "maxContains": 2},
            ["MIN_CONTAINS_ADDED #/minContains", "MAX_CONTAINS_ADDED #/maxContains"],
        ),
        (
            {"contains": {}, "maxContains": 3},
            {"contains": {}, "maxContains": 2},
            ["MAX_CONTAINS_DECREASED #/maxContains"],
        ),
        ({"items": True}, {"items": False}, ["ADDITIONAL_ITEMS_REMOVED #/additionalItems"]),
        ({"properties": {}, "maxProperties": 1}, {"properties": {}}, []),
        (
            defined(HERE | {"minimum": 1}, NUMBER),
            defined(HERE | {"minimum": 2}, NUMBER),
            ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"],
        ),
        (all_of(STRING | {"enum": ["a"]}), all_of({"enum": ["a"]}, STRING), []),
        ({"$ref": "#x", "$defs": {"x": {"$anchor": "x"} | STRING}}, STRING, []),
        ({"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x"} | STRING}}, STRING, []),
        ({"then": STRING}, {"else": NUMBER}, []),
    ],
)
def test_keywords_of_later_drafts_are_compared(
    draft: str, writer: Json, reader: Json, expected: list[str]
) -> None:
    assert found({"$schema": draft} | writer, {"$schema": draft} | reader) == expected


@pytest.mark.parametrize(
    ("writer", "reader", "path", "start", "end"),
    [
        (
            STRING,
            SHORT,
            "#/maxLength",
            "The keyword at",
            "in the new schema is not present in the old schema",
        ),
        (
            LONG,
            SHORT,
            "#/maxLength",
            "The value at",
            "in the new schema is less than its value in the old schema",
        ),
        (
            {"minItems": 1},
            {"minItems": 2},
            "#/minItems",
            "The value at",
            "in the new schema is more than its value in the old schema",
        ),
        (
            {"pattern": "a"},
            {"pattern": "b"},
            "#/pattern",
            "The value at",
            "is different between the new and old schema",
        ),
        (
            {"enum": [1, 2]},
            {"enum": [1]},
            "#/enum",
            "An array or combined type at",
            "has fewer elements in the new schema than the old schema",
        ),
        (
            {"not": INTEGER},
            {"not": NUMBER},
            "#/not",
            "An array or combined type at",
            "has more elements in the new schema than the old schema",
        ),
        (
            STRING,
            NUMBER,
            "#/",
            "A type at",
            "is different between the new schema and the old schema",
        ),
        (
            A,
            AB,
            "#/properties/b",
            "The new schema has an open content model and has a property or item at",
            "which is missing in the old schema",
        ),
        (
            A | CLOSED,
            AB | CLOSED | REQUIRED_B,
            "#/properties/b",
            "The new schema has an unopen content model and has a required property at",
            "which is missing in the old schema",
        ),
        (
            AB | CLOSED,
            A | CLOSED,
            "#/properties/b",
            "The new schema has a closed content model and is missing a property or item "
            "present at",
            "in the old schema",
        ),
        (
            properties(b=NUMBER) | CLOSED,
            PARTLY,
            "#/properties/b",
            "A property or item is missing in the new schema but present at",
            "in the old schema and is not covered by its partially open content model",
        ),
        (
            PARTLY,
            properties(b=NUMBER) | PARTLY,
            "#/properties/b",
            "The new schema has a property or item at",
            "which is missing in the old schema and is not covered by its partially open "
            "content model",
        ),
    ],
)
def test_the_messages_are_those_of_confluent(
    writer: Json, reader: Json, path: str, start: str, end: str
) -> None:
    *_, message = incompatibilities(
        SchemaDocument(json.dumps(reader), {}), SchemaDocument(json.dumps(writer), {})
    )
    message = message.replace("%s", "new", 1).replace("%s", "old", 1)
    assert message.partition(", ")[2] == f"description:\"{start} path '{path}' {end}\"}}"


def test_the_reader_comes_before_the_writer_in_a_message() -> None:
    reader, writer = (
        SchemaDocument('{"type":"string"}', {}),
        SchemaDocument('{"type":"number"}', {}),
    )
    assert incompatibilities(reader, writer) == [
        '{errorType:"TYPE_CHANGED", description:"A type at path \'#/\' is different between '
        'the %s schema and the %s schema"}'
    ]


def test_what_schemas_refer_to_is_compared() -> None:
    person = '{"properties":{"home":{"$ref":"address.json#/definitions/a"}}}'
    address = '{"definitions":{"a":{"$ref":"street.json"}}}'
    reader, writer = (
        SchemaDocument(person, {"street.json": f'{{"type":"{kind}"}}', "address.json": address})
        for kind in ("string", "integer")
    )
    assert "TYPE_CHANGED" in incompatibilities(reader, writer)[0]
    assert not incompatibilities(reader, reader)


def trade(kind: str) -> Json:
    """A dozen types, each of which refers to all in two places."""
    names = [f"t{number}" for number in range(12)]
    union = one_of(*({"$ref": f"#/definitions/{name}"} for name in names))
    kinds = dict.fromkeys(names, "string") | {"t3": kind}
    types = {name: properties(id={"type": of}, x=union, y=union) for name, of in kinds.items()}
    return {"definitions": types, "properties": {"product": union}}


def test_unions_of_types_that_refer_to_each_other_are_compared() -> None:
    assert not found(trade("string"), trade("string"))
    assert found(trade("string"), trade("number")) == [
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/properties/product"
    ]


def test_an_assumption_about_a_cycle_does_not_hide_what_is_incompatible() -> None:
    def schema(first: str, second: str) -> Json:
        def part(kind: str, refers_to: str) -> Json:
            return properties(id={"type": kind}, x=one_of({"$ref": f"#/definitions/{refers_to}"}))

        parts = {"a": part(first, "c"), "b": part(second, "c"), "c": part("integer", "a")}
        union = one_of({"$ref": "#/definitions/a"}, {"$ref": "#/definitions/b"})
        return {"definitions": parts, "properties": {"root": union}}

    assert found(schema("integer", "boolean"), schema("boolean", "number"))


def test_a_difference_in_many_places_is_reported_a_thousand_times_at_most() -> None:
    def schema(kind: str) -> Json:
        steps = {
            f"d{depth}": properties(
                a={"$ref": f"#/definitions/d{depth + 1}"}, b={"$ref": f"#/definitions/d{depth + 1}"}
            )
            for depth in range(40)
        }
        return {"definitions": steps | {"d40": {"type": kind}}, "$ref": "#/definitions/d0"}

    assert len(found(schema("string"), schema("number"))) == 1000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{ "b" : 1 ,\n"a" : [ true , null ] }', '{"b":1,"a":[true,null]}'),
        ("true", "true"),
        ("{} and more", "{}"),
        ('{"a":1,"b":2,"a":3}', '{"a":3,"b":2}'),
        (
            '{"a":[1.0,1e3,1.50,-0,-0.0,1E-7,0.0000001,100000000000000000000]}',
            '{"a":[1.0,1E+3,1.50,0,0.0,1E-7,1E-7,100000000000000000000]}',
        ),
        ('{"a":[NaN,-Infinity]}', '{"a":["NaN","-Infinity"]}'),
        (
            r'{"a":"\u00e9\/\"\\\b\f\n\r\t\u001f\ud83d\ude00\ud800é"}',
            '{"a":"é/\\"\\\\\\b\\f\\n\\r\\t\\u001F😀?é"}',
        ),
    ],
)
def test_the_canonical_text_is_that_of_jackson(text: str, expected: str) -> None:
    assert canonical(text, {}, normalize=False) == expected


def test_a_normalized_text_has_its_members_in_order() -> None:
    text = '{"b":{"é":{"b":1,"a":[{"d":1,"c":2}]},"z":{},"😀":{},"\uff5e":{}},"a":[3,2]}'
    assert canonical(text, {}, normalize=True) == (
        '{"a":[3,2],"b":{"z":{},"é":{"a":[{"c":2,"d":1}],"b":1},"😀":{},"\uff5e":{}}}'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[]",
        "5",
        "null",
        '"string"',
        '{"type":"str"}',
        '{"type":5}',
        '{"type":["string",1]}',
        '{"properties":{"a":5}}',
        '{"properties":[]}',
        '{"patternProperties":{"[":{}}}',
        '{"required":"a"}',
        '{"required":true}',
        '{"required":[1]}',
        '{"minLength":"1"}',
        '{"minLength":1.5}',
        '{"maxItems":2147483648}',
        '{"minimum":"1"}',
        '{"exclusiveMinimum":true}',
        '{"multipleOf":0}',
        '{"pattern":"["}',
        '{"pattern":1}',
        '{"format":1}',
        '{"enum":"a"}',
        '{"allOf":{}}',
        '{"not":1}',
        '{"items":1}',
        '{"additionalItems":1}',
        '{"uniqueItems":1}',
        '{"additionalProperties":[]}',
        '{"dependencies":{"a":1}}',
        '{"if":1}',
        '{"title":1}',
        '{"$id":1}',
        '{"$id":"a b"}',
        '{"$id":"["}',
        '{"readOnly":1}',
        '{"$schema":1}',
        '{"$ref":1}',
        '{"$ref":"#/definitions/a"}',
        '{"$ref":"#/definitions/a b","definitions":{"a b":{}}}',
        '{"$ref":"#/definitions/a","$defs":{"a":{}}}',
        '{"$ref":"#/definitions","definitions":[]}',
        '{"$ref":"other.json"}',
        '{"properties":{"a":{"$ref":"http://example.com/a.json"}}}',
        f'{{"$schema":"{DRAFT_4}","exclusiveMinimum":1}}',
        f'{{"$schema":"{DRAFT_4}","id":1}}',
        f'{{"$schema":"{DRAFT_4}","items":true}}',
        f'{{"$schema":"{DRAFT_4}","dependencies":{{"a":false}}}}',
        f'{{"$schema":"{LATEST}","$id":"a b"}}',
        f'{{"$schema":"{LATEST}","items":[{{}}]}}',
        f'{{"$schema":"{LATEST}","$defs":{{"a":{{"type":"str"}}}}}}',
        f'{{"$schema":"{LATEST}","$defs":[]}}',
        f'{{"$schema":"{LATEST}","dependentRequired":{{"a":{{}}}}}}',
        f'{{"$schema":"{LATEST}","prefixItems":{{}}}}',
        f'{{"$schema":"{LATEST}","deprecated":1}}',
        f'{{"$schema":"{LATEST}","$ref":"#a"}}',
        '{"a":1e3000000000}',
        f'{{"a":{"9" * 1001}}}',
        f'{{"not":{"[" * 100_000}',
        nested_in_not(900),
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(MalformedDocument):
        canonical(text, {}, normalize=False)


@pytest.mark.parametrize(
    "text",
    [
        "false",
        "{}",
        '{"$schema":"https://example.com/own","type":"string"}',
        '{"unknown":{"type":"str"}}',
        '{"definitions":{"a":{"type":"str"}}}',
        '{"type":[]}',
        '{"enum":[]}',
        '{"required":["a","a"]}',
        '{"minLength":-1}',
        '{"format":"own"}',
        '{"pattern":"\\\\p{L}(?<n>a)"}',
        '{"pattern":"a++"}',
        '{"items":[{},true]}',
        '{"properties":{"$id":{"type":"string"}}}',
        '{"$ref":"#/$defs/a","$defs":{"a":{}}}',
        '{"$ref":"#/$defs/a","definitions":{"a":{}}}',
        '{"$ref":"#/definitions/a%20b","definitions":{"a b":{}}}',
        '{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/a"}}}',
        '{"$ref":"#"}',
        '{"$ref":"http://json-schema.org/draft-07/schema#"}',
        '{"$id":"task.json","properties":{"parent":{"$ref":"task.json"}}}',
        f'{{"$schema":"{DRAFT_4}","minimum":1,"exclusiveMinimum":true,"const":1,"contains":1}}',
        f'{{"$schema":"{LATEST}","$ref":"#/definitions/a b","definitions":{{"a b":{{}}}}}}',
        f'{{"$schema":"{LATEST}","minLength":1.0,"if":true,"else":false}}',
        nested_in_not(60),
    ],
)
def test_what_confluent_lets_through_is_stored(text: str) -> None:
    assert canonical(text, {}, normalize=False) == text


@pytest.mark.parametrize(
    ("text", "references", "is_valid"),
    [
        ('{"$ref":"a.json"}', {"a.json": "{}"}, True),
        ('{"$ref":"a.json#/definitions/x"}', {"a.json": '{"definitions":{"x":true}}'}, True),
        ('{"$ref":"a.json#/definitions/y"}', {"a.json": '{"definitions":{"x":true}}'}, False),
        ('{"$ref":"b.json"}', {"a.json": "{}"}, False),
        ('{"$ref":"com.example.A"}', {"com.example.A": "{}"}, True),
        ('{"$id":"http://a/b.json","$ref":"c.json"}', {"c.json": "{}"}, True),
        ('{"$id":"http://a/b.json","$ref":"c.json"}', {"http://a/c.json": "{}"}, True),
        ('{"$ref":"a.json"}', {"b.json": "{}", "a.json": '{"$ref":"b.json"}'}, True),
        ('{"$ref":"a.json"}', {"a.json": '{"$ref":"b.json"}'}, False),
        ('{"$ref":"a.json"}', {"a.json": '{"type":"str"}'}, False),
        ('{"$ref":"a.json"}', {"a.json": "true"}, False),
        ('{"$ref":"a.json"}', {"a.json": '{"$id":"http://x/a","items":{"$ref":"#"}}'}, True),
        (f'{{"$schema":"{LATEST}","$ref":"./a.json"}}', {"a.json": "true"}, True),
        (f'{{"$schema":"{LATEST}","$id":"http://x/y","$ref":"a.json"}}', {"a.json": "{}"}, True),
    ],
)
def test_references_must_lead_to_a_schema(
    text: str, references: dict[str, str], is_valid: bool
) -> None:
    if is_valid:
        assert canonical(text, references, normalize=False) == text
    else:
        with pytest.raises(MalformedDocument):
            canonical(text, references, normalize=False)


def test_half_of_a_surrogate_pair_is_nowhere_in_what_is_said() -> None:
    reader = SchemaDocument(r'{"properties":{"\ud800":{"type":"null"}}}', {})
    writer = SchemaDocument('{"properties":{"\ud801":{"type":"string"}}}', {})
    assert "'#/properties/?'" in "".join(incompatibilities(reader, writer))
    with pytest.raises(MalformedDocument, match=r"\? is no type"):
        canonical(r'{"type":"\ud800"}', {}, normalize=False)


def test_there_is_no_other_format() -> None:
    assert formatted("{}", {}, "resolved") == "{}"


def optional(**keywords: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries({}, optional=keywords)


def nested(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    by_name = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    several = st.lists(inner, min_size=1, max_size=3)
    return (
        optional(
            type=st.sampled_from(["object", "array", "string", "integer", ["null", "array"]]),
            properties=by_name,
            patternProperties=by_name,
            additionalProperties=inner,
            required=st.lists(st.sampled_from("abc")),
            items=inner,
            contains=inner,
            allOf=several,
            anyOf=several,
            oneOf=several,
            enum=st.lists(st.integers(0, 3)),
            minimum=st.integers(0, 5) | st.floats(0, 5),
            maxLength=st.integers(0, 5),
            default=st.none(),
        )
        | st.fixed_dictionaries({"not": inner})
        | st.just({"$ref": "#"})
    )


schemas = st.recursive(st.booleans() | st.just(STRING), nested, max_leaves=8).filter(
    lambda schema: isinstance(schema, dict)
)
drafts = st.sampled_from([{}, {"$schema": LATEST}])


@given(schemas, drafts)
def test_a_schema_is_compatible_with_itself(schema: Json, draft: Json) -> None:
    assert found(draft | schema, draft | schema) == []


@given(schemas, schemas, drafts)
def test_any_two_schemas_can_be_compared(one: Json, other: Json, draft: Json) -> None:
    differences = found(draft | one, draft | other)
    assert len(differences) == len(
        incompatibilities(
            SchemaDocument(json.dumps(draft | other), {}),
            SchemaDocument(json.dumps(draft | one), {}),
        )
    )


@given(schemas, st.booleans())
def test_the_canonical_text_is_its_own_and_means_the_same(schema: Json, normalize: bool) -> None:
    text = canonical(json.dumps(schema, indent=1), {}, normalize=normalize)
    assert canonical(text, {}, normalize=normalize) == text
    assert json.loads(text) == schema
