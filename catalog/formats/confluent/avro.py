"""Avro schemas as Confluent's Schema Registry keeps and compares them.

The rules of comparison, the places and the reasons are those of Apache Avro for Java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import NamedTuple

from catalog.formats.confluent.avroparser import AvroParser
from catalog.formats.confluent.avroschema import (
    AvroCollection,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroNamed,
    AvroRecord,
    AvroType,
    AvroUnion,
    to_normal_form,
    written,
)
from catalog.formats.confluent.questions import SchemaDocument, bounded
from catalog.formats.documenttext import MalformedDocument

MAX_DIFFERENCES = 1000
"""The most differences that a comparison tells; a type repeats those of the types it uses."""
_PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
_DESCRIPTIONS = {
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the %s schema does "
    "not match with the %s schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the %s schema does not match with "
    "the %s schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": "The %s schema is missing enum symbols '{info}' at path '{path}' in "
    "the %s schema",
    "MISSING_UNION_BRANCH": "The %s schema is missing a type inside a union field at path "
    "'{path}' in the %s schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{info}' at path '{path}' in the %s schema "
    "has no default value and is missing in the %s schema",
}


def canonical(
    text: str, references: Mapping[str, str], *, normalize: bool, is_new: bool = True
) -> str:
    """Return the text in the form of Java's library; `is_new` checks namespaces and defaults."""
    with bounded():
        schema, known = _read(text, references, is_new=is_new)
        if normalize:
            to_normal_form(schema, known)
        return written(schema, known)


def incompatibilities(reader: SchemaDocument, writer: SchemaDocument) -> list[str]:
    """Return what keeps a reader from reading what the writer wrote; see `questions`."""
    with bounded():
        reading, _ = _read(*reader, is_new=False)
        wrote, _ = _read(*writer, is_new=False)
        try:
            return list(map(str, AvroComparison().differences(reading, wrote)))
        except AmbiguousField as error:
            return [f"Unexpected exception during compatibility check: {error}"]


def formatted(text: str, references: Mapping[str, str], format: str) -> str:
    """Return a stored text in a format of the API: `resolved` defines the types of references."""
    if format != "resolved":
        return text
    with bounded():
        schema, _ = _read(text, references, is_new=False)
        return written(schema, set())


def field_names(text: str, references: Mapping[str, str]) -> list[str]:
    """Return the names of the fields of the outermost record; none for another type."""
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


class AmbiguousField(ValueError):
    """A field of the reader stands for several fields of the writer; the text names them."""


class AvroDifference(NamedTuple):
    """One reason why a reader cannot read."""

    kind: str
    path: str
    info: str

    def __str__(self) -> str:
        """Return Confluent's message, in which %s stands for the reader and then the writer."""
        description = _DESCRIPTIONS[self.kind].format(path=self.path, info=self.info)
        return (
            f"{{errorType:'{self.kind}', description:'{description}', "
            f"additionalInfo:'{self.info}'}}"
        )


