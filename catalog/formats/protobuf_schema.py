"""Checks Protobuf files with the protoc of grpcio-tools, and reads payloads as their messages.

Files are compared by the rules of protobuf's language guides, "Updating A Message Type", for the
binary encoding: no well-maintained checker is available as a Python library, and the rules are few.
Names of fields, services and options are not part of the encoding, and are not compared.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import grpc_tools
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
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
MAX_PROBLEMS = 3


def empty(files: Sequence[FileDescriptorProto], name: str) -> Any:
    """An empty message of a type that the last file declares.

    Args:
        files: the compiled file, preceded by the imported files.
        name: the name of the type, with or without the package; "" for the first type.

    Raises:
        MalformedDocument: the file declares no message of the name.
    """
    declared = declared_in(files)
    names = [name for name, one in declared.items() if not one.GetOptions().map_entry]
    wanted = [full for full in names if not name or full == name]
    # Of the names that end alike, an outer one is meant rather than an inner one.
    wanted += sorted((n for n in names if n.endswith(f".{name}")), key=lambda n: n.count("."))
    if not wanted:
        raise documenttext.MalformedDocument(f"it declares no message {name}".rstrip())
    return GetMessageClass(declared[wanted[0]])()


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


# The only files that can be imported, such as google/protobuf/timestamp.proto.
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
FILE = "document.proto"
COMPLAINT = re.compile(rf"\S*{re.escape(FILE)}:(\d+:\d+: .*)")


def validate(format: str, document: bytes) -> str:
    """Compile the file, and compare the syntax with the syntax of the format.

    A file without a syntax statement has syntax 2, so an empty document is a valid Protobuf/2
    file without declarations, and no Protobuf/3 file.
    """
    _compiled(format, document)
    return ""


def compare(format: str, older: bytes, newer: bytes, direction: str) -> str:
    """Apply Protobuf's rules for the binary encoding."""
    old, new = (declared_in(_compiled(format, document)) for document in (older, newer))
    if direction == "backward":
        problems = [*_gone(old, new), *_reading_problems(writer=old, reader=new)]
    else:
        problems = [*_reading_problems(writer=new, reader=old)]
    return "; ".join(problems[:MAX_PROBLEMS])


def conform(format: str, schema: bytes, payload: bytes, contenttype: str, part: str) -> str:
    """Read the payload by the JSON mapping if the media type is JSON, else in binary.

    `part` names the message, with or without the package; by default the first message of the
    file.
    """
    message = empty(_compiled(format, schema), part)
    return fault_in(message, payload, contenttype)


def _compiled(format: str, document: bytes) -> Sequence[FileDescriptorProto]:
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


def declared_in(files: Sequence[FileDescriptorProto]) -> dict[str, Descriptor]:
    """The messages that a compiled file declares, by full name, each before its inner messages.

    Args:
        files: the file, preceded by the imported files.
    """
    pool = DescriptorPool()
    for file in files:
        pool.Add(file)
    return dict(_messages(pool.FindFileByName(FILE).message_types_by_name.values()))


def _messages(declared: Iterable[Descriptor]) -> Iterator[tuple[str, Descriptor]]:
    for message in declared:
        yield message.full_name, message
        yield from _messages(message.nested_types)


def _is_declared(type: Any) -> bool:
    return bool(type is not None and type.file.name == FILE)


def _fields(message: Descriptor) -> dict[int, FieldDescriptor]:
    """The fields of a message with those of the file's own extensions, by number."""
    extensions = filter(_is_declared, message.file.pool.FindAllExtensions(message))
    return {field.number: field for field in (*message.fields, *extensions)}


def _gone(old: Mapping[str, Descriptor], new: Mapping[str, Descriptor]) -> Iterator[str]:
    """Messages that the newer file lacks, and reserved numbers that the newer file uses."""
    for name, message in old.items():
        if name not in new:
            if not message.GetOptions().map_entry:
                yield f"message .{name} is gone"
            continue
        declaration = DescriptorProto()
        message.CopyToProto(declaration)
        for number in _fields(new[name]):
            if any(span.start <= number < span.end for span in declaration.reserved_range):
                yield f".{name}: number {number} was reserved and is used"


