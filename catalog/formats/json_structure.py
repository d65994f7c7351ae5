"""JSON Structure schemas, by the SDK of the JSON Structure project."""

from __future__ import annotations

from json_structure import SchemaValidator

from catalog.formats.documents import Malformed, read_json

MAX_REASONS = 3


def validate(format: str, document: bytes) -> str:
    """By the Core specification, whose drafts share one meta-schema; extensions are not checked.

    An empty document is no schema. A schema that imports others cannot be checked, as nothing
    but the document itself is read.
    """
    errors = SchemaValidator(allow_import=False, extended=False).validate(read_json(document))
    if any("$import" in error.message for error in errors):
        raise Malformed("it imports definitions, and nothing but the document itself is read")
    return "; ".join(f"{error.path}: {error.message}" for error in errors[:MAX_REASONS])
