"""Avro schemas as Confluent's Schema Registry keeps and compares them."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.formats.confluent.avrocompatibility import AmbiguousField, AvroComparison
from catalog.formats.confluent.avroparser import AvroParser
from catalog.formats.confluent.avrotext import normal, written
from catalog.formats.confluent.avrotypes import AvroNamed, AvroRecord, AvroType
from catalog.formats.confluent.document import SchemaDocument
from catalog.formats.documenttext import MalformedDocument


def canonical(
    text: str, references: Mapping[str, str], *, normalize: bool, is_new: bool = True
) -> str:
    """Return the text as Confluent's registry stores and hashes it.

    Args:
        text: the schema as a client sent it.
        references: the canonical texts of the references by name, dependencies first.
        normalize: whether to bring the schema into its normal form.
        is_new: whether to check what Confluent checks in new schemas only (its setting
            `validateNewSchemas`, which look-ups and imports do not use): namespaces and defaults.

    Raises:
        MalformedDocument: it is no valid schema, or lacks a reference.
    """
    schema, known = _read(text, references, is_new=is_new)
    if normalize:
        schema, known = _read(_normal(schema, known), references, is_new=is_new)
    return _write(schema, known)


def incompatibilities(reader: SchemaDocument, writer: SchemaDocument) -> list[str]:
    """Sentences that say what keeps a schema from reading what another schema wrote.

    The first `%s` in each sentence stands for the word for the reader, the second `%s` for the
    word for the writer: "new" and "old", or "old" and "new".

    Raises:
        MalformedDocument: the reader or the writer is no valid schema.
    """
    reading, _ = _read(*reader, is_new=False)
    wrote, _ = _read(*writer, is_new=False)
    try:
        return list(map(str, AvroComparison().differences(reading, wrote)))
    except AmbiguousField as error:
        return [f"Unexpected exception during compatibility check: {error}"]
    except RecursionError as error:
        raise MalformedDocument("it is nested too deep") from error


def formatted(text: str, references: Mapping[str, str], format: str) -> str:
    """Return a stored text in a format of the API: `resolved` defines the types of references."""
    if format != "resolved":
        return text
    schema, _ = _read(text, references, is_new=False)
    return _write(schema, set())


def field_names(text: str, references: Mapping[str, str]) -> list[str]:
    """Return the names of the fields of the outermost record; none for another type.

    Raises:
        MalformedDocument: the text is no schema.
    """
    schema, _ = _read(text, references, is_new=False)
    return [one.name for one in schema.fields] if isinstance(schema, AvroRecord) else []


def _read(text: str, references: Mapping[str, str], *, is_new: bool) -> tuple[AvroType, set[str]]:
    """Return a schema, and the names of the types that references are."""
    parser = AvroParser(is_new=is_new)
    known = set()
    for name, reference in references.items():
        try:
            referred = parser.parse(reference)
        except MalformedDocument as error:
            raise MalformedDocument(f"the reference {name} is malformed: {error}") from error
        if isinstance(referred, AvroNamed):
            known.add(referred.name.full)
    return parser.parse(text), known


def _normal(schema: AvroType, known: set[str]) -> str:
    try:
        return normal(schema, known)
    except RecursionError as error:
        raise MalformedDocument("it is nested too deep") from error


def _write(schema: AvroType, known: set[str]) -> str:
    try:
        return written(schema, known)
    except RecursionError as error:
        raise MalformedDocument("it is nested too deep") from error
