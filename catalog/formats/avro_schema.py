"""Checks Apache Avro schemas with the Avro project's own library."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

from avro.compatibility import (
    ReaderWriterCompatibilityChecker,
    SchemaCompatibilityResult,
    SchemaCompatibilityType,
)
from avro.errors import AvroException
from avro.io import BinaryDecoder, DatumReader
from avro.schema import (
    ArraySchema,
    MapSchema,
    NamedSchema,
    RecordSchema,
    Schema,
    UnionSchema,
    parse,
)

from catalog.formats import avro_json
from catalog.formats.documenttext import (
    MalformedDocument,
    Mismatch,
    is_json_type,
    read_json,
    read_payload,
    read_text,
)


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
    described = _part(_read(schema), part)
    if is_json_type(contenttype):
        avro_json.check(described, read_payload(payload))
        return ""
    stream = BytesIO(payload)
    try:
        DatumReader(described).read(BinaryDecoder(stream))
    except (ArithmeticError, AssertionError, AvroException, LookupError, ValueError) as error:
        raise Mismatch(f"it is no binary {avro_json.name_of(described)}: {error}") from error
    rest = len(payload) - stream.tell()
    return f"{rest} bytes are left after the value" if rest else ""


def _part(schema: Schema, name: str) -> Schema:
    """Find the type with a name, which may omit the namespace."""
    if not name:
        return schema
    for named in _named(schema):
        if name in (named.fullname, named.name):
            return named
    raise MalformedDocument(f"it declares no type {name}")


def _named(schema: Schema) -> Iterator[NamedSchema]:
    """The named types of a schema, each once; a type may refer to itself."""
    pending, seen = [schema], set()
    while pending:
        schema = pending.pop(0)
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        if isinstance(schema, NamedSchema):
            yield schema
        pending += _inside(schema)


def _inside(schema: Schema) -> list[Schema]:
    match schema:
        case RecordSchema():
            return [field.type for field in schema.fields]
        case ArraySchema():
            return [schema.items]
        case MapSchema():
            return [schema.values]
        case UnionSchema():
            return [*schema.schemas]
        case _:
            return []


def _read(document: bytes) -> Schema:
    read_json(document)
    try:
        return parse(read_text(document))
    except AvroException as error:
        raise MalformedDocument(str(error)) from error


def _reason(result: SchemaCompatibilityResult) -> str:
    kinds = sorted({kind.value.replace("_", " ") for kind in result.incompatibilities})
    details = "; ".join(sorted(result.messages))
    return f"{', '.join(kinds)}: {details} (at {', '.join(sorted(result.locations))})"
