"""Checks Protobuf files with the protoc of grpcio-tools, and reads payloads as their messages.

Files are compared by the rules of protobuf's language guides, "Updating A Message Type", for the
binary encoding: no well-maintained checker is available as a Python library, and the rules are few.
Names of fields, services and options are not part of the encoding, and are not compared.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import grpc_tools
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_tools import protoc

from catalog.formats import documenttext

MAX_MESSAGE_DEPTH = 100
Field = FieldDescriptorProto

# The types of a row share an encoding; values may be truncated to the reader's type.
INTERCHANGEABLE = (
    {Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_UINT32, Field.TYPE_UINT64, Field.TYPE_BOOL},
    {Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_UINT32, Field.TYPE_UINT64, Field.TYPE_ENUM},
    {Field.TYPE_SINT32, Field.TYPE_SINT64},
    {Field.TYPE_FIXED32, Field.TYPE_SFIXED32},
    {Field.TYPE_FIXED64, Field.TYPE_SFIXED64},
)
# Bytes can hold every text and message, but a text or message cannot hold every sequence of bytes.
READ_AS_BYTES = {Field.TYPE_STRING, Field.TYPE_MESSAGE}
LENGTH_DELIMITED = {Field.TYPE_STRING, Field.TYPE_BYTES, Field.TYPE_MESSAGE}
MESSAGE_TYPES = {Field.TYPE_MESSAGE, Field.TYPE_GROUP}
MAX_PROBLEMS = 3


def empty(files: Sequence[FileDescriptorProto], name: str) -> Any:
    """An empty message of a type that the last file declares.

    Args:
        files: the compiled file, preceded by the imported files.
        name: the name of the type, with or without the package; "" for the first type.

    Raises:
        MalformedDocument: the file declares no message of the name.
    """
    pool = DescriptorPool()
    for file in files:
        pool.Add(file)
    declared = list(_names(files[-1]))
    wanted = [full for full in declared if not name or full == name]
    wanted += [full for full in declared if full.endswith(f".{name}")]
    if not wanted:
        raise documenttext.MalformedDocument(f"it declares no message {name}".rstrip())
    return GetMessageClass(pool.FindMessageTypeByName(wanted[0]))()


def fault_in(message: Any, payload: bytes, contenttype: str) -> str:
    """Parse a payload into a message, and return the problem, or ""."""
    if documenttext.is_json_type(contenttype):
        _read_json(message, payload)
    else:
        _read_binary(message, payload)
    missing = message.FindInitializationErrors()
    return f"it lacks {', '.join(missing)}" if missing else ""


def _read_json(message: Message, payload: bytes) -> None:
    try:
        json_format.Parse(payload, message, max_recursion_depth=MAX_MESSAGE_DEPTH)
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise documenttext.Mismatch(str(error)) from error


def _read_binary(message: Message, payload: bytes) -> None:
    """Read a payload in the binary encoding.

    Unknown field numbers are accepted, because a newer version of the type may have the field.

    Raises:
        Mismatch: the payload is not a message of the type.
    """
    name = message.DESCRIPTOR.full_name
    try:
        message.ParseFromString(payload)
    except DecodeError as error:
        raise documenttext.Mismatch(f"it is no binary {name}: {error}") from error
    for part in _parts(message):
        numbers = part.DESCRIPTOR.fields_by_number
        # The type stub of the class lacks iteration.
        unknown: Iterable[Any] = UnknownFieldSet(part)  # type: ignore[assignment]
        for field in unknown:
            # A field with a known number is here if the wire type is wrong. Unknown values of
            # enums are here, too, with the wire type of enums.
            if (known := numbers.get(field.field_number)) and not known.enum_type:
                raise documenttext.Mismatch(f"{known.full_name} is encoded as another type")


def _parts(message: Message) -> Iterator[Message]:
    """A message and the messages inside of the message."""
    pending: list[Any] = [message]
    while pending:
        part = pending.pop()
        yield part
        for field, value in part.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                values = [one for one in value.values() if isinstance(one, Message)]
            else:
                values = value if field.is_repeated else [value]
            pending += values


def _names(file: FileDescriptorProto) -> Iterator[str]:
    """The full names of the messages of a file, outer messages first."""
    level = [(f"{file.package}." if file.package else "", one) for one in file.message_type]
    while level:
        inner = []
        for prefix, message in level:
            if not message.options.map_entry:
                yield prefix + message.name
                inner += [(f"{prefix}{message.name}.", one) for one in message.nested_type]
        level = inner


# The only files that can be imported, such as google/protobuf/timestamp.proto.
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
FILE = "document.proto"
COMPLAINT = re.compile(rf"\S*{re.escape(FILE)}:(\d+:\d+: .*)")


def validate(format: str, document: bytes) -> str:
    """Compile the file, and compare the syntax with the syntax of the format.

    A file without a syntax statement has syntax 2, so an empty document is a valid Protobuf/2
    file without declarations, and no Protobuf/3 file.
    """
    _compile(format, document)
    return ""


def compare(format: str, older: bytes, newer: bytes, direction: str) -> str:
    """Apply Protobuf's rules for the binary encoding."""
    return obstacle(_compile(format, older), _compile(format, newer), direction)


