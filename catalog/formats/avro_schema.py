"""Checks Apache Avro schemas, and values against them, with the Avro project's own library.

The library reads the binary encoding only, so values in JSON are checked here, by Apache Avro's
specification, "JSON Encoding".
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from avro import schema as avro
from avro.compatibility import (
    ReaderWriterCompatibilityChecker,
    SchemaCompatibilityResult,
    SchemaCompatibilityType,
)
from avro.errors import AvroException
from avro.io import BinaryDecoder, DatumReader
from avro.name import Names
from avro.schema import Schema

from catalog.formats import documenttext

_BITS = {"int": 31, "long": 63}


def check_json(schema: Schema, value: Any, where: str = "") -> None:
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
        case avro.UnionSchema():
            _check_union(schema, value, where)
        case avro.RecordSchema():
            _check_record(schema, value, where)
        case avro.ArraySchema():
            _demand(isinstance(value, list), where, "an array is needed")
            for place, item in enumerate(value):
                check_json(schema.items, item, f"{where}/{place}")
        case avro.MapSchema():
            _demand(isinstance(value, dict), where, "an object is needed")
            for name, item in value.items():
                check_json(schema.values, item, f"{where}/{name}")
        case avro.EnumSchema():
            is_symbol = isinstance(value, str) and value in schema.symbols
            _demand(is_symbol, where, f"none of the symbols of {schema.fullname}")
        case avro.FixedSchema():
            fits = _is_bytes(value) and len(value) == schema.size
            _demand(fits, where, f"{schema.size} bytes are needed, as that many characters")
        case _:
            _demand(_is_primitive(schema.type, value), where, f"it is no {schema.type}")


def name_of(schema: Schema) -> str:
    """The name of a member of a union."""
    return str(schema.fullname if isinstance(schema, avro.NamedSchema) else schema.type)


def _check_union(union: avro.UnionSchema, value: Any, where: str) -> None:
    branches = {name_of(schema): schema for schema in union.schemas}
    if value is None:
        _demand("null" in branches, where, "it must not be null")
        return
    names = ", ".join(name for name in branches if name != "null")
    is_tagged = isinstance(value, dict) and len(value) == 1 and next(iter(value)) in branches
    _demand(is_tagged, where, f"an object is needed whose one member names its type: {names}")
    ((name, inner),) = value.items()
    check_json(branches[name], inner, f"{where}/{name}")


def _check_record(record: avro.RecordSchema, value: Any, where: str) -> None:
    _demand(isinstance(value, dict), where, "an object is needed")
    names = {field.name for field in record.fields}
    missing, unknown = sorted(names - {*value}), sorted({*value} - names)
    _demand(not missing, where, f"it lacks {', '.join(missing)}")
    _demand(not unknown, where, f"{record.fullname} has no {', '.join(unknown)}")
    for field in record.fields:
        check_json(field.type, value[field.name], f"{where}/{field.name}")


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
        raise documenttext.Mismatch(documenttext.fault_at(where.split("/")[1:], otherwise))


def validate(format: str, document: bytes) -> str:
    """Parse the schema. Default values are not checked against the types of their fields."""
    _read(document)
    return ""


def compare(format: str, older: bytes, newer: bytes, direction: str) -> str:
    """Apply Avro's rules of schema resolution: promotions, defaults, aliases, enum defaults.

    Logical types are not compared, because resolution ignores logical types.
    """
    schemas = _read(older), _read(newer)
    writer, reader = schemas if direction == "backward" else reversed(schemas)
    result = ReaderWriterCompatibilityChecker().get_compatibility(reader, writer)
    if result.compatibility is SchemaCompatibilityType.compatible:
        return ""
    return _reason(result)


def conform(format: str, schema: bytes, payload: bytes, contenttype: str, part: str) -> str:
    """Read the payload in Avro's JSON encoding if the media type is JSON, else in the binary one.

    The payload is a single bare value, without a container file or a schema fingerprint.
    """
    described = _read(schema, part)
    if documenttext.is_json_type(contenttype):
        check_json(described, documenttext.read_payload(payload))
        return ""
    stream = BytesIO(payload)
    try:
        DatumReader(described).read(BinaryDecoder(stream))
    except (ArithmeticError, AssertionError, AvroException, LookupError, ValueError) as error:
        raise documenttext.Mismatch(f"it is no binary {name_of(described)}: {error}") from error
    rest = len(payload) - stream.tell()
    return f"{rest} bytes are left after the value" if rest else ""


def _read(document: bytes, part: str = "") -> Schema:
    """Read a schema, or the named type in it; the name of the type may omit the namespace."""
    names = Names()
    try:
        schema = avro.make_avsc_object(documenttext.read_json(document), names)
    except AvroException as error:
        raise documenttext.MalformedDocument(str(error)) from error
    if not part:
        return schema
    for named in names.names.values():
        if part in (named.fullname, named.name):
            return named
    raise documenttext.MalformedDocument(f"it declares no type {part}")


def _reason(result: SchemaCompatibilityResult) -> str:
    kinds = sorted({kind.value.replace("_", " ") for kind in result.incompatibilities})
    details = "; ".join(sorted(result.messages))
    return f"{', '.join(kinds)}: {details} (at {', '.join(sorted(result.locations))})"
