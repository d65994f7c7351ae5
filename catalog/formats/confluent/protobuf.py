"""Protobuf schemas as Confluent's registry stores, hashes, compares and formats them."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from catalog.formats.confluent.protobufdiff import ProtoComparison
from catalog.formats.confluent.protobuffile import (
    ProtoElement,
    ProtoFile,
    changed,
    written,
)
from catalog.formats.confluent.protobufnormal import Normalizer
from catalog.formats.confluent.protobufparser import parsed
from catalog.formats.confluent.protobuftypes import KnownTypes, built_in_files, described
from catalog.formats.confluent.questions import SchemaDocument, bounded
from catalog.formats.documenttext import MalformedDocument
from catalog.formats.protobuf_schema import FILE, compiled

OF_PROTOC = "google/protobuf/"
Declared = TypeVar("Declared", bound=ProtoElement)


def canonical(
    text: str, references: Mapping[str, str], *, normalize: bool, is_new: bool = True
) -> str:
    """Return the text of a .proto file, or of a FileDescriptorProto in base64."""
    with bounded():
        file, types = _read(SchemaDocument(text, references))
        normal = Normalizer(types).file(file)
        return written(normal if normalize else file)


def incompatibilities(reader: SchemaDocument, writer: SchemaDocument) -> list[str]:
    """Return what keeps a reader from reading what the writer wrote; see `questions`."""
    with bounded():
        reading, reader_types = _read(reader)
        wrote, writer_types = _read(writer)
        return [*ProtoComparison(writer_types, reader_types).files(wrote, reading)]


def formatted(text: str, references: Mapping[str, str], format: str) -> str:
    """The text in a format; an unknown or empty format gives the canonical text.

    Raises:
        MalformedDocument: protoc, whose rules are stricter than those of Confluent, cannot compile
            the text for the format "serialized".
    """
    with bounded():
        file = _parsed(text)
        if format == "serialized":
            return b64encode(_compiled(file, references)).decode()
        if format == "ignore_extensions":
            file = changed(file, _without_extensions)
        return written(file)


def field_names(text: str, references: Mapping[str, str]) -> list[str]:
    """Return the names of the fields of the first message of the file."""
    with bounded():
        first = _parsed(text).of("message")[:1]
    members = [member for one in first for member in one.of("field", "oneof")]
    fields = [member for member in members if member.kind == "field"]
    fields += [field for member in members for field in member.of("field")]
    return [field.name for field in fields]


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


def _without_extensions(one: ProtoElement) -> dict[str, Any]:
    own = [each for each in one.options if not each.is_custom or each.name.startswith("confluent.")]
    members = [each for each in one.members if each.kind != "extend"]
    return {"options": own, "members": members, "extensions": []}


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
        complete = changed(
            complete, lambda one: {"options": [*filter(types.has_option, one.options)]}
        )
        descriptor = compiled({**texts, FILE: _encoded(complete)})[-1]
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
    entries = {one.name: one.map_type for one in of.of("message") if one.map_type is not None}
    members = []
    for one in of.members:
        map_type = entries.get(one.type.rpartition(".")[2]) if one.kind == "field" else None
        if map_type is not None:
            one = replace(one, label=None, type=map_type)
        if one.map_type is None:
            members.append(_with_maps(one))
    return replace(of, members=members)


def _encoded(file: ProtoFile) -> bytes:
    return written(changed(file, _with_zero_first) if file.syntax == "proto3" else file).encode()


def _with_zero_first(one: ProtoElement) -> dict[str, Any]:
    """Put the constants 0 first: protoc requires it, and normal forms sort negative ones first."""
    is_enum = one.kind == "enum"
    members = sorted(one.members, key=lambda each: each.number != 0) if is_enum else one.members
    return {"members": members}


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