def conform(format: str, schema: bytes, payload: bytes, contenttype: str, part: str) -> str:
    """Read the payload by the JSON mapping if the media type is JSON, else in binary.

    `part` names the message, with or without the package; by default the first message of the
    file.
    """
    message = empty(_compile_all(format, schema), part)
    return fault_in(message, payload, contenttype)


def _compile(format: str, document: bytes) -> FileDescriptorProto:
    return _compile_all(format, document)[-1]


def _compile_all(format: str, document: bytes) -> Sequence[FileDescriptorProto]:
    """The compiled file, after the imported files."""
    files = compiled({FILE: documenttext.unquoted(document)})
    syntax = files[-1].syntax or "proto2"
    wanted = "proto" + format.removeprefix("protobuf/")[0]
    if syntax != wanted:
        raise documenttext.MalformedDocument(f"its syntax is {syntax}, not {wanted}")
    return files


def compiled(files: Mapping[str, bytes]) -> Sequence[FileDescriptorProto]:
    """Compile FILE, which can import the other files by their paths, and the well-known types.

    Returns:
        the compiled file, after the imported files.

    Raises:
        MalformedDocument: protoc does not accept the file.
    """
    # A folder for the check alone, so that no other document can be imported.
    with TemporaryDirectory(dir=".") as folder:
        for path, text in files.items():
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        result = Path(f"{folder}.compiled")
        complaints = _run_protoc(folder, result)
        if complaints:
            raise documenttext.MalformedDocument(complaints)
        descriptors = FileDescriptorSet.FromString(result.read_bytes()).file
        result.unlink()
    return descriptors


def _run_protoc(folder: str, compiled: Path) -> str:
    paths = [f"-I{folder}", f"-I{WELL_KNOWN}", f"--descriptor_set_out={compiled}"]
    arguments = ["protoc", *paths, "--include_imports"]
    with TemporaryFile() as output:
        # protoc writes to the file descriptor of standard error, which Python cannot redirect.
        standard_error = os.dup(2)
        os.dup2(output.fileno(), 2)
        try:
            failed = protoc.main([*arguments, FILE])
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
        output.seek(0)
        complaints = output.read().decode(errors="replace").splitlines()
    return _summary(complaints) if failed else ""


def _summary(complaints: list[str]) -> str:
    found = (COMPLAINT.match(line) for line in complaints)
    reasons = [match[1] for match in found if match]
    return "; ".join(reasons[: documenttext.MAX_REASONS]) or "protoc cannot compile it"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTypes:
    """The declarations of a file, by full name; fields include extensions of the same file."""

    messages: Mapping[str, DescriptorProto]
    enums: Mapping[str, EnumDescriptorProto]
    extensions: Mapping[str, Sequence[Field]]
    enums_are_closed: bool

    def fields(self, name: str) -> dict[int, Field]:
        declared = (*self.messages[name].field, *self.extensions.get(name, ()))
        return {field.number: field for field in declared}


def obstacle(older: FileDescriptorProto, newer: FileDescriptorProto, direction: str) -> str:
    """The reason why the reader of a direction cannot read the writer's messages, or ""."""
    old, new = _declared(older), _declared(newer)
    if direction == "backward":
        problems = [*_gone(old, new), *_reading_problems(writer=old, reader=new)]
    else:
        problems = [*_reading_problems(writer=new, reader=old)]
    return "; ".join(problems[:MAX_PROBLEMS])


def _gone(old: DeclaredTypes, new: DeclaredTypes) -> Iterator[str]:
    """Messages that the newer file lacks, and reserved numbers that the newer file uses."""
    for name, message in old.messages.items():
        if name not in new.messages:
            if not message.options.map_entry:
                yield f"message {name} is gone"
            continue
        for number in new.fields(name):
            if any(span.start <= number < span.end for span in message.reserved_range):
                yield f"{name}: number {number} was reserved and is used"


def _reading_problems(*, writer: DeclaredTypes, reader: DeclaredTypes) -> Iterator[str]:
    """Compare the messages that both files have, and the types of their fields, each pair once."""
    pending = [(name, name) for name in writer.messages if name in reader.messages]
    seen = set(pending)
    while pending:
        written, read = pending.pop()
        wrote, reads = writer.fields(written), reader.fields(read)
        yield from (f"{read}: {text}" for text in _unmet_requirements(wrote, reads))
        yield from (f"{read}: {text}" for text in _lost_in_oneofs(wrote, reads))
        for number in wrote.keys() & reads.keys():
            pair = Pair(wrote[number], reads[number])
            if problem := pair.problem(writer, reader):
                yield f"{read}: number {number} {problem}"
            elif pair.leads_on(writer, reader) and pair.types not in seen:
                seen.add(pair.types)
                pending.append(pair.types)


