"""Protobuf schemas as Confluent's registry stores, hashes, compares and formats them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from catalog.formats.confluent.document import SchemaDocument
from catalog.formats.confluent.protobufdescriptor import built_in_files, described
from catalog.formats.confluent.protobufdiff import ProtoComparison
from catalog.formats.confluent.protobufelements import (
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoOption,
)
from catalog.formats.confluent.protobufnormal import Normalizer
from catalog.formats.confluent.protobufparser import parsed
from catalog.formats.confluent.protobuftext import ProtoPrinter, is_any
from catalog.formats.confluent.protobuftypes import KnownTypes
from catalog.formats.documenttext import MalformedDocument
from catalog.formats.protobuf_schema import FILE, compiled

OF_PROTOC = "google/protobuf/"
Declared = TypeVar("Declared", ProtoFile, ProtoMessage)


def canonical(
    text: str, references: Mapping[str, str], *, normalize: bool, is_new: bool = True
) -> str:
    """The text as Confluent's registry stores and hashes it.

    Args:
        text: a .proto file, or a FileDescriptorProto in base64.
        references: the canonical texts of the imported files, by the names of the imports.
        normalize: whether files with the same meaning get the same text.

    Raises:
        MalformedDocument: the text is no schema, or a type is declared nowhere.
    """
    with _bounded():
        file, types = _read(SchemaDocument(text, references))
        normal = Normalizer(types).file(file)
        return ProtoPrinter().file(normal if normalize else file)


def incompatibilities(reader: SchemaDocument, writer: SchemaDocument) -> list[str]:
    """Sentences that say what keeps a schema from reading what another schema wrote.

    The first `%s` in each sentence stands for the word for the reader, the second `%s` for the
    word for the writer: "new" and "old", or "old" and "new".
    """
    with _bounded():
        read, reader_types = _read(reader)
        written, writer_types = _read(writer)
        return [*ProtoComparison(writer_types, reader_types).files(written, read)]


def formatted(text: str, references: Mapping[str, str], format: str) -> str:
    """The text in a format; an unknown or empty format gives the canonical text.

    Raises:
        MalformedDocument: the text is no schema, or protoc, whose rules are stricter than those of
            Confluent, cannot compile it for the format "serialized".
    """
    with _bounded():
        file = _parsed(text)
        if format == "serialized":
            return b64encode(_compiled(file, references)).decode()
        if format == "ignore_extensions":
            return ProtoPrinter(is_extended=False, accepts=_is_own).file(file)
        return ProtoPrinter().file(file)


def field_names(text: str, references: Mapping[str, str]) -> list[str]:
    """Return the names of the fields of the outermost message, which is the first one of the file.

    Raises:
        MalformedDocument: the text is no schema.
    """
    with _bounded():
        first = _parsed(text).messages[:1]
    found: list[str] = []
    for one in first:
        found += [field.name for field in one.fields]
        found += [field.name for oneof in one.oneofs for field in oneof.fields]
    return found


@contextmanager
def _bounded() -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise MalformedDocument("its declarations are nested too deeply") from error


def _read(document: SchemaDocument) -> tuple[ProtoFile, KnownTypes]:
    file = _parsed(document.text)
    references = [_parsed(text) for text in document.references.values()]
    return file, KnownTypes(file, references)


def _parsed(text: str) -> ProtoFile:
    """Parse a .proto file, or else a descriptor in base64."""
    if not text.strip():
        raise MalformedDocument("the schema is empty")
    try:
        return parsed(text)
    except MalformedDocument:
        try:
            content = b64decode(text + "=" * (-len(text) % 4), validate=True)
            return described(FileDescriptorProto.FromString(content))
        except (ValueError, DecodeError):
            pass
        raise


def _is_own(option: ProtoOption) -> bool:
    return not option.is_custom or option.name.startswith("confluent.")


def _compiled(file: ProtoFile, references: Mapping[str, str]) -> bytes:
    """The descriptor of a file; imports that are neither referred to nor built in are left out."""
    file = _with_maps(file)
    imported = {**built_in_files(), **{name: _parsed(text) for name, text in references.items()}}
    files = {path: _with_maps(one) for path, one in imported.items() if _is_inside(path)}
    known = {*files, *(path for path in built_in_files() if path.startswith(OF_PROTOC))}
    texts = {path: _encoded(one.importing(known)) for path, one in files.items()}
    importing = file.importing(known)
    try:
        descriptor = compiled({**texts, FILE: _encoded(importing)})[-1]
    except MalformedDocument:
        # Confluent needs no import for what is built in, and leaves out options that it cannot
        # resolve.
        missing = known.difference(importing.imports, importing.public_imports)
        complete = replace(importing, imports=[*importing.imports, *sorted(missing)])
        types = KnownTypes(file, imported.values())
        descriptor = compiled({**texts, FILE: _encoded(complete, types.has_option)})[-1]
        used = [path for path in descriptor.dependency if path not in missing]
        descriptor.dependency[:] = used
    descriptor.name = "default"
    for field in _fields(descriptor):
        if field.json_name == _default_json_name(field.name):
            field.ClearField("json_name")
    return descriptor.SerializeToString(deterministic=True)


def _with_maps(of: Declared) -> Declared:
    """Declarations whose maps are written as maps.

    A text made from a descriptor has messages for the entries of maps, which protoc refuses.
    """
    if isinstance(of, ProtoMessage):
        entries = {one.name: one.map_type for one in of.messages if one.map_type is not None}
        of = replace(of, fields=[_with_map(one, entries) for one in of.fields])
    messages = [_with_maps(one) for one in of.messages if one.map_type is None]
    return replace(of, messages=messages)


def _with_map(field: ProtoField, entries: Mapping[str, str]) -> ProtoField:
    map_type = entries.get(field.type.rpartition(".")[2])
    return field if map_type is None else replace(field, label=None, type=map_type)


class OpenEnumPrinter(ProtoPrinter):
    """Puts the constants 0 first: protoc requires it, and normal forms sort negative ones first."""

    def enum(self, enum: ProtoEnum) -> str:
        constants = sorted(enum.constants, key=lambda one: one.number != 0)
        return super().enum(replace(enum, constants=constants))


def _encoded(file: ProtoFile, accepts: Callable[[ProtoOption], bool] = is_any) -> bytes:
    printer = OpenEnumPrinter if file.syntax == "proto3" else ProtoPrinter
    return printer(accepts=accepts).file(file).encode()


def _fields(file: FileDescriptorProto) -> Iterator[FieldDescriptorProto]:
    yield from file.extension
    pending = [*file.message_type]
    while pending:
        message = pending.pop()
        yield from (*message.field, *message.extension)
        pending += message.nested_type


def _default_json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)


def _is_inside(path: str) -> bool:
    """Whether a path can be written into a folder, and is not one of protoc's own."""
    parts = path.split("/")
    is_plain = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    return is_plain and path != FILE and not path.startswith(OF_PROTOC)
