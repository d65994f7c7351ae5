"""Checks JSON Schema documents: dialects, validity, references, compatibility, and payloads."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import jsonschema_rs
from referencing import Registry
from referencing.exceptions import NoSuchAnchor, PointerToNowhere, Unresolvable
from referencing.jsonschema import specification_with

from catalog.formats.documenttext import (
    MAX_FAULTS,
    MalformedDocument,
    Mismatch,
    fault_at,
    read_json,
    read_payload,
)
from catalog.formats.json_assertions import SchemaPart
from catalog.formats.json_compatibility import obstacle

# The URIs of the published versions of JSON Schema.
DIALECTS: Mapping[str, str] = {
    "draft-04": "http://json-schema.org/draft-04/schema",
    "draft-06": "http://json-schema.org/draft-06/schema",
    "draft-07": "http://json-schema.org/draft-07/schema",
    "draft-2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft-2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_WHOLE = "urn:concord:schema"
LATEST = DIALECTS["draft-2020-12"]


def validate(format: str, document: bytes) -> str:
    """Check a schema against the meta-schema of the dialect, and references into the schema.

    An empty document is no schema. A $schema that contradicts the dialect of the format is an
    error. References to other documents are not followed.
    """
    _read(format, document)
    return ""


def compare(format: str, older: bytes, newer: bytes, direction: str) -> str:
    """Compare the values that the schemas accept; see `json_compatibility`."""
    parts = _read(format, older), _read(format, newer)
    writer, reader = parts if direction == "backward" else (parts[1], parts[0])
    return obstacle(writer, reader)


def conform(format: str, schema: bytes, payload: bytes, contenttype: str, part: str) -> str:
    """Validate a JSON payload; each fault is a line. `part` is a JSON pointer in the schema."""
    described = _read(format, schema).schema
    dialect = _dialect(format, described)
    # The library takes the dialect of values from $schema alone.
    if isinstance(described, dict):
        described = {**described, "$schema": dialect}
    validator = _validator(described, dialect, part)
    value = read_payload(payload)
    try:
        errors = list(islice(validator.iter_errors(value), MAX_FAULTS))
    except ValueError as error:
        raise Mismatch(f"it cannot be checked: {error}") from error
    return "\n".join(fault_at(error.instance_path, error.message) for error in errors)


def _validator(schema: Any, dialect: str, part: str) -> Any:
    """Build the validator of values, which fetches no references to other documents."""
    entry = {"$schema": dialect, "$ref": f"{_WHOLE}#{part}"} if part else schema
    whole = [(_WHOLE, schema)] if part else []
    try:
        registry = jsonschema_rs.Registry(whole, retriever=_refuse)
        return jsonschema_rs.validator_for(entry, registry=registry, retriever=_refuse)
    except ValueError as error:
        raise MalformedDocument(str(error).partition("\n")[0]) from error


def _refuse(uri: str) -> Any:
    raise ValueError("nothing but the document itself is read")


def _pointer(error: jsonschema_rs.ValidationError) -> str:
    return "".join(f"/{step}" for step in error.instance_path) or "/"


def _read(format: str, document: bytes) -> SchemaPart:
    schema = read_json(document)
    dialect = _dialect(format, schema)
    _check_by_meta_schema(schema, dialect)
    specification = specification_with(dialect)
    resource = specification.create_resource(schema)
    registry: Registry[Any] = Registry()
    part = SchemaPart(schema, registry.resolver_with_root(resource), specification)
    _check_references(part)
    return part


def _dialect(format: str, schema: Any) -> str:
    """The dialect that the format names, or else $schema, or else the latest dialect.

    Raises:
        MalformedDocument: $schema names an unknown dialect, or contradicts the format.
    """
    version = format.removeprefix("jsonschema").removeprefix("/").replace("draft/", "draft-")
    declared = schema.get("$schema") if isinstance(schema, dict) else None
    if declared is None:
        return DIALECTS[version] if version else LATEST
    allowed = [DIALECTS[version]] if version else DIALECTS.values()
    for dialect in allowed:
        if _without_scheme(str(declared)) == _without_scheme(dialect):
            return dialect
    raise MalformedDocument(f"its $schema is {declared}, which is not what its format says")


def _without_scheme(uri: str) -> str:
    return uri.removesuffix("#").partition("://")[2]


def _check_by_meta_schema(schema: Any, dialect: str) -> None:
    """Validate a schema.

    Draft 4 has no boolean schemas; the other drafts accept a boolean, which has no $schema.
    """
    if not isinstance(schema, dict):
        if not isinstance(schema, bool) or dialect == DIALECTS["draft-04"]:
            raise MalformedDocument("a schema of this dialect is not of this type")
        return
    try:
        jsonschema_rs.meta.validate({**schema, "$schema": dialect})
    except jsonschema_rs.ValidationError as error:
        raise MalformedDocument(f"{_pointer(error)}: {error.message}") from error
    except ValueError as error:
        raise MalformedDocument(str(error)) from error


def _check_references(root: SchemaPart) -> None:
    """Reject references to missing places in the document.

    Raises:
        MalformedDocument: a reference leads nowhere.
    """
    pending = [root]
    while pending:
        part = pending.pop()
        if not isinstance(part.schema, dict):
            continue
        reference = part.schema.get("$ref")
        try:
            if isinstance(reference, str):
                part.resolver.lookup(reference)
        except (NoSuchAnchor, PointerToNowhere) as error:
            raise MalformedDocument(f"its reference {reference} leads nowhere") from error
        except Unresolvable:
            pass  # The reference leads to another document.
        pending += part.children()
