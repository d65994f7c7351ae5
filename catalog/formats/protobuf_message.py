"""Reads payloads as Protobuf messages with the Protobuf project's own library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from catalog.formats.documenttext import MalformedDocument, Mismatch, is_json_type

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
