"""Checks values in Avro's JSON encoding against a schema.

Source: Apache Avro's specification, "JSON Encoding". The library reads the binary encoding only.
"""

from __future__ import annotations

from typing import Any

from avro.schema import (
    ArraySchema,
    EnumSchema,
    FixedSchema,
    MapSchema,
    NamedSchema,
    RecordSchema,
    Schema,
    UnionSchema,
)

from catalog.formats.documenttext import Mismatch

_BITS = {"int": 31, "long": 63}


def check(schema: Schema, value: Any, where: str = "") -> None:
    """Find the first part of a JSON value that the schema does not describe.

    A value of a union is null, or an object with a single member: the name of the type and the
    value.

    Args:
        schema: the schema of the value.
        value: the parsed JSON value.
        where: the path of the value in the payload.

    Raises:
        Mismatch: the value does not follow the schema.
    """
    match schema:
        case UnionSchema():
            _check_union(schema, value, where)
        case RecordSchema():
            _check_record(schema, value, where)
        case ArraySchema():
            _demand(isinstance(value, list), where, "an array is needed")
            for place, item in enumerate(value):
                check(schema.items, item, f"{where}/{place}")
        case MapSchema():
            _demand(isinstance(value, dict), where, "an object is needed")
            for name, item in value.items():
                check(schema.values, item, f"{where}/{name}")
        case EnumSchema():
            is_symbol = isinstance(value, str) and value in schema.symbols
            _demand(is_symbol, where, f"none of the symbols of {schema.fullname}")
        case FixedSchema():
            fits = _is_bytes(value) and len(value) == schema.size
            _demand(fits, where, f"{schema.size} bytes are needed, as that many characters")
        case _:
            _demand(_is_primitive(schema.type, value), where, f"it is no {schema.type}")


def name_of(schema: Schema) -> str:
    """The name of a member of a union."""
    return str(schema.fullname if isinstance(schema, NamedSchema) else schema.type)


def _check_union(union: UnionSchema, value: Any, where: str) -> None:
    branches = {name_of(schema): schema for schema in union.schemas}
    if value is None:
        _demand("null" in branches, where, "it must not be null")
        return
    names = ", ".join(name for name in branches if name != "null")
    is_tagged = isinstance(value, dict) and len(value) == 1 and next(iter(value)) in branches
    _demand(is_tagged, where, f"an object is needed whose one member names its type: {names}")
    ((name, inner),) = value.items()
    check(branches[name], inner, f"{where}/{name}")


def _check_record(record: RecordSchema, value: Any, where: str) -> None:
    _demand(isinstance(value, dict), where, "an object is needed")
    names = {field.name for field in record.fields}
    missing, unknown = sorted(names - {*value}), sorted({*value} - names)
    _demand(not missing, where, f"it lacks {', '.join(missing)}")
    _demand(not unknown, where, f"{record.fullname} has no {', '.join(unknown)}")
    for field in record.fields:
        check(field.type, value[field.name], f"{where}/{field.name}")


def _is_primitive(type: str, value: Any) -> bool:
    match type:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            most = 2 ** _BITS[type]
            return _is_number(value) and isinstance(value, int) and -most <= value < most
        case "float" | "double":
            return _is_number(value)
        case "bytes":
            return _is_bytes(value)
        case _:
            return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_bytes(value: Any) -> bool:
    """Whether a value is a string of bytes; a character stands for a byte."""
    return isinstance(value, str) and all(ord(character) < 256 for character in value)


def _demand(holds: bool, where: str, otherwise: str) -> None:
    if not holds:
        raise Mismatch(f"{where or '/'}: {otherwise}")