class AvroComparison:
    """Compares the types of two schemas; each pair of types is compared once."""

    def __init__(self) -> None:
        self._found: dict[tuple[AvroType, AvroType], list[AvroDifference]] = {}

    def differences(
        self, reader: AvroType, writer: AvroType, path: str = ""
    ) -> list[AvroDifference]:
        """Return what keeps the reader from reading what the writer wrote.

        Raises:
            AmbiguousField: a field of the reader stands for several fields of the writer.
        """
        pair = reader, writer
        if pair not in self._found:
            self._found[pair] = []
            found = self._compare(reader, writer, path)
            self._found[pair] = list(islice(found, MAX_DIFFERENCES))
        return self._found[pair]

    def _compare(self, reader: AvroType, writer: AvroType, path: str) -> Iterable[AvroDifference]:
        match reader, writer:
            case AvroUnion(), AvroUnion():
                return self._branches(reader, writer, path)
            case _, AvroUnion():
                return chain.from_iterable(
                    self.differences(reader, branch, f"{path}/{place}")
                    for place, branch in enumerate(writer.branches)
                )
            case AvroUnion(), _:
                if any(not self.differences(branch, writer) for branch in reader.branches):
                    return ()
                return (_missing_branch(writer, path),)
            case _ if reader.kind != writer.kind:
                return _promotion(reader, writer, path)
            case AvroCollection(), AvroCollection():
                member = "items" if reader.kind == "array" else "values"
                return self.differences(reader.element, writer.element, f"{path}/{member}")
            case AvroNamed(), AvroNamed():
                return chain(_names(reader, writer, path), self._contents(reader, writer, path))
            case _:
                return ()

    def _branches(
        self, reader: AvroUnion, writer: AvroUnion, path: str
    ) -> Iterable[AvroDifference]:
        for place, branch in enumerate(writer.branches):
            if self.differences(reader, branch):
                yield _missing_branch(branch, f"{path}/{place}")

    def _contents(
        self, reader: AvroNamed, writer: AvroNamed, path: str
    ) -> Iterable[AvroDifference]:
        match reader, writer:
            case AvroRecord(), AvroRecord():
                return self._fields(reader, writer, path)
            case AvroEnum(), AvroEnum():
                return _symbols(reader, writer, path)
            case AvroFixed(), AvroFixed() if reader.size != writer.size:
                info = f"expected: {writer.size}, found: {reader.size}"
                return (AvroDifference("FIXED_SIZE_MISMATCH", f"{path}/size", info),)
            case _:
                return ()

    def _fields(
        self, reader: AvroRecord, writer: AvroRecord, path: str
    ) -> Iterable[AvroDifference]:
        sources = {each.name: each for each in writer.fields}
        for place, field in enumerate(reader.fields):
            found = [sources[name] for name in (field.name, *field.aliases) if name in sources]
            if len(found) > 1:
                raise AmbiguousField(
                    f"Reader record field {field.name} type:{field.type.kind.upper()} pos:{place} "
                    f"matches multiple fields in writer record schema {written(writer, set())}"
                )
            source = found[0].type if found else None
            yield from self._field(field, source, writer, f"{path}/fields/{place}")

    def _field(
        self, field: AvroField, source: AvroType | None, writer: AvroRecord, path: str
    ) -> Iterable[AvroDifference]:
        if source:
            return self.differences(field.type, source, f"{path}/type")
        if field.default:
            return ()
        if isinstance(field.type, AvroEnum) and field.type.default is not None:
            # Java's library compares the enumeration with the whole record of the writer.
            return self.differences(field.type, writer, f"{path}/type")
        return (AvroDifference("READER_FIELD_MISSING_DEFAULT_VALUE", path, field.name),)


def _names(reader: AvroNamed, writer: AvroNamed, path: str) -> Iterable[AvroDifference]:
    if reader.name.name == writer.name.name:
        return ()
    if writer.name.full in map(reader.alias_text, reader.aliases):
        return ()
    return (AvroDifference("NAME_MISMATCH", f"{path}/name", f"expected: {writer.name.full}"),)


def _symbols(reader: AvroEnum, writer: AvroEnum, path: str) -> Iterable[AvroDifference]:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return ()
    info = f"[{', '.join(missing)}]"
    return (AvroDifference("MISSING_ENUM_SYMBOLS", f"{path}/symbols", info),)


def _promotion(reader: AvroType, writer: AvroType, path: str) -> Iterable[AvroDifference]:
    if writer.kind in _PROMOTIONS.get(reader.kind, ()):
        return ()
    read, wrote = reader.kind.upper(), writer.kind.upper()
    info = f"reader type: {read} not compatible with writer type: {wrote}"
    return (AvroDifference("TYPE_MISMATCH", path or "/", info),)


def _missing_branch(writer: AvroType, path: str) -> AvroDifference:
    info = f"reader union lacking writer type: {writer.kind.upper()}"
    return AvroDifference("MISSING_UNION_BRANCH", path or "/", info)
