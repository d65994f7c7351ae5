"""Parses the text of Protobuf files as the parser Wire does, which Confluent uses.

Wire is more lenient than protoc: it accepts numbers that are used twice and options that do not
exist. What it accepts, Confluent's registry may hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from catalog.formats.confluent.protobufelements import (
    MAX_NUMBER,
    SCALARS,
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
    ProtoWord,
    Range,
)
from catalog.formats.confluent.protobufreader import ProtoReader
from catalog.formats.documenttext import MalformedDocument

LABELS: dict[str, Label] = {
    "optional": "optional",
    "repeated": "repeated",
    "required": "required",
}
NO_KEYS = {"bytes", "double", "float"}


def parsed(text: str) -> ProtoFile:
    """Parse the text of a file.

    Raises:
        MalformedDocument: the text is no Protobuf file.
    """
    return ProtoParser(text).file()


class ProtoParser(ProtoReader):
    """A parser of one text, which is read once."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._file = ProtoFile()
        self._is_first = True

    def file(self) -> ProtoFile:
        file = self._file
        while self.peek():
            self._declaration_of_file(file)
            self._is_first = False
        names = [f"type {one.name}" for one in file.types]
        names += [f"service {one.name}" for one in file.services]
        for name, times in Counter(names).items():
            if times > 1:
                raise MalformedDocument(f"{name} is already defined")
        return file

    def _declaration_of_file(self, file: ProtoFile) -> None:
        if self.take(";"):
            return
        match word := self.word():
            case "package":
                file.package = self._name()
                self.require(";")
            case "import":
                self._import(file)
            case "syntax":
                self._syntax(file)
            case "option":
                file.options.append(self._option_statement())
            case "reserved":
                self._ranges()
            case "message":
                file.messages.append(self._message())
            case "enum":
                file.enums.append(self._enum())
            case "extend":
                file.extends.append(self._extend())
            case "service":
                file.services.append(self._service())
            case _:
                self.fail(f"unexpected label: {word}")

    def _import(self, file: ProtoFile) -> None:
        imports = file.imports
        path = self.string() if self.peek() in "\"'" else self.word()
        if path == "public":
            path, imports = self.string(), file.public_imports
        self.require(";")
        parts = path.replace("\\", "/").split("/")
        root = "/" if path.startswith("/") else ""
        imports.append(root + "/".join(part for part in parts if part not in ("", ".")))

    def _syntax(self, file: ProtoFile) -> None:
        if not self._is_first:
            self.fail("'syntax' element must be the first declaration in a file")
        self.require("=")
        file.syntax = self.string()
        if file.syntax not in ("proto2", "proto3"):
            self.fail(f"unexpected syntax: {file.syntax}")
        self.require(";")

    def _message(self) -> ProtoMessage:
        message = ProtoMessage(name=self._name())
        self.require("{")
        while not self.take("}"):
            if not self.take(";"):
                self._declaration_of_message(message)
        return message

    def _declaration_of_message(self, message: ProtoMessage) -> None:
        match word := self.word():
            case "option":
                message.options.append(self._option_statement())
            case "reserved":
                message.reserved.append(self._ranges())
            case "message":
                message.messages.append(self._message())
            case "enum":
                message.enums.append(self._enum())
            case "extend":
                message.extends.append(self._extend())
            case "oneof":
                message.oneofs.append(self._oneof())
            case "extensions":
                message.extensions.append(self._ranges())
            case _:
                member = self._field_or_group(word)
                if isinstance(member, ProtoGroup):
                    message.groups.append(member)
                else:
                    message.fields.append(member)

    def _enum(self) -> ProtoEnum:
        constants: list[ProtoConstant] = []
        reserved: list[Sequence[Range]] = []
        options: list[ProtoOption] = []
        name = self._name()
        self.require("{")
        while not self.take("}"):
            if self.take(";"):
                continue
            match word := self.word():
                case "option":
                    options.append(self._option_statement())
                case "reserved":
                    reserved.append(self._ranges())
                case _:
                    constants.append(self._constant(word))
        return ProtoEnum(name=name, constants=constants, reserved=reserved, options=options)

    def _constant(self, name: str) -> ProtoConstant:
        self._refuse_digit(name)
        self.require("=")
        number = self.integer()
        options = self._bracketed_options()
        self.require(";")
        return ProtoConstant(name=name, number=number, options=options)

    def _extend(self) -> ProtoExtend:
        name = self._name()
        fields: list[ProtoField] = []
        self.require("{")
        while not self.take("}"):
            if self.take(";"):
                continue
            match word := self.word():
                case "option":
                    self._option_statement()
                case "reserved":
                    self._ranges()
                case _:
                    member = self._field_or_group(word)
                    if isinstance(member, ProtoField):
                        fields.append(member)
        return ProtoExtend(name=name, fields=fields)

    def _service(self) -> ProtoService:
        service = ProtoService(name=self._name())
        self.require("{")
        while not self.take("}"):
            if self.take(";"):
                continue
            match word := self.word():
                case "option":
                    service.options.append(self._option_statement())
                case "rpc":
                    service.methods.append(self._method())
                case _:
                    self.fail(f"unexpected label: {word}")
        return service

    def _method(self) -> ProtoMethod:
        name = self._name()
        request, streams_requests = self._type_of_method()
        if self.word() != "returns":
            self.fail("expected 'returns'")
        response, streams_responses = self._type_of_method()
        options: list[ProtoOption] = []
        if self.take("{"):
            while not self.take("}"):
                if self.take(";"):
                    continue
                if (word := self.word()) != "option":
                    self.fail(f"unexpected label: {word}")
                options.append(self._option_statement())
        else:
            self.require(";")
        return ProtoMethod(
            name=name,
            request=request,
            response=response,
            streams_requests=streams_requests,
            streams_responses=streams_responses,
            options=options,
        )

    def _type_of_method(self) -> tuple[str, bool]:
        self.require("(")
        word = self.word()
        is_stream = word == "stream"
        type = self._type(self.word() if is_stream else word)
        self.require(")")
        return type, is_stream

    def _oneof(self) -> ProtoOneof:
        name = self._name()
        fields: list[ProtoField] = []
        groups: list[ProtoGroup] = []
        options: list[ProtoOption] = []
        self.require("{")
        while not self.take("}"):
            match word := self.word():
                case "group":
                    groups.append(self._group(None))
                case "option":
                    options.append(self._option_statement())
                case _:
                    fields.append(self._field(None, self._type(word)))
        return ProtoOneof(name=name, fields=fields, groups=groups, options=options)

    def _group(self, label: Label | None) -> ProtoGroup:
        name = self.word()
        self.require("=")
        number = self.integer()
        fields: list[ProtoField] = []
        self.require("{")
        while not self.take("}"):
            member = self._field_or_group(self.word())
            if isinstance(member, ProtoGroup):
                self.fail("expected field declaration")
            fields.append(member)
        return ProtoGroup(label=label, name=name, number=number, fields=fields)

    def _field_or_group(self, word: str) -> ProtoField | ProtoGroup:
        label = LABELS.get(word)
        is_proto3 = self._file.syntax == "proto3"
        if label == "required" and is_proto3:
            self.fail("'required' label forbidden in proto3 field declarations")
        if label is None and not is_proto3 and not (word == "map" and self.peek() == "<"):
            self.fail(f"unexpected label: {word}")
        type = self._type(self.word() if label else word)
        if label and type.startswith("map<"):
            self.fail("'map' type cannot have label")
        return self._group(label) if type == "group" else self._field(label, type)

    def _field(self, label: Label | None, type: str) -> ProtoField:
        name = self._name()
        self._refuse_digit(name)
        self.require("=")
        number = self.integer()
        options = self._bracketed_options()
        special = {one.name: one.value for one in options if one.name in ("default", "json_name")}
        self.require(";")
        return ProtoField(
            label=label,
            type=type,
            name=name,
            number=number,
            default=_text(special.get("default")),
            json_name=_text(special.get("json_name")),
            options=[one for one in options if one.name not in special],
        )

    def _type(self, word: str) -> str:
        if word != "map":
            return word
        self.require("<")
        key = self._type(self.word())
        if key not in SCALARS or key in NO_KEYS:
            self.fail(f"map key must be non-byte, non-floating point scalar: {key}")
        self.require(",")
        value = self._type(self.word())
        self.require(">")
        return f"map<{key}, {value}>"

    def _ranges(self) -> Sequence[Range]:
        """The numbers and names of `reserved` and `extensions`."""
        ranges: list[Range] = []
        while True:
            ranges.append(self.string() if self.peek() in "\"'" else self._range())
            if self.peek() == "[":
                self._bracketed_options()
            if self.take(";"):
                return ranges
            self.require(",")

    def _range(self) -> Range:
        first = self.integer()
        if self.peek() in ",;[":
            return first
        if self.word() != "to":
            self.fail("expected ',', ';', or 'to'")
        last = self.word()
        return first, MAX_NUMBER if last == "max" else self.number(last)

    def _option_statement(self) -> ProtoOption:
        option = self._option("=")
        self.require(";")
        return option

    def _bracketed_options(self) -> list[ProtoOption]:
        options: list[ProtoOption] = []
        if self.take("["):
            options.append(self._option("="))
            while not self.take("]"):
                self.require(",")
                options.append(self._option("="))
        return options

    def _option(self, separator: str) -> ProtoOption:
        is_extension, is_custom = self.peek() == "[", self.peek() == "("
        name = self._name()
        if is_extension:
            name = f"[{name}]"
        path: list[tuple[str, bool]] = []
        while self.take("."):
            is_part_custom = self.peek() == "("
            part = self._name()
            parts = [part] if is_part_custom else part.split(".")
            path += [(one, is_part_custom) for one in parts]
        if separator != ":" or self.peek() != "{":
            self.require(separator)
        value = self._value()
        for part, is_part_custom in reversed(path):
            value = ProtoOption(part, value, is_part_custom)
        return ProtoOption(name, value, is_custom)

    def _value(self) -> Any:
        match self.peek():
            case "{":
                return self._map()
            case "[":
                return self._list()
            case '"' | "'":
                return self.string()
            case _:
                return ProtoWord(self.word())

    def _map(self) -> dict[str, Any]:
        self.require("{")
        values: dict[str, Any] = {}
        while not self.take("}"):
            option = self._option(":")
            _put(values, option.name, option.value)
            if not self.take(","):
                self.take(";")
        return values

    def _list(self) -> list[Any]:
        self.require("[")
        values: list[Any] = []
        while not self.take("]"):
            values.append(self._value())
            if not self.take(",") and self.peek() != "]":
                self.fail("expected ',' or ']'")
        return values

    def _name(self) -> str:
        for opening, closing in ("()", "[]"):
            if self.take(opening):
                word = self.word()
                self.require(closing)
                return word
        return self.word()

    def _refuse_digit(self, name: str) -> None:
        if name[0].isdigit():
            self.fail("field and constant names cannot start with a digit")


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    """Add a value of a map; values with the same name become a list."""
    if isinstance(value, ProtoOption):
        inner = values.get(name)
        if not isinstance(inner, dict):
            inner = values[name] = {}
        # A word after a path loses its kind here, and is printed in quotes, as by Wire.
        word = value.value
        inner[value.name] = word.text if isinstance(word, ProtoWord) else word
    elif name not in values:
        values[name] = value
    else:
        if not isinstance(values[name], list):
            values[name] = [values[name]]
        values[name] += value if isinstance(value, list) else [value]


def _text(value: Any) -> str | None:
    return value.text if isinstance(value, ProtoWord) else value if value is None else str(value)
