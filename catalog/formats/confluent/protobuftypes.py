"""Finds what names in a Protobuf file mean: types of the file, its references, or built-in files.

Clients send files as descriptors, too, and the built-in files are descriptors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message

from catalog.formats.confluent.protobuffile import (
    Label,
    ProtoElement,
    ProtoFile,
    ProtoOption,
    ProtoWord,
    Range,
    special_options,
)
from catalog.formats.confluent.protobufparser import parsed

PROTOBUF = (
    "any api descriptor duration empty field_mask source_context struct timestamp type wrappers"
)
TYPE = (
    "calendar_period color date datetime dayofweek decimal expr fraction interval latlng money"
    " month phone_number postal_address quaternion timeofday"
)
CONFLUENT = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta {
          string doc = 1;
          map<string, string> params = 2;
          repeated string tags = 3;
        }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal {
          bytes value = 1;
          int32 scale = 2;
        }
    """,
}

# Confluent writes the options of a descriptor in the order of these names, and no others.
FILE_OPTIONS = (
    "java_package java_outer_classname java_multiple_files java_generate_equals_and_hash"
    " java_string_check_utf8 optimize_for go_package cc_generic_services java_generic_services"
    " py_generic_services deprecated cc_enable_arenas objc_class_prefix csharp_namespace"
    " swift_prefix php_class_prefix php_namespace php_metadata_namespace ruby_package"
)
MESSAGE_OPTIONS = "no_standard_descriptor_accessor deprecated map_entry"
FIELD_OPTIONS = "ctype packed jstype deprecated"
ENUM_OPTIONS = "allow_alias deprecated"
METHOD_OPTIONS = "deprecated idempotency_level"
LABELS: dict[int, Label] = {
    FieldDescriptorProto.LABEL_OPTIONAL: "optional",
    FieldDescriptorProto.LABEL_REPEATED: "repeated",
    FieldDescriptorProto.LABEL_REQUIRED: "required",
}


@cache
def built_in_files() -> Mapping[str, ProtoFile]:
    """The files that need no reference, by their paths."""
    files = {path: parsed(text) for path, text in CONFLUENT.items()}
    for folder, names in (("google/protobuf", PROTOBUF), ("google/type", TYPE)):
        for name in names.split():
            module = import_module(f"{folder.replace('/', '.')}.{name}_pb2")
            file = FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(file)
            files[f"{folder}/{name}.proto"] = described(file)
    return MappingProxyType(files)


def described(file: FileDescriptorProto) -> ProtoFile:
    """The elements of a descriptor; custom options and the fields of groups are left out."""
    is_public = set(file.public_dependency)
    imports = list(enumerate(file.dependency))
    return ProtoFile(
        syntax=file.syntax if file.syntax in ("proto2", "proto3") else None,
        package=file.package or None,
        imports=[path for index, path in imports if index not in is_public],
        public_imports=[path for index, path in imports if index in is_public],
        options=_options(file.options, FILE_OPTIONS),
        members=[
            *(_message(file, one) for one in file.message_type),
            *map(_enum, file.enum_type),
            *_extends(file, file.extension),
            *map(_service, file.service),
        ],
    )


def _message(file: FileDescriptorProto, message: DescriptorProto) -> ProtoElement:
    oneofs = [ProtoElement(kind="oneof", name=one.name) for one in message.oneof_decl]
    fields: list[ProtoElement] = []
    for one in message.field:
        if one.HasField("oneof_index") and not one.proto3_optional:
            oneofs[one.oneof_index].members.append(_field(file, one, None))
        else:
            fields.append(_field(file, one, _label(file, one)))
    return ProtoElement(
        kind="message",
        name=message.name,
        options=_options(message.options, MESSAGE_OPTIONS),
        reserved=[
            *_ranges((one.start, one.end - 1) for one in message.reserved_range),
            *([name] for name in message.reserved_name),
        ],
        extensions=_ranges((one.start, one.end - 1) for one in message.extension_range),
        members=[
            *fields,
            *(one for one in oneofs if one.members),
            *(_message(file, one) for one in message.nested_type),
            *map(_enum, message.enum_type),
            *_extends(file, message.extension),
        ],
    )


def _enum(enum: EnumDescriptorProto) -> ProtoElement:
    return ProtoElement(
        kind="enum",
        name=enum.name,
        options=_options(enum.options, ENUM_OPTIONS),
        reserved=[
            *_ranges((one.start, one.end) for one in enum.reserved_range),
            *([name] for name in enum.reserved_name),
        ],
        members=[
            ProtoElement(
                kind="constant",
                name=one.name,
                number=one.number,
                options=_options(one.options, "deprecated"),
            )
            for one in enum.value
        ],
    )


