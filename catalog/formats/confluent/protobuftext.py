"""Writes Protobuf files as Confluent's registry does, whose ids are digests of these texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from catalog.formats.confluent.protobufelements import (
    MAX_NUMBER,
    Label,
    ProtoConstant,
    ProtoEnum,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoGroup,
    ProtoMessage,
    ProtoMethod,
    ProtoOneof,
    ProtoOption,
    ProtoService,
    Range,
)

ESCAPES: Final = str.maketrans(
    {
        "\a": r"\a",
        "\b": r"\b",
        "\f": r"\f",
        "\n": r"\n",
        "\r": r"\r",
        "\t": r"\t",
        "\v": r"\v",
        "\\": r"\\",
        "'": r"\'",
        '"': r"\"",
    }
)


def is_any(option: ProtoOption) -> bool:
    return True


class ProtoPrinter:
    """Writes files, with or without extensions, and with the options that a function accepts."""

    def __init__(
        self, *, is_extended: bool = True, accepts: Callable[[ProtoOption], bool] = is_any
    ) -> None:
        self._is_extended = is_extended
        self._accepts = accepts

    def file(self, file: ProtoFile) -> str:
        head = f'syntax = "{file.syntax}";\n' if file.syntax else ""
        if file.package is not None:
            head += f"package {file.package};\n"
        imports = [f'import "{path}";\n' for path in file.imports]
        imports += [f'import public "{path}";\n' for path in file.public_imports]
        sections = [
            imports,
            self._statements(file.options),
            self._types(file.messages, file.enums),
            self._extends(file.extends),
            [self._service(one) for one in file.services],
        ]
        return head + "".join("\n" + "".join(parts) for parts in sections if parts)

    def _message(self, message: ProtoMessage) -> str:
        return _block(
            f"message {message.name}",
            [_ranges("reserved", one) for one in message.reserved],
            self._statements(message.options),
            [self._field(one) for one in message.fields],
            [self._oneof(one) for one in message.oneofs],
            [self._group(one) for one in message.groups],
            [_ranges("extensions", one) for one in message.extensions if self._is_extended],
            self._extends(message.extends),
            self._types(message.messages, message.enums),
        )

    def enum(self, enum: ProtoEnum) -> str:
        return _block(
            f"enum {enum.name}",
            [
                *(_ranges("reserved", one) for one in enum.reserved),
                *self._statements(enum.options),
                *(self._constant(one) for one in enum.constants),
            ],
        )

    def _oneof(self, oneof: ProtoOneof) -> str:
        return _block(
            f"oneof {oneof.name}",
            self._statements(oneof.options),
            [self._field(one) for one in oneof.fields],
            [self._group(one) for one in oneof.groups],
        )

    def _group(self, group: ProtoGroup) -> str:
        head = f"{_label(group.label)}group {group.name} = {group.number}"
        return _block(head, [self._field(one) for one in group.fields])

    def _extends(self, extends: Iterable[ProtoExtend]) -> list[str]:
        return [
            _block(f"extend {one.name}", [self._field(field) for field in one.fields])
            for one in extends
            if self._is_extended
        ]

    def _service(self, service: ProtoService) -> str:
        return _block(
            f"service {service.name}",
            self._statements(service.options),
            [self._method(one) for one in service.methods],
        )

    def _types(self, messages: Iterable[ProtoMessage], enums: Iterable[ProtoEnum]) -> list[str]:
        return [*map(self._message, messages), *map(self.enum, enums)]

    def _method(self, method: ProtoMethod) -> str:
        request = ("stream " if method.streams_requests else "") + method.request
        response = ("stream " if method.streams_responses else "") + method.response
        options = "".join(map(_indented, self._statements(method.options)))
        body = f" {{\n{options}}}" if options else ""
        return f"rpc {method.name} ({request}) returns ({response}){body};\n"

    def _constant(self, constant: ProtoConstant) -> str:
        return f"{constant.name} = {constant.number}{self._bracketed(constant.options)};\n"

    def _field(self, field: ProtoField) -> str:
        options = self._bracketed([*field.options, *field.special_options])
        return f"{_label(field.label)}{field.type} {field.name} = {field.number}{options};\n"

    def _bracketed(self, options: Iterable[ProtoOption]) -> str:
        accepted = [one for one in options if self._accepts(one)]
        return f" {_list(accepted)}" if accepted else ""

    def _statements(self, options: Iterable[ProtoOption]) -> list[str]:
        return [f"option {_option(one)};\n" for one in options if self._accepts(one)]


def _block(head: str, *sections: Sequence[str]) -> str:
    body = "".join("\n" + "".join(map(_indented, parts)) for parts in sections if parts)
    return f"{head} {{{body}}}\n"


def _ranges(keyword: str, ranges: Iterable[Range]) -> str:
    return f"{keyword} {', '.join(map(_range, ranges))};\n"


def _range(range: Range) -> str:
    if isinstance(range, str):
        return f'"{range}"'
    if isinstance(range, int):
        return str(range)
    first, last = range
    return f"{first} to {last if last < MAX_NUMBER else 'max'}"


def _label(label: Label | None) -> str:
    return f"{label} " if label else ""


def _option(option: ProtoOption) -> str:
    name = f"({option.name})" if option.is_custom else option.name
    value = option.value
    if isinstance(value, ProtoOption):
        return f"{name}.{_option(value)}"
    return f"{name} = {_list(value) if isinstance(value, list) else _value(value)}"


def _list(values: Sequence[Any]) -> str:
    return f"[{_value(values[0])}]" if len(values) == 1 else _lines(map(_value, values))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value.translate(ESCAPES)}"'
    if isinstance(value, Mapping):
        pairs = (f"{key}: {_value(one)}" for key, one in value.items())
        return _lines(pairs, "{", "}")
    if isinstance(value, list):
        return _lines(map(_value, value))
    return _option(value) if isinstance(value, ProtoOption) else str(value.text)


def _lines(values: Iterable[str], opening: str = "[", closing: str = "]") -> str:
    """Values with a comma after all but the last, one to a line."""
    body = ",\n".join(values)
    return f"{opening}\n{_indented(body) if body else ''}{closing}"


def _indented(text: str) -> str:
    """The lines of a text, also the empty ones, after two spaces."""
    return "".join(f"  {line}\n" for line in text.rstrip("\n").split("\n"))