def _reading_problems(
    *, writer: Mapping[str, Descriptor], reader: Mapping[str, Descriptor]
) -> Iterator[str]:
    """Compare the messages that both files have, and the types of their fields, each pair once."""
    pending = [(message, reader[name]) for name, message in writer.items() if name in reader]
    seen = {(name, name) for name in writer}
    while pending:
        written, read = pending.pop()
        wrote, reads, at = _fields(written), _fields(read), f".{read.full_name}"
        yield from (f"{at}: {text}" for text in _unmet_requirements(wrote, reads))
        yield from (f"{at}: {text}" for text in _lost_in_oneofs(wrote, reads))
        for number in wrote.keys() & reads.keys():
            was, becomes = wrote[number], reads[number]
            inner, other = was.message_type, becomes.message_type
            if problem := _problem(was, becomes):
                yield f"{at}: number {number} {problem}"
            elif inner and other and _is_declared(inner) and _is_declared(other):
                names = inner.full_name, other.full_name
                if names not in seen:
                    seen.add(names)
                    pending.append((inner, other))


def _unmet_requirements(
    wrote: Mapping[int, FieldDescriptor], reads: Mapping[int, FieldDescriptor]
) -> Iterator[str]:
    for number, field in reads.items():
        if field.is_required and not (number in wrote and wrote[number].is_required):
            yield f"number {number} is required and may be missing"


def _lost_in_oneofs(
    wrote: Mapping[int, FieldDescriptor], reads: Mapping[int, FieldDescriptor]
) -> Iterator[str]:
    """Fields that share a oneof in the reader only, where the last field replaces the first."""
    chosen: dict[str, int] = {}
    for number, field in sorted(reads.items()):
        # The implied oneof of an optional field of syntax 3 has no second field.
        if number not in wrote or (oneof := field.containing_oneof) is None:
            continue
        other = chosen.setdefault(oneof.name, number)
        were = [wrote[each].containing_oneof for each in (other, number)]
        are_exclusive = were[0] is not None and were[1] is not None and were[0].name == were[1].name
        if other != number and not are_exclusive:
            yield f"numbers {other} and {number} exclude each other, and both may be set"


def _problem(was: FieldDescriptor, becomes: FieldDescriptor) -> str:
    """The problem of a field of the writer with the reader's field of the same number, or ""."""
    kinds = {was.type, becomes.type}
    is_exchangeable = len(kinds) == 1 or any(kinds <= row for row in INTERCHANGEABLE)
    if not (is_exchangeable or (becomes.type == Field.TYPE_BYTES and was.type in READ_AS_BYTES)):
        return f"was {_name(was)} and is {_name(becomes)}"
    # Of length-delimited values nothing gets lost: the last text is kept, and messages are merged.
    if was.is_repeated and not becomes.is_repeated and was.type not in LENGTH_DELIMITED:
        return "was repeated, perhaps packed, and is not"
    types = was.enum_type or was.message_type, becomes.enum_type or becomes.message_type
    if len(kinds) > 1 or types[0] is None or types[1] is None:
        return ""
    if not all(map(_is_declared, types)):
        return "" if types[0].full_name == types[1].full_name else "is of another type"
    return _enum_problem(was, becomes)


def _enum_problem(was: FieldDescriptor, becomes: FieldDescriptor) -> str:
    """The problem of an enum, or "". An open enum can hold numbers that are not declared."""
    if was.enum_type is None or becomes.enum_type is None or not becomes.enum_type.is_closed:
        return ""
    unknown = {*was.enum_type.values_by_number} - {*becomes.enum_type.values_by_number}
    if not unknown:
        return ""
    return f"may be one of {sorted(unknown)}, which {_name(becomes)} does not declare"


def _name(field: FieldDescriptor) -> str:
    if type := field.message_type or field.enum_type:
        return f".{type.full_name}"
    name: str = Field.DESCRIPTOR.enum_types_by_name["Type"].values_by_number[field.type].name
    return name.removeprefix("TYPE_").lower()