def _service(service: ServiceDescriptorProto) -> ProtoElement:
    methods = [
        ProtoElement(
            kind="rpc",
            name=one.name,
            signature=(
                "stream " * one.client_streaming + one.input_type,
                "stream " * one.server_streaming + one.output_type,
            ),
            options=_options(one.options, METHOD_OPTIONS),
        )
        for one in service.method
    ]
    options = _options(service.options, "deprecated")
    return ProtoElement(kind="service", name=service.name, options=options, members=methods)


def _extends(
    file: FileDescriptorProto, fields: Iterable[FieldDescriptorProto]
) -> list[ProtoElement]:
    extended: dict[str, list[ProtoElement]] = {}
    for one in fields:
        extended.setdefault(one.extendee, []).append(_field(file, one, _label(file, one)))
    return [
        ProtoElement(kind="extend", name=name, members=members)
        for name, members in extended.items()
    ]


def _label(file: FileDescriptorProto, field: FieldDescriptorProto) -> Label | None:
    if field.proto3_optional:
        return "optional"
    label = LABELS[field.label]
    return None if file.syntax == "proto3" and label != "repeated" else label


def _field(
    file: FileDescriptorProto, field: FieldDescriptorProto, label: Label | None
) -> ProtoElement:
    scalar = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    type = field.type_name or scalar
    has_default = field.HasField("default_value") and file.syntax != "proto3"
    default = field.default_value if has_default else None
    json_name = field.json_name if field.HasField("json_name") else None
    options = [*_options(field.options, FIELD_OPTIONS), *special_options(type, default, json_name)]
    return ProtoElement(
        kind="field", label=label, type=type, name=field.name, number=field.number, options=options
    )


def _ranges(bounds: Iterable[tuple[int, int]]) -> list[Sequence[Range]]:
    return [[first if first == last else (first, last)] for first, last in bounds]


def _options(options: Message, names: str) -> list[ProtoOption]:
    return [
        ProtoOption(name, _value(options, name)) for name in names.split() if options.HasField(name)
    ]


def _value(options: Message, name: str) -> str | ProtoWord:
    value = getattr(options, name)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ProtoWord(str(value).lower())
    field = options.DESCRIPTOR.fields_by_name[name]
    names = {one.number: one.name for one in field.enum_type.values} if field.enum_type else {}
    return ProtoWord(names[value])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredType:
    """A message or an enum, and the package of its file, "" for none."""

    package: str
    is_local: bool
    declaration: ProtoElement

    @property
    def map_type(self) -> str | None:
        """The type of the map of which the type is an entry."""
        return self.declaration.map_type


class KnownTypes:
    """The declarations of a file, of its references, and of the built-in files, by full name."""

    def __init__(self, file: ProtoFile, references: Iterable[ProtoFile]) -> None:
        self.package = file.package or ""
        self.types: dict[str, DeclaredType] = {}
        self.repeated: dict[str, bool] = {}
        """Whether an extension is repeated."""
        for one in (*built_in_files().values(), *references):
            self._collect(one, is_local=False)
        self._collect(file, is_local=True)

    def resolve(self, type: str, scope: str) -> str | None:
        """The full name of a type that the declaration `scope` uses, or None."""
        return _resolve(type, scope, self.types)

    def resolve_extension(self, name: str, scope: str) -> str | None:
        return _resolve(name, scope, self.repeated)

    def has_option(self, option: ProtoOption) -> bool:
        """Whether an option of the file itself is no custom option, or has an extension."""
        return not option.is_custom or bool(self.resolve_extension(option.name, self.package))

    def _collect(self, file: ProtoFile, *, is_local: bool) -> None:
        package = file.package or ""
        self._collect_extensions(file, package)
        pending = [(package, one) for one in file.of("message", "enum")]
        while pending:
            scope, declaration = pending.pop()
            name = joined(scope, declaration.name)
            self.types[name] = DeclaredType(
                package=package, is_local=is_local, declaration=declaration
            )
            self._collect_extensions(declaration, name)
            pending += [(name, one) for one in declaration.of("message", "enum")]

    def _collect_extensions(self, of: ProtoElement, scope: str) -> None:
        for extend in of.of("extend"):
            for field in extend.members:
                self.repeated[joined(scope, field.name)] = field.label == "repeated"


def joined(scope: str, name: str) -> str:
    """The full name of a declaration inside of another, or of a package."""
    return f"{scope}.{name}" if scope else name


def _resolve(name: str, scope: str, known: Mapping[str, object]) -> str | None:
    if name.startswith("."):
        return name[1:] if name[1:] in known else None
    while scope:
        if (full := f"{scope}.{name}") in known:
            return full
        scope = scope.rpartition(".")[0]
    return name if name in known else None
