"""Checks JSON Structure schemas with the SDK of the JSON Structure project."""

from __future__ import annotations

from typing import Any

from json_structure import InstanceValidator, SchemaValidator

from catalog.formats.documenttext import MAX_REASONS, MalformedDocument, read_json, read_payload

_ROOT = frozenset({"$root", "properties", "required", "type"})


def validate(format: str, document: bytes) -> str:
    """Apply the Core specification without extensions; the drafts of Core share a meta-schema.

    An empty document is no schema. A schema with imports cannot be checked, because only the
    document itself is read.
    """
    return _fault(read_json(document))


def conform(format: str, schema: bytes, payload: bytes, contenttype: str, part: str) -> str:
    """Apply the Core specification, and the extensions that the schema uses.

    The payload must be JSON. `part` is a JSON pointer in the schema.
    """
    described = read_json(schema)
    if fault := _fault(described):
        raise MalformedDocument(fault)
    if part:
        described = {key: value for key, value in described.items() if key not in _ROOT}
        described["$root"] = f"#{part}"
    errors = InstanceValidator(described).validate(read_payload(payload))
    return "; ".join(map(str, errors[:MAX_REASONS]))


def _fault(schema: Any) -> str:
    errors = SchemaValidator(allow_import=False, extended=False).validate(schema)
    if any("$import" in error.message for error in errors):
        raise MalformedDocument(
            "it imports definitions, and nothing but the document itself is read"
        )
    return "; ".join(f"{error.path}: {error.message}" for error in errors[:MAX_REASONS])
