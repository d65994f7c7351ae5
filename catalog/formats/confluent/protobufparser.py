"""Parses the text of Protobuf files as the parser Wire does, which Confluent uses.

Wire is more lenient than protoc: it accepts numbers that are used twice and options that do not
exist. What it accepts, Confluent's registry may hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

from catalog.formats.confluent.protobuffile import (
    MAX_NUMBER,
    SCALARS,
    Label,
    ProtoElement,
    ProtoFile,
    ProtoOption,
    ProtoWord,
    Range,
    special_options,
)
from catalog.formats.documenttext import MalformedDocument

LABELS: dict[str, Label] = {
    "optional": "optional",
    "repeated": "repeated",
    "required": "required",
}
NO_KEYS = {"bytes", "double", "float"}
# Possessive (`++`): a long run of blanks is not tried again in every other division.
SPACE = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+|/\*(?s:.*?)\*/)*+")
WORD = re.compile(r"[A-Za-z0-9_.-]+")
STRING_PART = re.compile(
    r"""(?P<plain>[^"'\\]+)|(?P<quote>["'])"""
    r"|\\(?:[xX](?P<hex>[0-9A-Fa-f]{1,2})|(?P<octal>[0-7]{1,3})|(?P<other>(?s:.)))"
)
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
INTEGER = re.compile(r"-?\d+|0[xX]-?[0-9A-Fa-f]+")


def parsed(text: str) -> ProtoFile:
    """Parse the text of a file.

    Raises:
        MalformedDocument: the text is no Protobuf file.
    """
    return ProtoParser(text).file()


class ProtoParser:
    """Reads a text once; spaces and comments between the parts are skipped."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._syntax: str | None = None
        self._package: str | None = None
        self._imports: list[str] = []
        self._public_imports: list[str] = []

    def file(self) -> ProtoFile:
        file = ProtoElement(kind="file")
        is_first = True
        while self._peek():
            if not self._take(";"):
                self._declaration(file, is_first=is_first)
            is_first = False
        names = [f"type {one.name}" for one in file.of("message", "enum")]
        names += [f"service {one.name}" for one in file.of("service")]
        for name, times in Counter(names).items():
            if times > 1:
                raise MalformedDocument(f"{name} is already defined")
        return ProtoFile(
            syntax=self._syntax,
            package=self._package,
            imports=self._imports,
            public_imports=self._public_imports,
            options=file.options,
            members=file.members,
        )

    def _declaration(self, of: ProtoElement, *, is_first: bool = False) -> None:
        """Read a declaration or statement inside of another declaration."""
        match of.kind, self._word():
            case "file", "package":
                self._package = self._name()
                self._require(";")
            case "file", "import":
                self._import()
            case "file", "syntax":
                self._read_syntax(is_first=is_first)
            case "file" | "message", "message" | "enum" | "extend" as kind:
                of.members.append(self._block(kind, self._name()))
            case ("file", "service" as kind) | ("message", "oneof" as kind):
                of.members.append(self._block(kind, self._name()))
            case "extend", "option":
                self._option_statement()
            case "file" | "message" | "enum" | "service" | "rpc" | "oneof", "option":
                of.options.append(self._option_statement())
            case "message" | "enum", "reserved":
                of.reserved.append(self._ranges())
            case "file" | "extend", "reserved":
                self._ranges()
            case "message", "extensions":
                of.extensions.append(self._ranges())
            case "service", "rpc":
                of.members.append(self._method())
            case "oneof", "group":
                of.members.append(self._group(None))
            case "oneof", word:
                of.members.append(self._field(None, self._type(word)))
            case "enum", word:
                of.members.append(self._numbered("constant", word))
            case "message" | "extend" | "group", word:
                self._add_field_or_group(of, word)
            case _, word:
                self._fail(f"unexpected label: {word}")

    def _block(self, kind: str, name: str, **head: Any) -> ProtoElement:
        block = ProtoElement(kind=kind, name=name, **head)
        self._require("{")
        while not self._take("}"):
            if kind in ("oneof", "group") or not self._take(";"):
                self._declaration(block)
        return block

    def _import(self) -> None:
        imports = self._imports
        path = self._string() if self._peek() in "\"'" else self._word()
        if path == "public":
            path, imports = self._string(), self._public_imports
        self._require(";")
        parts = path.replace("\\", "/").split("/")
        root = "/" if path.startswith("/") else ""
        imports.append(root + "/".join(part for part in parts if part not in ("", ".")))

    def _read_syntax(self, *, is_first: bool) -> None:
        if not is_first:
            self._fail("'syntax' element must be the first declaration in a file")
        self._require("=")
        self._syntax = self._string()
        if self._syntax not in ("proto2", "proto3"):
            self._fail(f"unexpected syntax: {self._syntax}")
        self._require(";")

    def _method(self) -> ProtoElement:
        name = self._name()
        request = self._type_of_method()
        if self._word() != "returns":
            self._fail("expected 'returns'")
        signature = request, self._type_of_method()
        if self._peek() == "{":
            return self._block("rpc", name, signature=signature)
        self._require(";")
        return ProtoElement(kind="rpc", name=name, signature=signature)

    def _type_of_method(self) -> str:
        self._require("(")
        word = self._word()
        type = f"stream {self._type(self._word())}" if word == "stream" else self._type(word)
        self._require(")")
        return type

    def _add_field_or_group(self, of: ProtoElement, word: str) -> None:
        """Read a field or a group; a group of an extension is lost, and groups have none."""
        label = LABELS.get(word)
        is_proto3 = self._syntax == "proto3"
        if label == "required" and is_proto3:
            self._fail("'required' label forbidden in proto3 field declarations")
        if label is None and not is_proto3 and not (word == "map" and self._peek() == "<"):
            self._fail(f"unexpected label: {word}")
        type = self._type(self._word() if label else word)
        if label and type.startswith("map<"):
            self._fail("'map' type cannot have label")
        if type != "group":
            of.members.append(self._field(label, type))
            return
        group = self._group(label)
        if of.kind == "group":
            self._fail("expected field declaration")
        if of.kind == "message":
            of.members.append(group)

    def _group(self, label: Label | None) -> ProtoElement:
        name = self._word()
        self._require("=")
        return self._block("group", name, number=self._integer(), label=label)

    def _field(self, label: Label | None, type: str) -> ProtoElement:
        field = self._numbered("field", self._name(), label=label, type=type)
        given = {one.name: one.value for one in field.options}
        special = [_plain(given.get(name)) for name in ("default", "json_name")]
        field.options[:] = [
            *(one for one in field.options if one.name not in ("default", "json_name")),
            *special_options(type, *special),
        ]
        return field

    def _numbered(self, kind: str, name: str, **head: Any) -> ProtoElement:
        """A field or a constant after its name."""
        if name[0].isdigit():
            self._fail("field and constant names cannot start with a digit")
        self._require("=")
        number = self._integer()
        options = self._bracketed_options()
        self._require(";")
        return ProtoElement(kind=kind, name=name, number=number, options=options, **head)

    def _type(self, word: str) -> str:
        if word != "map":
            return word
        self._require("<")
        key = self._type(self._word())
        if key not in SCALARS or key in NO_KEYS:
            self._fail(f"map key must be non-byte, non-floating point scalar: {key}")
        self._require(",")
        value = self._type(self._word())
        self._require(">")
        return f"map<{key}, {value}>"

    def _ranges(self) -> Sequence[Range]:
        """The numbers and names of `reserved` and `extensions`."""
        ranges: list[Range] = []
        while True:
            ranges.append(self._string() if self._peek() in "\"'" else self._range())
            if self._peek() == "[":
                self._bracketed_options()
            if self._take(";"):
                return ranges
            self._require(",")

    def _range(self) -> Range:
        first = self._integer()
        if self._peek() in ",;[":
            return first
        if self._word() != "to":
            self._fail("expected ',', ';', or 'to'")
        last = self._word()
        return first, MAX_NUMBER if last == "max" else self._number(last)

    def _option_statement(self) -> ProtoOption:
        option = self._option("=")
        self._require(";")
        return option

    def _bracketed_options(self) -> list[ProtoOption]:
        options: list[ProtoOption] = []
        if self._take("["):
            options.append(self._option("="))
            while not self._take("]"):
                self._require(",")
                options.append(self._option("="))
        return options

    def _option(self, separator: str) -> ProtoOption:
        is_extension, is_custom = self._peek() == "[", self._peek() == "("
        name = self._name()
        if is_extension:
            name = f"[{name}]"
        path: list[tuple[str, bool]] = []
        while self._take("."):
            is_part_custom = self._peek() == "("
            part = self._name()
            parts = [part] if is_part_custom else part.split(".")
            path += [(one, is_part_custom) for one in parts]
        if separator != ":" or self._peek() != "{":
            self._require(separator)
        value = self._value()
        for part, is_part_custom in reversed(path):
            value = ProtoOption(part, value, is_part_custom)
        return ProtoOption(name, value, is_custom)

    def _value(self) -> Any:
        match self._peek():
            case "{":
                return self._map()
            case "[":
                return self._list()
            case '"' | "'":
                return self._string()
            case _:
                return ProtoWord(self._word())

    def _map(self) -> dict[str, Any]:
        self._require("{")
        values: dict[str, Any] = {}
        while not self._take("}"):
            option = self._option(":")
            _put(values, option.name, option.value)
            if not self._take(","):
                self._take(";")
        return values

    def _list(self) -> list[Any]:
        self._require("[")
        values: list[Any] = []
        while not self._take("]"):
            values.append(self._value())
            if not self._take(",") and self._peek() != "]":
                self._fail("expected ',' or ']'")
        return values

    def _name(self) -> str:
        for opening, closing in ("()", "[]"):
            if self._take(opening):
                word = self._word()
                self._require(closing)
                return word
        return self._word()

    def _integer(self) -> int:
        return self._number(self._word())

    def _number(self, word: str) -> int:
        number = 2**31
        if INTEGER.fullmatch(word):
            is_hexadecimal = word[:2] in ("0x", "0X")
            number = int(word[2:18], 16) if is_hexadecimal else int(word[:18])
        if not -(2**31) <= number < 2**31:
            self._fail(f"expected an integer but was {word}")
        return number

    def _word(self) -> str:
        found = WORD.match(self._text, self._skipped())
        if found is None:
            self._fail("expected a word")
        self._at = found.end()
        return found[0]

    def _string(self) -> str:
        """A text in quotes, and the texts in quotes that follow it."""
        quote = self._peek()
        if quote not in ("'", '"'):
            self._fail("expected a text in quotes")
        self._at += 1
        parts: list[str] = []
        while found := STRING_PART.match(self._text, self._at):
            self._at = found.end()
            if found["quote"] != quote:
                parts.append(_unescaped(found))
                continue
            quote = self._peek()
            if quote not in ("'", '"'):
                return "".join(parts)
            self._at += 1
        self._fail("unterminated string")

    def _peek(self) -> str:
        """The next character after spaces and comments, or ""."""
        at = self._skipped()
        return self._text[at : at + 1]

    def _take(self, character: str) -> bool:
        found = self._peek() == character
        self._at += found
        return found

    def _require(self, character: str) -> None:
        if not self._take(character):
            self._fail(f"expected '{character}'")

    def _skipped(self) -> int:
        found = SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at

    def _fail(self, problem: str) -> NoReturn:
        line = self._text.count("\n", 0, self._at) + 1
        column = self._at - self._text.rfind("\n", 0, self._at)
        if self._at == len(self._text):
            problem = "unexpected end of file"
        raise MalformedDocument(f"Syntax error in :{line}:{column}: {problem}")


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


def _plain(value: Any) -> str | None:
    return value.text if isinstance(value, ProtoWord) else value if value is None else str(value)


def _unescaped(part: re.Match[str]) -> str:
    if code := part["hex"]:
        return chr(int(code, 16))
    if code := part["octal"]:
        return chr(int(code, 8))
    if (other := part["other"]) is not None:
        return ESCAPES.get(other, other)
    return part[0]
