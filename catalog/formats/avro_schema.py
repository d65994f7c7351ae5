"""Apache Avro schemas, by the Avro project's own library."""

from __future__ import annotations

from avro.compatibility import (
    ReaderWriterCompatibilityChecker,
    SchemaCompatibilityResult,
    SchemaCompatibilityType,
)
from avro.errors import AvroException
from avro.schema import Schema, parse

from catalog.formats.documents import Malformed, read_json, read_text


def validate(format: str, document: bytes) -> str:
    """An empty document is no schema. Default values are not held against their types."""
    _read(document)
    return ""


def compare(format: str, older: bytes, newer: bytes, direction: str) -> str:
    """By Avro's rules of schema resolution: promotions, defaults, aliases, enum defaults.

    Logical types are not compared, as resolution ignores them.
    """
    schemas = _read(older), _read(newer)
    writer, reader = schemas if direction == "backward" else reversed(schemas)
    result = ReaderWriterCompatibilityChecker().get_compatibility(reader, writer)
    if result.compatibility is SchemaCompatibilityType.compatible:
        return ""
    return _reason(result)


def _read(document: bytes) -> Schema:
    read_json(document)
    try:
        return parse(read_text(document))
    except AvroException as error:
        raise Malformed(str(error)) from error


def _reason(result: SchemaCompatibilityResult) -> str:
    kinds = sorted({kind.value.replace("_", " ") for kind in result.incompatibilities})
    details = "; ".join(sorted(result.messages))
    return f"{', '.join(kinds)}: {details} (at {', '.join(sorted(result.locations))})"
