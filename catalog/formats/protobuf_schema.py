"""Checks Protobuf files with the protoc of grpcio-tools, and reads payloads as their messages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import grpc_tools
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_tools import protoc

from catalog.formats.documenttext import (
    MAX_REASONS,
    MalformedDocument,
    Mismatch,
    is_json_type,
    unquoted,
)
from catalog.formats.protobuf_evolution import obstacle

MAX_MESSAGE_DEPTH = 100


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
        raise MalformedDocument(f"it declares no message {name}".rstrip())
    return GetMessageClass(pool.FindMessageTypeByName(wanted[0]))()


def fault_in(message: Any, payload: bytes, contenttype: str) -> str:
    """Parse a payload into a message, and return the problem, or ""."""
    if is_json_type(contenttype):
        _read_json(message, payload)
    else:
        _read_binary(message, payload)
    missing = message.FindInitializationErrors()
    return f"it lacks {', '.join(missing)}" if missing else ""


def _read_json(message: Message, payload: bytes) -> None:
    try:
        json_format.Parse(payload, message, max_recursion_depth=MAX_MESSAGE_DEPTH)
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise Mismatch(str(error)) from error


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
        raise Mismatch(f"it is no binary {name}: {error}") from error
    for part in _parts(message):
        numbers = part.DESCRIPTOR.fields_by_number
        # The type stub of the class lacks iteration.
        unknown: Iterable[Any] = UnknownFieldSet(part)  # type: ignore[assignment]
        for field in unknown:
            # A field with a known number is here if the wire type is wrong. Unknown values of
            # enums are here, too, with the wire type of enums.
            if (known := numbers.get(field.field_number)) and not known.enum_type:
                raise Mismatch(f"{known.full_name} is encoded as another type")


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
    """Apply Protobuf's rules for the binary encoding; see `protobuf_evolution`."""
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
    # A folder for the check alone, so that no other document can be imported.
    with TemporaryDirectory(dir=".") as folder:
        (Path(folder) / FILE).write_bytes(unquoted(document))
        compiled = Path(f"{folder}.compiled")
        complaints = _run_protoc(folder, compiled)
        if complaints:
            raise MalformedDocument(complaints)
        files = FileDescriptorSet.FromString(compiled.read_bytes()).file
        compiled.unlink()
    _check_syntax(files[-1], format)
    return files


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
    return "; ".join(reasons[:MAX_REASONS]) or "protoc cannot compile it"


def _check_syntax(file: FileDescriptorProto, format: str) -> None:
    syntax = file.syntax or "proto2"
    wanted = "proto" + format.removeprefix("protobuf/")[0]
    if syntax != wanted:
        raise MalformedDocument(f"its syntax is {syntax}, not {wanted}")