def _unmet_requirements(wrote: Mapping[int, Field], reads: Mapping[int, Field]) -> Iterator[str]:
    for number, field in reads.items():
        if field.label == Field.LABEL_REQUIRED:
            writer = wrote.get(number)
            if writer is None or writer.label != Field.LABEL_REQUIRED:
                yield f"number {number} is required and may be missing"


def _lost_in_oneofs(wrote: Mapping[int, Field], reads: Mapping[int, Field]) -> Iterator[str]:
    """Fields that share a oneof in the reader only, where the last field replaces the first."""
    chosen: dict[int, int] = {}
    for number, field in sorted(reads.items()):
        if number not in wrote or not _is_in_oneof(field):
            continue
        other = chosen.setdefault(field.oneof_index, number)
        if other != number and not _are_exclusive(wrote[other], wrote[number]):
            yield f"numbers {other} and {number} exclude each other, and both may be set"


def _is_in_oneof(field: Field) -> bool:
    return field.HasField("oneof_index") and not field.proto3_optional


def _are_exclusive(one: Field, other: Field) -> bool:
    return _is_in_oneof(one) and _is_in_oneof(other) and one.oneof_index == other.oneof_index


@dataclass(frozen=True, slots=True)
class Pair:
    """A field of the writer, and the reader's field with the same number."""

    wrote: Field
    reads: Field

    @property
    def types(self) -> tuple[str, str]:
        return self.wrote.type_name, self.reads.type_name

    def problem(self, writer: DeclaredTypes, reader: DeclaredTypes) -> str:
        if not self._have_one_encoding():
            return f"was {_name(self.wrote)} and is {_name(self.reads)}"
        if self._loses_repetition():
            return "was repeated, perhaps packed, and is not"
        if self.wrote.type == self.reads.type == Field.TYPE_ENUM:
            return self._enum_problem(writer, reader)
        if self.types[0] != self.types[1] and self._are_messages():
            return "" if self.leads_on(writer, reader) else "is of another type"
        return ""

    def leads_on(self, writer: DeclaredTypes, reader: DeclaredTypes) -> bool:
        """Whether the files declare both types, so that the types can be compared."""
        written, read = self.types
        return self._are_messages() and written in writer.messages and read in reader.messages

    def _are_messages(self) -> bool:
        return self.wrote.type == self.reads.type and self.wrote.type in MESSAGE_TYPES

    def _have_one_encoding(self) -> bool:
        types = {self.wrote.type, self.reads.type}
        if len(types) == 1 or any(types <= row for row in INTERCHANGEABLE):
            return True
        return self.reads.type == Field.TYPE_BYTES and self.wrote.type in READ_AS_BYTES

    def _loses_repetition(self) -> bool:
        """Whether values get lost when a repeated field becomes a single field.

        Length-delimited values are exempt: the last text is kept, and messages are merged.
        """
        was, is_ = (f.label == Field.LABEL_REPEATED for f in (self.wrote, self.reads))
        return was and not is_ and self.wrote.type not in LENGTH_DELIMITED

    def _enum_problem(self, writer: DeclaredTypes, reader: DeclaredTypes) -> str:
        """The problem of an enum, or "". An open enum can hold numbers that are not declared."""
        written, read = self.types
        if written not in writer.enums or read not in reader.enums:
            return "" if written == read else "is of another type"
        known = {value.number for value in reader.enums[read].value}
        unknown = {value.number for value in writer.enums[written].value} - known
        if not reader.enums_are_closed or not unknown:
            return ""
        return f"may be one of {sorted(unknown)}, which {read} does not declare"


def _name(field: Field) -> str:
    return field.type_name or Field.Type.Name(field.type).removeprefix("TYPE_").lower()


def _declared(file: FileDescriptorProto) -> DeclaredTypes:
    prefix = f".{file.package}" if file.package else ""
    messages = dict(_messages(file.message_type, prefix))
    extensions: dict[str, list[Field]] = {}
    for field in chain(file.extension, *(message.extension for message in messages.values())):
        extensions.setdefault(field.extendee, []).append(field)
    enums = {f"{prefix}.{enum.name}": enum for enum in file.enum_type}
    for name, message in messages.items():
        enums |= {f"{name}.{enum.name}": enum for enum in message.enum_type}
    return DeclaredTypes(
        messages=messages,
        enums=enums,
        extensions=extensions,
        enums_are_closed=file.syntax in ("", "proto2"),
    )


def _messages(
    declared: Iterable[DescriptorProto], prefix: str
) -> Iterator[tuple[str, DescriptorProto]]:
    for message in declared:
        name = f"{prefix}.{message.name}"
        yield name, message
        yield from _messages(message.nested_type, name)
