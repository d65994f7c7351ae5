"""Finds what keeps a Protobuf file from reading the messages of another, by Confluent's rules.

Fields are matched by their numbers, messages by their names. Changes that Confluent holds to be
compatible (such as those of enums, services, names and added fields) are not looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from catalog.formats.confluent.protobuffile import ProtoElement, ProtoFile, map_types
from catalog.formats.confluent.protobuftypes import DeclaredType, KnownTypes, joined

# "%s" is the place of the reader and of the writer, as "new" and "old" or the other way round.
DESCRIPTIONS: Final = {
    "PACKAGE_CHANGED": "The package at '{}' in the %s schema does not match the package in the"
    " %s schema",
    "MESSAGE_REMOVED": "The %s schema is missing a MESSAGE type at path '{}' in the %s schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '{}' in the %s schema does not match the"
    " %s schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a SCALAR field at path '{}' in the %s schema does"
    " not match its kind in the %s schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a MESSAGE field at path '{}' in the %s schema does"
    " not match its type in the %s schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label for a NUMERIC field at path '{}' in the %s schema"
    " does not match its label in the %s schema",
    # Confluent writes two spaces, too.
    "REQUIRED_FIELD_ADDED": "A required field  at path '{}' in the %s schema is missing in the"
    " %s schema",
    "REQUIRED_FIELD_REMOVED": "The %s schema is missing a required field at path: '{}' in the"
    " %s schema",
    "ONEOF_FIELD_REMOVED": "The %s schema is missing a oneof field at path '{}' in the %s schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{}' in the %s schema"
    " are outside a oneof in the %s schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field in the oneof at path '{}' in the %s schema is"
    " outside an existing oneof in the %s schema",
}
NUMBER, TEXT = "number", "text"
SCALAR_KINDS: Final = {
    type: kind
    for kind, types in {
        NUMBER: "int32 int64 uint32 uint64 bool",
        "signed number": "sint32 sint64",
        TEXT: "string bytes",
        "fixed32": "fixed32 sfixed32",
        "fixed64": "fixed64 sfixed64",
        "float": "float",
        "double": "double",
    }.items()
    for type in types.split()
}


@dataclass(frozen=True, slots=True)
class Place:
    """The path to a declaration, and its full names in the writer's and the reader's file."""

    path: tuple[str, ...]
    writer: str
    reader: str

    def at(self, step: str | int) -> Place:
        return replace(self, path=(*self.path, str(step)))

    def inside(self, name: str) -> Place:
        path = (*self.path, name)
        return Place(path, joined(self.writer, name), joined(self.reader, name))

    def difference(self, kind: str) -> str:
        description = DESCRIPTIONS[kind].format("#/" + "/".join(self.path))
        return f'{{errorType:"{kind}", description:"{description}"}}'


class ProtoComparison:
    """Compares the declarations of a reader's file with those of a writer's file.

    Args:
        writer: the types that the writer's file knows.
        reader: the types that the reader's file knows.
    """

    def __init__(self, writer: KnownTypes, reader: KnownTypes) -> None:
        self._writer = writer
        self._reader = reader
        self._open: set[int] = set()
        self._compared: dict[tuple[str, str], bool] = {}

    def files(self, writer: ProtoFile, reader: ProtoFile) -> Iterator[str]:
        """The incompatible differences, in Confluent's words."""
        place = Place((), self._writer.package, self._reader.package)
        if writer.package != reader.package:
            yield place.difference("PACKAGE_CHANGED")
        yield from self._messages(writer, reader, place)

    def _messages(self, writer: ProtoElement, reader: ProtoElement, place: Place) -> Iterator[str]:
        read = {one.name: one for one in reader.of("message")}
        for one in writer.of("message"):
            inner = place.inside(one.name)
            if one.name in read:
                yield from self._message(one, read[one.name], inner)
            elif one.map_type is None:
                yield inner.difference("MESSAGE_REMOVED")

    def _message(self, writer: ProtoElement, reader: ProtoElement, place: Place) -> Iterator[str]:
        is_open = id(writer) in self._open
        if not is_open:
            self._open.add(id(writer))
            yield from self._members(Members(writer), Members(reader), place)
        yield from self._messages(writer, reader, place)
        if not is_open:
            self._open.discard(id(writer))

    def _members(self, writer: Members, reader: Members, place: Place) -> Iterator[str]:
        for oneof, numbers in reader.oneofs.items():
            yield from _moves(writer, numbers, place.at(oneof))
        for oneof, numbers in writer.oneofs.items():
            if oneof in reader.oneofs:
                inner = place.at(oneof)
                yield from self._oneof(writer, reader, numbers, reader.oneofs[oneof], inner)
        for number in sorted(writer.fields.keys() | reader.fields.keys()):
            yield from self._member(writer, reader, number, place.at(number))

    def _oneof(
        self,
        writer: Members,
        reader: Members,
        written: Sequence[int],
        read: Sequence[int],
        place: Place,
    ) -> Iterator[str]:
        for number in sorted(written):
            if number in read:
                fields = writer.fields[number], reader.fields[number]
                yield from self._field(*fields, place.at(number))
            else:
                yield place.at(number).difference("ONEOF_FIELD_REMOVED")

    def _member(self, writer: Members, reader: Members, number: int, place: Place) -> Iterator[str]:
        """Compare fields that are not in a oneof of the same name on both sides."""
        written, read = writer.fields.get(number), reader.fields.get(number)
        oneof = writer.oneof_of.get(number)
        if read is None:
            if written and written.label == "required":
                yield place.difference("REQUIRED_FIELD_REMOVED")
            return
        if read.label == "required" and (written is None or oneof):
            yield place.difference("REQUIRED_FIELD_ADDED")
        if written and (oneof is None or oneof != reader.oneof_of.get(number)):
            yield from self._field(written, read, place)

    def _field(self, writer: ProtoElement, reader: ProtoElement, place: Place) -> Iterator[str]:
        labels = {one.label for one in (writer, reader)} - {None}
        yield from self._types(writer.type, reader.type, place, is_relabelled=len(labels) > 1)

    def _types(
        self, writer: str, reader: str, place: Place, *, is_relabelled: bool = False
    ) -> Iterator[str]:
        written = _found(self._writer, writer, place.writer)
        read = _found(self._reader, reader, place.reader)
        maps = _map_types(writer, written), _map_types(reader, read)
        if maps[0] and maps[1]:
            for was, is_now in zip(maps[0], maps[1], strict=True):
                yield from self._types(was, is_now, place)
            return
        kinds = _scalar_kind(writer, written), _scalar_kind(reader, read)
        if any(maps) or (kinds[0] is None) != (kinds[1] is None):
            yield place.difference("FIELD_KIND_CHANGED")
        elif kinds[0] != kinds[1]:
            yield place.difference("FIELD_SCALAR_KIND_CHANGED")
        elif kinds[0] is None:
            yield from self._message_types(writer, reader, place)
        elif is_relabelled and kinds[0] != TEXT:
            yield place.difference("FIELD_NUMERIC_LABEL_CHANGED")

    def _message_types(self, writer: str, reader: str, place: Place) -> Iterator[str]:
        names = (
            self._writer.resolve(writer, place.writer),
            self._reader.resolve(reader, place.reader),
        )
        if names[0] is None or names[1] is None:
            is_changed = writer != reader
        else:
            written, read = self._writer.types[names[0]], self._reader.types[names[1]]
            local = names[0].removeprefix(f"{written.package}.")
            is_changed = local != names[1].removeprefix(f"{read.package}.")
            if not is_changed and not (written.is_local and read.is_local):
                yield from self._referenced(Place(tuple(local.split(".")), names[0], names[1]))
                is_changed = self._compared[names[0], names[1]]
        if is_changed:
            yield place.difference("FIELD_NAMED_TYPE_CHANGED")

    def _referenced(self, place: Place) -> Iterator[str]:
        """Compare messages of references, and report the differences of each pair once."""
        pair = place.writer, place.reader
        if pair in self._compared:
            return
        self._compared[pair] = False
        written, read = (
            self._writer.types[pair[0]].declaration,
            self._reader.types[pair[1]].declaration,
        )
        if written.kind == read.kind == "message":
            for difference in self._message(written, read, place):
                self._compared[pair] = True
                yield difference


