"""JSON Schema as Confluent's Schema Registry checks, stores and compares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.formats.confluent.jackson import printed, read_schema
from catalog.formats.confluent.jsonschemadiff import differences
from catalog.formats.confluent.jsonschemaloading import load
from catalog.formats.confluent.jsonschemamodel import SchemaNode
from catalog.formats.confluent.questions import SchemaDocument, bounded


def canonical(
    text: str, references: Mapping[str, str], *, normalize: bool, is_new: bool = True
) -> str:
    """Return the text of a schema as Confluent's registry stores and hashes it.

    Args:
        text: The text of the schema.
        references: The canonical texts of what the schema refers to by their names, dependencies
            first, transitive ones included.
        normalize: Whether to sort the members of objects.

    Raises:
        MalformedDocument: the text is no valid schema, or a reference is missing.
    """
    with bounded():
        schema = read_schema(text)
        _node(schema, references)
        return printed(schema, in_order=normalize)


def incompatibilities(reader: SchemaDocument, writer: SchemaDocument) -> list[str]:
    """Return what keeps the reader from reading what the writer wrote, in Confluent's words.

    In a message, the first `%s` is the place of the word for the reader, the second for the writer.

    Raises:
        MalformedDocument: a schema is not valid, or a reference of a schema is missing.
    """
    with bounded():
        update, original = (
            _node(read_schema(document.text), document.references) for document in (reader, writer)
        )
        return [difference.message() for difference in differences(original, update)]


def formatted(text: str, references: Mapping[str, str], format: str) -> str:
    """Return the text in a format of the API: JSON Schema has none but the text itself."""
    return text


def field_names(text: str, references: Mapping[str, str]) -> list[str]:
    """Return the names of the fields of the outermost object.

    Raises:
        MalformedDocument: the text is no schema.
    """
    schema = read_schema(text)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def _node(schema: Any, references: Mapping[str, str]) -> SchemaNode:
    return load(schema, {name: read_schema(text) for name, text in references.items()})
