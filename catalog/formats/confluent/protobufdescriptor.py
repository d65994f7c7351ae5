"""The elements of descriptors, and of the files that every schema can import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MappingProxyType

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message

from catalog.formats.confluent.protobufelements import (
    Label,
    ProtoConstant,
    ProtoEnum,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoMethod,
    ProtoOneof,
    ProtoOption,
    ProtoService,
    ProtoWord,
    Range,
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
        messages=[_message(file, one) for one in file.message_type],
        enums=[_enum(one) for one in file.enum_type],
        extends=_extends(file, file.extension),
        services=[_service(one) for one in file.service],
    )


def _message(file: FileDescriptorProto, message: DescriptorProto) -> ProtoMessage:
    oneofs: list[list[ProtoField]] = [[] for _ in message.oneof_decl]
    fields: list[ProtoField] = []
    for one in message.field:
        if one.HasField("oneof_index") and not one.proto3_optional:
            oneofs[one.oneof_index].append(_field(file, one, None))
        else:
            fields.append(_field(file, one, _label(file, one)))
    named = zip((one.name for one in message.oneof_decl), oneofs, strict=True)
    return ProtoMessage(
        name=message.name,
        fields=fields,
        oneofs=[ProtoOneof(name=name, fields=members) for name, members in named if members],
        messages=[_message(file, one) for one in message.nested_type],
        enums=[_enum(one) for one in message.enum_type],
        extends=_extends(file, message.extension),
        extensions=_ranges((one.start, one.end - 1) for one in message.extension_range),
        reserved=[
            *_ranges((one.start, one.end - 1) for one in message.reserved_range),
            *([name] for name in message.reserved_name),
        ],
        options=_options(message.options, MESSAGE_OPTIONS),
    )


def _enum(enum: EnumDescriptorProto) -> ProtoEnum:
    return ProtoEnum(
        name=enum.name,
        constants=[
            ProtoConstant(
                name=one.name, number=one.number, options=_options(one.options, "deprecated")
            )
            for one in enum.value
        ],
        reserved=[
            *_ranges((one.start, one.end) for one in enum.reserved_range),
            *([name] for name in enum.reserved_name),
        ],
        options=_options(enum.options, ENUM_OPTIONS),
    )


def _service(service: ServiceDescriptorProto) -> ProtoService:
    return ProtoService(
        name=service.name,
        methods=[_method(one) for one in service.method],
        options=_options(service.options, "deprecated"),
    )


def _method(method: MethodDescriptorProto) -> ProtoMethod:
    return ProtoMethod(
        name=method.name,
        request=method.input_type,
        response=method.output_type,
        streams_requests=method.client_streaming,
        streams_responses=method.server_streaming,
        options=_options(method.options, METHOD_OPTIONS),
    )


def _extends(
    file: FileDescriptorProto, fields: Iterable[FieldDescriptorProto]
) -> list[ProtoExtend]:
    extended: dict[str, list[ProtoField]] = {}
    for one in fields:
        extended.setdefault(one.extendee, []).append(_field(file, one, _label(file, one)))
    return [ProtoExtend(name=name, fields=members) for name, members in extended.items()]


def _label(file: FileDescriptorProto, field: FieldDescriptorProto) -> Label | None:
    if field.proto3_optional:
        return "optional"
    label = LABELS[field.label]
    return None if file.syntax == "proto3" and label != "repeated" else label


def _field(
    file: FileDescriptorProto, field: FieldDescriptorProto, label: Label | None
) -> ProtoField:
    type = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    has_default = field.HasField("default_value") and file.syntax != "proto3"
    return ProtoField(
        label=label,
        type=field.type_name or type,
        name=field.name,
        number=field.number,
        default=field.default_value if has_default else None,
        json_name=field.json_name if field.HasField("json_name") else None,
        options=_options(field.options, FIELD_OPTIONS),
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
