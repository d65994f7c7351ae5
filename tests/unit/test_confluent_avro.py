"""Avro schemas of the Confluent dialect: their text, their validity, and what reads what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.formats.confluent.avro import MAX_DIFFERENCES, canonical, formatted, incompatibilities
from catalog.formats.confluent.questions import SchemaDocument
from catalog.formats.documenttext import MalformedDocument

NULL_OR_STRING = ["null", "string"]
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


def field(name: str, type: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, **more}


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: Any, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def map_of(values: Any, **more: Any) -> dict[str, Any]:
    return {"type": "map", "values": values, **more}


def stored(schema: Any, **references: Any) -> Any:
    return json.loads(canonical(text(schema), texts(references), normalize=False))


def normal(schema: Any, **references: Any) -> Any:
    return json.loads(canonical(text(schema), texts(references), normalize=True))


def text(schema: Any) -> str:
    return json.dumps(schema, ensure_ascii=False)


def texts(references: dict[str, Any]) -> dict[str, str]:
    return {name: text(schema) for name, schema in references.items()}


def messages(reader: Any, writer: Any) -> list[str]:
    return incompatibilities(SchemaDocument(text(reader), {}), SchemaDocument(text(writer), {}))


def kinds(reader: Any, writer: Any) -> list[str]:
    return [message.split("'")[1] for message in messages(reader, writer)]


# Text

ORDERED = [
    ('"int"', '"int"'),
    ('{"type":"int"}', '"int"'),
    ('{"doc":"dropped","type":"int","name":"dropped"}', '"int"'),
    ('{"x":1,"type":"int"}', '{"type":"int","x":1}'),
    (
        '{"fields":[],"aliases":["A"],"x":[{"b":1,"a":2}],"doc":"d","name":"a.R","type":"record"}',
        '{"type":"record","name":"R","namespace":"a","doc":"d","fields":[],'
        '"x":[{"b":1,"a":2}],"aliases":["A"]}',
    ),
    (
        '{"type":"record","name":"R","fields":[{"x":1,"aliases":["b"],"order":"Descending",'
        '"default":1,"doc":"","type":"int","name":"a"},'
        '{"name":"c","order":"ascending","type":"int","logicalType":"date"}]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int","doc":"","default":1,'
        '"order":"descending","aliases":["b"],"x":1},'
        '{"name":"c","type":"int","logicalType":"date"}]}',
    ),
    (
        '{"name":"E","default":"B","x":1,"symbols":["A","B"],"type":"enum","doc":"d"}',
        '{"type":"enum","name":"E","doc":"d","symbols":["A","B"],"default":"B","x":1}',
    ),
    (
        '{"type":"enum","name":"E","default":null,"symbols":[]}',
        '{"type":"enum","name":"E","symbols":[]}',
    ),
    (
        '{"scale":2,"size":8,"logicalType":"decimal","precision":4,"name":"F","type":"fixed"}',
        '{"type":"fixed","name":"F","size":8,"scale":2,"logicalType":"decimal","precision":4}',
    ),
    ('{"x":1,"items":"int","type":"array"}', '{"type":"array","items":"int","x":1}'),
    ('{"x":1,"values":["int"],"type":"map"}', '{"type":"map","values":["int"],"x":1}'),
    ('{"type":"error","name":"R","fields":[]}', '{"type":"error","name":"R","fields":[]}'),
]


@pytest.mark.parametrize(("given_text", "kept"), ORDERED)
def test_members_come_in_the_order_of_java(given_text: str, kept: str) -> None:
    assert canonical(given_text, {}, normalize=False) == kept


NUMBERS = [
    ("1", "1"),
    ("-0", "0"),
    ("123456789012345678901234567890", "123456789012345678901234567890"),
    ("1.0", "1.0"),
    ("-0.0", "-0.0"),
    ("1e3", "1000.0"),
    ("0.001", "0.001"),
    ("0.00015", "1.5E-4"),
    ("9999999.0", "9999999.0"),
    ("1e7", "1.0E7"),
    ("123456.789", "123456.789"),
    ("5e-324", "4.9E-324"),
    ("2e23", "2.0E23"),
    ("1e400", '"Infinity"'),
    ("-1e400", '"-Infinity"'),
]


@pytest.mark.parametrize(("number", "kept"), NUMBERS)
def test_numbers_are_printed_as_jackson_does(number: str, kept: str) -> None:
    given_text = f'{{"type":"int","x":[{number}]}}'
    assert canonical(given_text, {}, normalize=False) == f'{{"type":"int","x":[{kept}]}}'


STRINGS = [
    (r"\u00e9\/", "é/"),
    (r"\"\\\b\t\n\f\r", r"\"\\\b\t\n\f\r"),
    (r"\u001f\u007f\u2028", "\\u001F\x7f\u2028"),
    (r"\ud83d\ude00", "😀"),
    (r"\ud83d", "?"),
]


@pytest.mark.parametrize(("string", "kept"), STRINGS)
def test_strings_are_printed_as_jackson_does(string: str, kept: str) -> None:
    given_text = f'{{"type":"int","x":"{string}"}}'
    assert canonical(given_text, {}, normalize=False) == f'{{"type":"int","x":"{kept}"}}'


def test_comments_are_ignored_and_the_last_of_equal_members_counts() -> None:
    given_text = '{/* a */"x":1,"type":"int",// "b\n"x":"/*2*/"}'
    assert canonical(given_text, {}, normalize=False) == '{"type":"int","x":"/*2*/"}'


def inner(namespace: str | None = None) -> dict[str, Any]:
    named = {} if namespace is None else {"namespace": namespace}
    return record(field("v", "int"), name="Inner", **named)


NAMESPACES = [
    (record(field("i", inner("a")), namespace="a"), record(field("i", inner()), namespace="a")),
    (
        record(field("i", array(inner("a"))), namespace="a"),
        record(field("i", array(inner())), namespace="a"),
    ),
    (record(field("i", inner("b")), namespace="a"), record(field("i", inner("b")), namespace="a")),
    (record(field("i", inner("")), namespace="a"), record(field("i", inner("")), namespace="a")),
    (record(field("i", inner()), name="a.R"), record(field("i", inner()), namespace="a")),
    (
        record(field("i", inner()), field("j", "a.Inner"), namespace="a"),
        record(field("i", inner()), field("j", "Inner"), namespace="a"),
    ),
    (
        record(field("i", inner("b")), field("j", "b.Inner"), namespace="a"),
        record(field("i", inner("b")), field("j", "b.Inner"), namespace="a"),
    ),
    (
        record(field("r", ["null", "a.R"]), namespace="a"),
        record(field("r", ["null", "R"]), namespace="a"),
    ),
    (
        record(field("e", enum(name="record")), field("f", "a.record"), namespace="a"),
        record(field("e", enum(name="record")), field("f", "a.record"), namespace="a"),
    ),
]


@pytest.mark.parametrize(("schema", "kept"), NAMESPACES)
def test_namespaces_that_a_type_inherits_are_left_out(schema: Any, kept: Any) -> None:
    assert stored(schema) == kept
    assert stored(kept) == kept


def test_aliases_keep_the_namespace_that_is_not_the_one_of_the_type() -> None:
    schema = record(namespace="a", aliases=["X", "a.Y", "b.Z", "X"])
    assert stored(schema)["aliases"] == ["X", "Y", "b.Z"]


def test_a_type_can_be_used_before_its_definition_and_moves_there() -> None:
    schema = record(field("i", "Inner"), field("j", inner()))
    assert stored(schema) == record(field("i", inner()), field("j", "Inner"))


def test_a_second_definition_that_equals_the_first_becomes_its_name() -> None:
    schema = record(field("i", inner()), field("j", {**inner(), "doc": "other"}))
    assert stored(schema) == record(field("i", inner()), field("j", "Inner"))


# References

CUSTOMER = record(field("e", enum("A", name="Kind")), name="Customer", namespace="c")


def test_types_that_are_references_are_named_and_their_parts_are_defined() -> None:
    schema = record(field("c", "c.Customer"), field("k", "Kind"), namespace="c")
    kept = record(field("c", "Customer"), field("k", enum("A", name="Kind")), namespace="c")
    assert stored(schema, customer=CUSTOMER) == kept
    assert stored(kept, customer=CUSTOMER) == kept


def test_references_use_the_references_before_them() -> None:
    order = record(field("c", "c.Customer"), name="Order", namespace="c")
    schema = record(field("o", "c.Order"))
    assert stored(schema, customer=CUSTOMER, order=order) == schema
    with pytest.raises(MalformedDocument, match=r"the reference order .* type c\.Customer is not"):
        stored(schema, order=order, customer=CUSTOMER)


def test_the_text_of_a_reference_itself_is_its_name() -> None:
    assert stored(CUSTOMER, customer=CUSTOMER) == "c.Customer"


def test_the_resolved_format_defines_the_types_of_references() -> None:
    schema = text(record(field("c", "c.Customer"), field("d", "c.Customer")))
    references = texts({"customer": CUSTOMER})
    resolved = json.loads(formatted(schema, references, "resolved"))
    assert resolved == record(field("c", CUSTOMER), field("d", "c.Customer"))


@pytest.mark.parametrize("format", ["", "default", "RESOLVED", "serialized"])
def test_other_formats_give_the_text_as_it_is(format: str) -> None:
    assert formatted(" as it is", {}, format) == " as it is"


# Validity

MALFORMED: list[tuple[Any, str]] = [
    (record(field("a", "c.Missing")), r"the type c\.Missing is not defined"),
    (record(field("a", "Missing"), namespace="c"), r"the type c\.Missing is not defined"),
    ({"type": "union"}, "the type union is not defined"),
    ({"name": "R"}, "has no member type"),
    ({"type": {"type": "int"}}, "the member type is no text"),
    (7, "it is no type: 7"),
    (None, "it is no type: null"),
    ([["int"]], "a union has a union as a branch"),
    (["int", {"type": "int", "x": 1}], "int is more than once a branch of a union"),
    ([array("int"), array("long")], "array is more than once a branch"),
    (record(field("r", ["R", "R"])), "R is more than once a branch"),
    (record(field("a", "int"), field("a", "int")), "a is more than once a field of R"),
    (enum("A", "A"), "A is more than once a symbol of E"),
    (enum("A", default="B"), "the default B is no symbol of E"),
    (enum("A-B"), "unlike .A-B."),
    ({"type": "enum", "name": "E", "symbols": [1]}, "unlike 1"),
    ({"type": "enum", "name": "E", "symbols": "A"}, "the member symbols is no list"),
    ({"type": "enum", "name": "E"}, "has no member symbols"),
    (record(name="1R"), "unlike .1R."),
    (record(name="R-1"), "unlike .R-1."),
    (record(name="é"), "unlike .é."),
    (record(name="a."), "unlike .."),
    (record(name="int"), "the name of the primitive type int"),
    (record(namespace="a-b"), "unlike .a-b."),
    (record(namespace="a..b"), "unlike .."),
    (record(aliases=["a-b"]), "unlike .a-b."),
    (record(aliases="A"), "aliases are no list"),
    (record(aliases=[1]), "aliases are no list"),
    (record(field("a-b", "int")), "unlike .a-b."),
    (record(field("", "int")), "unlike .."),
    (record({"name": "a"}), "has no member type"),
    (record({"type": "int"}), "has no member name"),
    (record(field("a", "int", order="up")), "the order of a field is .up."),
    (record(field("a", "int", order=None)), "the order of a field is null"),
    ({"type": "record", "name": "R"}, "has no member fields"),
    ({"type": "record", "name": "R", "fields": [1]}, "1 has no member name"),
    ({"type": "array"}, "has no member items"),
    ({"type": "map"}, "has no member values"),
    (fixed(-1), "F has no size"),
    (fixed(2**31), "F has no size"),
    (fixed(1.0), "F has no size"),
    (fixed(True), "F has no size"),
    ([enum("A"), record(field("e", enum("B")))], "the type E is defined twice"),
    (
        [record(field("a", "int", default=0)), array(record(field("a", "int")))],
        "R is defined twice",
    ),
    ([record(field("r", ["null", "R"])), array(record(field("r", ["null", "R"])))], "twice"),
    (record(field("a", "double", default="much")), "the default of a number is .much."),
    (array("int", x=2**64), "more than 64 bits"),
]


@pytest.mark.parametrize(("schema", "reason"), MALFORMED)
def test_a_malformed_schema_is_refused_with_a_reason(schema: Any, reason: str) -> None:
    with pytest.raises(MalformedDocument, match=reason):
        stored(schema)


NOT_JSON = ["", "  ", "int", "not-json{{{", "{", '{"type":NaN}', '"int" 1', '"a\n"', "/*", "{//}"]


@pytest.mark.parametrize("given_text", NOT_JSON)
def test_text_that_is_not_json_is_refused(given_text: str) -> None:
    with pytest.raises(MalformedDocument, match="it is not JSON"):
        canonical(given_text, {}, normalize=False)


DEFAULTS: list[tuple[Any, Any, bool]] = [
    ("int", 2**31 - 1, True),
    ("int", 2**31, False),
    ("int", 1.0, False),
    ("int", "1", False),
    ("int", None, False),
    ("int", True, False),
    ("long", -(2**63), True),
    ("long", 2**63, False),
    ("float", 1, True),
    ("double", "1.5", True),
    ("double", None, False),
    ("boolean", False, True),
    ("boolean", 0, False),
    ("string", "", True),
    ("string", None, False),
    ("bytes", "ÿ", True),
    ("bytes", 1, False),
    ("null", None, True),
    ("null", "null", False),
    (NULL_OR_STRING, None, True),
    (NULL_OR_STRING, "any branch", True),
    (NULL_OR_STRING, 1, False),
    (enum("A"), "B", True),
    (enum("A"), 1, False),
    (fixed(2), "x", True),
    (array("int"), [1, 2], True),
    (array("int"), ["1"], False),
    (array("int"), {}, False),
    (map_of("int"), {"a": 1}, True),
    (map_of("int"), {"a": "1"}, False),
    (map_of("int"), [], False),
    (inner(), {"v": 1, "w": 2}, True),
    (inner(), {"v": "1"}, False),
    (inner(), {}, False),
    (inner(), [], False),
    (record(field("v", "int", default=1), name="S"), {}, True),
    ("R", {}, False),
    (["null", "R"], None, True),
]


@pytest.mark.parametrize(("type", "default", "is_valid"), DEFAULTS)
def test_defaults_of_new_schemas_have_the_type_of_the_field(
    type: Any, default: Any, is_valid: bool
) -> None:
    schema = text(record(field("a", type, default=default)))
    if is_valid:
        canonical(schema, {}, normalize=False)
    else:
        with pytest.raises(MalformedDocument, match="default"):
            canonical(schema, {}, normalize=False)
    canonical(schema, {}, normalize=False, is_new=False)


@pytest.mark.parametrize(
    "schema", [record(namespace="a-b"), record(name="a b.R"), record(aliases=["a-b"])]
)
def test_older_schemas_can_have_any_namespace_and_alias(schema: Any) -> None:
    canonical(text(schema), {}, normalize=False, is_new=False)
    with pytest.raises(MalformedDocument):
        canonical(text(schema), {}, normalize=False)


# The normal form

NORMAL: list[tuple[Any, Any]] = [
    (
        {"type": "int", "z": 1, "a": {"c": 1, "b": 2}},
        {"type": "int", "a": {"b": 2, "c": 1}, "z": 1},
    ),
    (record(doc=""), record()),
    (record(field("a", "int", doc="")), record(field("a", "int", doc=""))),
    ({**record(), "type": "error"}, record()),
    (record(aliases=["B", "A"]), record(aliases=["A", "B"])),
    (record(field("a", "int", aliases=["c", "b"])), record(field("a", "int", aliases=["b", "c"]))),
    (record(field("a", "double", default=1)), record(field("a", "double", default=1.0))),
    (
        record(field("a", "float", default=0.123456789)),
        record(field("a", "float", default=0.12345679)),
    ),
    (record(field("a", "double", default="NaN")), record(field("a", "double", default="NaN"))),
    (record(field("a", "bytes", default="ÿĀ")), record(field("a", "bytes", default="ÿ?"))),
    (record(field("a", NULL_OR_STRING, default="x")), record(field("a", NULL_OR_STRING))),
    (
        record(field("a", map_of("int"), default={"b": 1, "a": 2})),
        record(field("a", map_of("int"), default={"a": 2, "b": 1})),
    ),
    (
        record(field("a", array(inner()), default=[{"v": 1}])),
        record(field("a", array(inner()), default=[{"v": 1}])),
    ),
]


@pytest.mark.parametrize(("schema", "form"), NORMAL)
def test_the_normal_form_is_the_one_of_confluent(schema: Any, form: Any) -> None:
    assert text(normal(schema)) == text(form)


LOGICAL: list[tuple[Any, list[str]]] = [
    ({"type": "bytes"}, ["logicalType", "precision", "scale", "a"]),
    ({"type": "bytes", "scale": 0}, ["logicalType", "precision", "a", "scale"]),
    (fixed(4), ["logicalType", "precision", "scale", "a"]),
    (fixed(1), ["a", "logicalType", "precision", "scale"]),
    ({"type": "int"}, ["a", "logicalType", "precision", "scale"]),
    ({"type": "bytes", "precision": 0}, ["a", "logicalType", "precision", "scale"]),
    ({"type": "bytes", "precision": "4"}, ["a", "logicalType", "precision", "scale"]),
    ({"type": "bytes", "scale": 5}, ["a", "logicalType", "precision", "scale"]),
]


@pytest.mark.parametrize(("base", "members"), LOGICAL)
def test_valid_logical_types_come_before_other_properties(base: Any, members: list[str]) -> None:
    schema = {"a": 1, "scale": 2, "precision": 4, "logicalType": "decimal", **base}
    assert [name for name in normal(schema) if name not in ("type", "name", "size")] == members


@pytest.mark.parametrize(
    ("base", "logical", "is_first"),
    [
        ("int", "date", True),
        ("int", "time-millis", True),
        ("long", "time-micros", True),
        ("long", "timestamp-millis", True),
        ("long", "local-timestamp-nanos", True),
        ("string", "uuid", True),
        ("bytes", "big-decimal", True),
        ("string", "date", False),
        ("bytes", "duration", False),
        ("int", "own", False),
    ],
)
def test_a_logical_type_is_valid_for_some_types(base: str, logical: str, is_first: bool) -> None:
    names = list(normal({"type": base, "a": 1, "logicalType": logical}))
    assert (names[1] == "logicalType") is is_first


NO_NORMAL_FORM = [
    record(field("a", ["null", array("int")], default=[1])),
    record(field("a", inner(), default={"v": 1, "w": 2})),
    {"type": "int", "x": 2**64},
]


@pytest.mark.parametrize("schema", NO_NORMAL_FORM)
def test_what_javas_library_cannot_hold_has_no_normal_form(schema: Any) -> None:
    stored(schema)
    with pytest.raises(MalformedDocument):
        normal(schema)


def test_a_union_without_branches_has_no_default_in_a_normal_form() -> None:
    schema = text(record(field("a", [], default=None)))
    with pytest.raises(MalformedDocument, match="a union without branches"):
        canonical(schema, {}, normalize=True, is_new=False)


def test_the_normal_form_moves_a_type_without_namespace_into_the_one_around_it() -> None:
    schema = record(field("i", inner("")), namespace="a")
    assert normal(schema) == record(field("i", inner()), namespace="a")


def test_the_normal_form_names_references() -> None:
    schema = record(field("c", "c.Customer"), field("d", "c.Customer", x=1))
    assert normal(schema, customer=CUSTOMER) == schema


# Compatibility

A_INT = field("a", "int")
PROMOTED = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_primitive_types_read_what_avro_promotes(reader: str, writer: str) -> None:
    reads = reader == writer or (writer, reader) in PROMOTED
    assert kinds(reader, writer) == ([] if reads else ["TYPE_MISMATCH"])


READ: list[tuple[Any, Any, list[str], list[str]]] = [
    (record(), record(A_INT), [], ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
    (record(), record(field("a", "int", default=0)), [], []),
    (record(), record(field("a", "null", default=None)), [], []),
    (record(), record(field("a", NULL_OR_STRING)), [], ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
    (record(), record(field("a", enum("A", default="A"))), [], ["TYPE_MISMATCH"]),
    (record(A_INT), record(field("a", "long")), ["TYPE_MISMATCH"], []),
    (
        record(A_INT),
        record(field("b", "int", aliases=["a"])),
        ["READER_FIELD_MISSING_DEFAULT_VALUE"],
        [],
    ),
    (record(A_INT), record(A_INT, name="S"), ["NAME_MISMATCH"], ["NAME_MISMATCH"]),
    (record(A_INT), record(A_INT, name="S", aliases=["R"]), ["NAME_MISMATCH"], []),
    (record(A_INT, namespace="a"), record(A_INT, namespace="b"), [], []),
    (
        record(A_INT, namespace="a"),
        record(name="a.S", aliases=["R"]),
        ["NAME_MISMATCH", "READER_FIELD_MISSING_DEFAULT_VALUE"],
        [],
    ),
    (enum("A"), enum("A", "B"), ["MISSING_ENUM_SYMBOLS"], []),
    (enum("A", default="A"), enum("A", "B"), [], []),
    (enum("A"), enum("A", name="G"), ["NAME_MISMATCH"], ["NAME_MISMATCH"]),
    (fixed(1), fixed(2), ["FIXED_SIZE_MISMATCH"], ["FIXED_SIZE_MISMATCH"]),
    (fixed(1), fixed(1, name="G"), ["NAME_MISMATCH"], ["NAME_MISMATCH"]),
    (array("int"), array("long"), ["TYPE_MISMATCH"], []),
    (map_of("int"), map_of("string"), ["TYPE_MISMATCH"], ["TYPE_MISMATCH"]),
    (map_of("int"), array("int"), ["TYPE_MISMATCH"], ["TYPE_MISMATCH"]),
    (fixed(1), enum("A"), ["TYPE_MISMATCH"], ["TYPE_MISMATCH"]),
    ("string", NULL_OR_STRING, ["TYPE_MISMATCH"], []),
    ("int", NULL_OR_STRING, ["TYPE_MISMATCH", "TYPE_MISMATCH"], ["MISSING_UNION_BRANCH"]),
    (NULL_OR_STRING, ["null", "string", "int"], ["MISSING_UNION_BRANCH"], []),
    (["string", "null"], NULL_OR_STRING, [], []),
    ([record()], [record(A_INT)], [], ["MISSING_UNION_BRANCH"]),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4}, "bytes", [], []),
    (
        record(field("r", ["null", "R"])),
        record(field("r", ["null", "R"]), A_INT),
        [],
        ["READER_FIELD_MISSING_DEFAULT_VALUE"],
    ),
]


@pytest.mark.parametrize(("older", "newer", "forward", "backward"), READ)
def test_one_schema_reads_the_other_as_javas_library_says(
    older: Any, newer: Any, forward: list[str], backward: list[str]
) -> None:
    assert kinds(older, newer) == forward
    assert kinds(newer, older) == backward


MESSAGES: list[tuple[Any, Any, str]] = [
    (
        record(field("f", fixed(1))),
        record(field("f", fixed(2))),
        "{errorType:'FIXED_SIZE_MISMATCH', description:'The size of FIXED type field at path "
        "'/fields/0/type/size' in the %s schema does not match with the %s schema', "
        "additionalInfo:'expected: 2, found: 1'}",
    ),
    (
        record(field("a", array("int"))),
        record(field("a", array("string"))),
        "{errorType:'TYPE_MISMATCH', description:'The type (path '/fields/0/type/items') of a "
        "field in the %s schema does not match with the %s schema', "
        "additionalInfo:'reader type: INT not compatible with writer type: STRING'}",
    ),
    (
        "int",
        "string",
        "{errorType:'TYPE_MISMATCH', description:'The type (path '/') of a field in the %s schema "
        "does not match with the %s schema', "
        "additionalInfo:'reader type: INT not compatible with writer type: STRING'}",
    ),
    (
        record(name="S"),
        record(namespace="a"),
        "{errorType:'NAME_MISMATCH', description:'The name of the schema has changed "
        "(path '/name')', additionalInfo:'expected: a.R'}",
    ),
    (
        enum("A"),
        enum("C", "A", "B"),
        "{errorType:'MISSING_ENUM_SYMBOLS', description:'The %s schema is missing enum symbols "
        "'[B, C]' at path '/symbols' in the %s schema', additionalInfo:'[B, C]'}",
    ),
    (
        record(field("u", ["null"])),
        record(field("u", ["null", record(name="S")])),
        "{errorType:'MISSING_UNION_BRANCH', description:'The %s schema is missing a type inside a "
        "union field at path '/fields/0/type/1' in the %s schema', "
        "additionalInfo:'reader union lacking writer type: RECORD'}",
    ),
    (
        NULL_OR_STRING,
        "int",
        "{errorType:'MISSING_UNION_BRANCH', description:'The %s schema is missing a type inside a "
        "union field at path '/' in the %s schema', "
        "additionalInfo:'reader union lacking writer type: INT'}",
    ),
    (
        record(field("a", "int", default=0), field("b", "int")),
        record(),
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path "
        "'/fields/1' in the %s schema has no default value and is missing in the %s schema', "
        "additionalInfo:'b'}",
    ),
    (
        record(field("c", "int", aliases=["a", "b"])),
        record(A_INT, field("b", "int")),
        "Unexpected exception during compatibility check: Reader record field c type:INT pos:0 "
        "matches multiple fields in writer record schema "
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}',
    ),
]


@pytest.mark.parametrize(("reader", "writer", "message"), MESSAGES)
def test_differences_are_told_in_the_words_of_confluent(
    reader: Any, writer: Any, message: str
) -> None:
    assert messages(reader, writer) == [message]


def test_references_are_compared_by_what_they_define() -> None:
    schema = text(record(field("c", "c.Customer")))
    older = SchemaDocument(schema, texts({"customer": CUSTOMER}))
    newer = SchemaDocument(schema, texts({"customer": record(A_INT, name="c.Customer")}))
    assert [message.split("'")[1] for message in incompatibilities(newer, older)] == [
        "READER_FIELD_MISSING_DEFAULT_VALUE"
    ]


def test_schemas_that_the_registry_has_are_compared_in_spite_of_their_defaults() -> None:
    older = record(field("a", "int", default="wrong"), namespace="a-b")
    assert messages(older, record(namespace="a-b")) == []


# Hostile texts


def nested(levels: int) -> str:
    return '{"type":"array","items":' * levels + '"int"' + "}" * levels


@pytest.mark.parametrize(
    "given_text",
    [nested(5000), "[" * 100_000, '{"type":"int","x":' + "[" * 990 + "]" * 990 + "}"],
)
def test_a_schema_that_is_nested_too_deep_is_refused(given_text: str) -> None:
    with pytest.raises(MalformedDocument, match="nested too deep"):
        canonical(given_text, {}, normalize=True)


def test_a_schema_can_be_nested_as_deep_as_people_write() -> None:
    assert canonical(nested(100), {}, normalize=True) == nested(100)


@pytest.mark.parametrize("part", ["/*", "//", '"\\"', "/"])
def test_comments_and_strings_that_do_not_end_cost_no_time(part: str) -> None:
    with pytest.raises(MalformedDocument, match="it is not JSON"):
        canonical('"' * part.startswith('"') + part * 200_000, {}, normalize=False)


def test_a_long_part_of_a_schema_is_not_repeated_in_the_reason() -> None:
    with pytest.raises(MalformedDocument) as refused:
        stored({"doc": "x" * 100_000})
    assert len(str(refused.value)) < 200


def shared(levels: int, leaf: str) -> Any:
    """Records that use the next one thrice."""
    schema = record(field("a", leaf), name="R0")
    for level in range(1, levels):
        below = f"R{level - 1}"
        schema = record(
            field("a", schema, default={}),
            field("b", below, default={}),
            field("c", below, default={}),
            name=f"R{level}",
        )
    return schema


def test_types_that_are_used_often_cost_no_time() -> None:
    reader, writer = (text(shared(40, leaf)) for leaf in ("int", "string"))
    canonical(reader, {}, normalize=True, is_new=False)
    found = incompatibilities(SchemaDocument(reader, {}), SchemaDocument(writer, {}))
    assert len(found) == MAX_DIFFERENCES


# Laws

names = st.sampled_from(["A", "B", "C", "a.D", "b.E"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
properties = st.dictionaries(
    st.sampled_from(["x", "logicalType", "precision"]), scalars, max_size=2
)


def add(schema: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return schema | more


def records(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.lists(inner, max_size=3).map(
        lambda types: [field(f"f{place}", of) for place, of in enumerate(types)]
    )
    return st.builds(lambda name, some: record(*some, name=name), names, fields)


schemas = st.recursive(
    st.sampled_from([*PRIMITIVES, "A", "B"])
    | st.builds(add, st.sampled_from(PRIMITIVES).map(lambda kind: {"type": kind}), properties)
    | st.builds(lambda name: enum("A", "B", name=name), names)
    | st.builds(lambda name, size: fixed(size, name=name), names, st.integers(0, 20)),
    lambda inner: (
        records(inner)
        | st.builds(add, inner.map(array), properties)
        | inner.map(map_of)
        | st.lists(inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


def kept_or_none(given_text: str, *, normalize: bool) -> str | None:
    try:
        return canonical(given_text, {}, normalize=normalize)
    except MalformedDocument:
        return None


@given(schemas, st.booleans())
def test_the_stored_text_is_the_text_of_itself(schema: Any, normalize: bool) -> None:
    kept = kept_or_none(text(schema), normalize=normalize)
    if kept is not None:
        assert canonical(kept, {}, normalize=normalize) == kept


@given(schemas)
def test_the_stored_text_means_what_the_schema_means(schema: Any) -> None:
    kept = kept_or_none(text(schema), normalize=False)
    if kept is not None:
        both = SchemaDocument(text(schema), {}), SchemaDocument(kept, {})
        assert incompatibilities(*both) == incompatibilities(*reversed(both)) == []


@given(
    st.text(max_size=20)
    | schemas.map(text).flatmap(
        lambda whole: st.sampled_from([whole[:place] for place in range(len(whole))] or [""])
    )
)
def test_any_text_is_kept_or_refused(given_text: str) -> None:
    kept_or_none(given_text, normalize=True)
