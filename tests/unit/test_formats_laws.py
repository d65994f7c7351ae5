"""What holds for all schemas, whatever they say."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from catalog.formats.worker import check

Json = Any
SEVERAL = st.sampled_from(["allOf", "anyOf", "oneOf"])
INNER = ("items", "contains", "not", "if", "then", "additionalProperties")
NAMES = st.sampled_from(["a", "b", "c"])


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def small(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most)


scalars: st.SearchStrategy[Json] = (
    st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from([0.5, 1.5, "", "a", "ab", "b"])
)
values: st.SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=4,
)


def compound(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """Schemas that accept no object or array of which they do not say what is in it."""
    objects = some(
        required=st.lists(NAMES, unique=True, max_size=2),
        minProperties=small(2),
        maxProperties=small(3),
        patternProperties=st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=1),
        propertyNames=inner,
    )
    arrays = some(
        prefixItems=st.lists(inner, min_size=1, max_size=2),
        minItems=small(2),
        maxItems=small(3),
        uniqueItems=st.booleans(),
        contains=inner,
    )
    several = st.lists(inner, min_size=1, max_size=2)
    return (
        st.builds(
            lambda some, named, rest: (
                some | {"type": "object", "properties": named, "additionalProperties": rest}
            ),
            objects,
            st.dictionaries(NAMES, inner, max_size=3),
            st.just(False) | inner,
        )
        | st.builds(lambda some, each: some | {"type": "array", "items": each}, arrays, inner)
        | st.builds(lambda keyword, parts: {keyword: parts}, SEVERAL, several)
        | st.builds(lambda part, other: {"allOf": [part], "not": other}, inner, inner)
        | st.builds(lambda a, b, c: {"allOf": [a], "if": b, "then": c}, inner, inner, inner)
    )


schemas: st.SearchStrategy[Json] = st.recursive(
    st.sampled_from([False, {"type": ["null", "boolean", "number", "string"]}])
    | st.fixed_dictionaries({"enum": st.lists(values, min_size=1, max_size=3)})
    | st.fixed_dictionaries({"const": values})
    | st.fixed_dictionaries(
        {
            "type": st.sampled_from(["string", "integer", "number", "boolean", "null"])
            | st.just(["string", "null", "integer"])
        },
        optional={
            "minimum": small(2),
            "exclusiveMaximum": small(4),
            "multipleOf": st.sampled_from([0.5, 1, 2]),
            "minLength": small(2),
            "maxLength": small(2),
            "pattern": st.sampled_from(["^a", "b$"]),
        },
    ),
    compound,
    max_leaves=6,
)


@given(schemas)
def test_a_json_schema_is_compatible_with_itself(schema: Json) -> None:
    document = json.dumps(schema).encode()
    # Another description makes it another document, which says the same.
    described = {"allOf": [schema], "description": "again"}
    for newer in (document, json.dumps(described).encode()):
        assert not check("jsonschema", "backward", [document, newer])
        assert not check("jsonschema", "forward", [document, newer])


@given(st.data(), st.lists(values, min_size=5, max_size=20))
def test_a_compatible_newer_json_schema_accepts_what_the_older_one_accepts(
    data: st.DataObject, instances: list[Json]
) -> None:
    older = data.draw(schemas)
    newer = data.draw(revisions(older))
    documents = [json.dumps(schema).encode() for schema in (older, newer)]
    assert check("jsonschema", "backward", documents) == check(
        "jsonschema", "forward", documents[::-1]
    )
    if not check("jsonschema", "backward", documents):
        assert [each for each in accepted(older, instances) if not accepted(newer, [each])] == []


def revisions(older: Json) -> st.SearchStrategy[Json]:
    if not isinstance(older, dict):
        return schemas
    less = st.sampled_from([None, *older]).map(
        lambda dropped: {key: value for key, value in older.items() if key != dropped}
    )
    more = schemas.map(lambda other: older | (other if isinstance(other, dict) else {}))
    deeper = st.sampled_from([None, *older]).flatmap(
        lambda changed: (
            revisions(older[changed]).map(lambda new: older | {changed: new})
            if isinstance(older.get(changed), dict) and changed in INNER
            else st.just(older)
        )
    )
    wider = schemas.map(lambda other: {"anyOf": [older, other]})
    return less | more | deeper | wider | schemas


def accepted(schema: Json, instances: list[Json]) -> list[Json]:
    validator = jsonschema_rs.Draft202012Validator(schema)
    return [instance for instance in instances if validator.is_valid(instance)]


avro_types: st.SearchStrategy[Json] = st.recursive(
    st.sampled_from(["null", "int", "long", "string", "bytes", "double", "boolean"]),
    lambda inner: (
        st.builds(lambda each: {"type": "array", "items": each}, inner)
        | st.builds(lambda each: {"type": "map", "values": each}, inner)
        | st.builds(lambda fields: {"type": "record", "fields": fields}, st.lists(inner))
        | st.builds(lambda symbols: {"type": "enum", "symbols": symbols}, st.just(["A", "B"]))
        | st.builds(lambda size: {"type": "fixed", "size": size}, small(9))
        | st.builds(lambda each: ["null", {"type": "array", "items": each}], inner)
    ),
    max_leaves=12,
)


@given(avro_types)
def test_an_avro_schema_is_compatible_with_itself(type: Json) -> None:
    document = json.dumps(named(type, itertools.count())).encode()
    assert check("avro", "", [document]) == ""
    assert check("avro", "backward", [document, document + b" "]) == ""
    assert check("avro", "forward", [document, document + b" "]) == ""


def named(type: Json, numbers: Iterator[int]) -> Json:
    """Each record, enum and fixed type needs a name of its own, and so do fields."""
    if isinstance(type, list):
        return [named(each, numbers) for each in type]
    if not isinstance(type, dict):
        return type
    name = {"name": f"n{next(numbers)}"}
    if "fields" in type:
        fields = [
            {"name": f"f{index}", "type": named(each, numbers)}
            for index, each in enumerate(type["fields"])
        ]
        return {**type, **name, "fields": fields}
    inner = {key: named(type[key], numbers) for key in ("items", "values") if key in type}
    return {**type, **inner, **({} if inner else name)}


proto_types = st.sampled_from(["int32", "sint64", "string", "bytes", "bool", "M", "E", "double"])
proto_fields = st.lists(
    proto_types | proto_types.map("repeated {}".format) | proto_types.map("optional {}".format),
    max_size=6,
)


@given(proto_fields, st.lists(proto_types, min_size=1, max_size=3))
def test_a_protobuf_file_is_compatible_with_itself(fields: list[str], choice: list[str]) -> None:
    numbers = itertools.count(1)
    body = "".join(f"{type} f{n} = {n};" for type, n in zip(fields, numbers, strict=False))
    either = "".join(f"{type} o{n} = {n};" for type, n in zip(choice, numbers, strict=False))
    message = f"message M {{ {body} oneof o {{ {either} }} enum E {{ A = 0; B = 5; }} }}"
    document = f'syntax = "proto3"; package p.q; {message}'.encode()
    assert check("protobuf/3", "", [document]) == ""
    assert check("protobuf/3", "backward", [document, document + b" "]) == ""
    assert check("protobuf/3", "forward", [document, document + b" "]) == ""