class Members:
    """The fields of a message by their numbers; `oneofs` has the numbers in each oneof."""

    def __init__(self, message: ProtoElement) -> None:
        oneofs = {one.name: one.of("field") for one in message.of("oneof")}
        self.oneofs = {name: [one.number for one in fields] for name, fields in oneofs.items()}
        self.oneof_of = {number: name for name, many in self.oneofs.items() for number in many}
        fields = [*message.of("field"), *chain.from_iterable(oneofs.values())]
        self.fields = {one.number: one for one in fields}


def _moves(writer: Members, numbers: Iterable[int], place: Place) -> Iterator[str]:
    """Whether fields that could be set together exclude each other in a oneof of the reader."""
    known = [number for number in numbers if number in writer.fields]
    moved = [number for number in known if number not in writer.oneof_of]
    if len(moved) > 1:
        yield place.difference("MULTIPLE_FIELDS_MOVED_TO_ONEOF")
    elif moved and len(known) > 1:
        yield place.difference("FIELD_MOVED_TO_EXISTING_ONEOF")


def _found(known: KnownTypes, type: str, scope: str) -> DeclaredType | None:
    name = known.resolve(type, scope)
    return known.types[name] if name else None


def _map_types(type: str, declared: DeclaredType | None) -> tuple[str, str] | None:
    return map_types((declared and declared.map_type) or type)


def _scalar_kind(type: str, declared: DeclaredType | None) -> str | None:
    """The group of types that can be exchanged; None for messages."""
    is_enum = declared and declared.declaration.kind == "enum"
    return NUMBER if is_enum else SCALAR_KINDS.get(type)
