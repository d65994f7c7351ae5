"""The declarations of a Protobuf file, and the text that Confluent's registry makes of them.

The declarations are those of the parser Wire, by which Confluent prints and compares files: a
descriptor would lose the spelling of types and options. GUIDs of schemas are digests of the texts.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar

SCALARS = {
    *("bool", "bytes", "double", "float", "string"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64"),
    *("int32", "int64", "sint32", "sint64", "uint32", "uint64"),
}
MAX_NUMBER = 0x1FFFFFFF
Label = Literal["optional", "repeated", "required"]
Range = int | str | tuple[int, int]
"""A number, a reserved name, or the first and the last number."""
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


@dataclass(frozen=True, slots=True)
class ProtoWord:
    """A value of an option that has no quotes: a boolean, a number, or the name of a constant."""

    text: str

    @property
    def is_number(self) -> bool:
        return self.text[:1].isdigit() or self.text.startswith("-")


@dataclass(frozen=True, slots=True)
class ProtoOption:
    """An option; `(a).b = 1` is the option `a` with the option `b` as its value.

    The value is a text, a ProtoWord, a ProtoOption, a dict of values, or a list of values.
    """

    name: str
    value: Any
    is_custom: bool = False

    def as_map(self) -> ProtoOption:
        """The option with a dict in place of an option as its value."""
        return replace(self, value=_map_of(self.value))


def _map_of(value: Any) -> Any:
    return {value.name: _map_of(value.value)} if isinstance(value, ProtoOption) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoElement:
    """A declaration with the declarations inside of it, in the order of the file.

    Args:
        kind: `file`, `message`, `enum`, `extend`, `service`, `field`, `oneof`, `group`, `rpc`, or
            `constant` of an enum.
        name: the name; of an extension, the name of the extended message.
        type: the type of a field.
        number: the number of a field, a group or a constant.
        signature: the types of the request and the response of an `rpc`, each after "stream " if
            there are several.
        options: the options; the default and the name in JSON of a field come last.
        reserved: the ranges of each `reserved` statement.
        extensions: the ranges of each `extensions` statement.
    """

    kind: str
    name: str = ""
    label: Label | None = None
    type: str = ""
    number: int = 0
    signature: tuple[str, str] = ("", "")
    options: list[ProtoOption] = field(default_factory=list)
    reserved: list[Sequence[Range]] = field(default_factory=list)
    extensions: list[Sequence[Range]] = field(default_factory=list)
    members: list[ProtoElement] = field(default_factory=list)

    def of(self, *kinds: str) -> list[ProtoElement]:
        """The declarations of some kinds inside of the declaration."""
        return [one for one in self.members if one.kind in kinds]

    @property
    def map_type(self) -> str | None:
        """The type of the map of which the declaration is an entry."""
        if self.kind != "message":
            return None
        entry = {option.name: option.value for option in self.options}.get("map_entry")
        if entry != ProtoWord("true"):
            return None
        types = {one.name: one.type for one in self.of("field")}
        return f"map<{types.get('key')}, {types.get('value')}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoFile(ProtoElement):
    """A file; the syntax and the package are None if the file does not state them."""

    kind: str = "file"
    syntax: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)

    def importing(self, paths: Container[str]) -> ProtoFile:
        """The file without imports of other paths."""
        return replace(
            self,
            imports=[path for path in self.imports if path in paths],
            public_imports=[path for path in self.public_imports if path in paths],
        )


Changed = TypeVar("Changed", bound=ProtoElement)


def changed(one: Changed, change: Callable[[ProtoElement], Mapping[str, Any]]) -> Changed:
    """The declaration, in which a function gives new attributes to each declaration inside."""
    members = [changed(member, change) for member in one.members]
    one = replace(one, members=members)
    return replace(one, **change(one))


def map_types(type: str) -> tuple[str, str] | None:
    """The types of the keys and the values of a map, or None for other types."""
    if not type.startswith("map<"):
        return None
    key, _, value = type[4:-1].partition(",")
    return key.strip(), value.strip()


def special_options(type: str, default: str | None, json_name: str | None) -> list[ProtoOption]:
    """The default and the name in JSON of a field as options, as far as the field has them."""
    options: list[ProtoOption] = []
    if default is not None:
        options.append(ProtoOption("default", default if type == "string" else ProtoWord(default)))
    if json_name is not None:
        options.append(ProtoOption("json_name", json_name))
    return options


def written(file: ProtoFile) -> str:
    """The text of a file."""
    head = f'syntax = "{file.syntax}";\n' if file.syntax else ""
    if file.package is not None:
        head += f"package {file.package};\n"
    imports = [f'import "{path}";\n' for path in file.imports]
    imports += [f'import public "{path}";\n' for path in file.public_imports]
    sections = [
        imports,
        _statements(file.options),
        _texts(file, "message", "enum"),
        _texts(file, "extend"),
        _texts(file, "service"),
    ]
    return head + "".join("\n" + "".join(parts) for parts in sections if parts)


def _texts(of: ProtoElement, *kinds: str) -> list[str]:
    return [_text(one) for kind in kinds for one in of.of(kind)]


def _text(one: ProtoElement) -> str:
    label = f"{one.label} " if one.label else ""
    match one.kind:
        case "field":
            return f"{label}{one.type} {one.name} = {one.number}{_bracketed(one.options)};\n"
        case "constant":
            return f"{one.name} = {one.number}{_bracketed(one.options)};\n"
        case "rpc":
            request, response = one.signature
            options = "".join(map(_indented, _statements(one.options)))
            body = f" {{\n{options}}}" if options else ""
            return f"rpc {one.name} ({request}) returns ({response}){body};\n"
        case "group":
            head = f"{label}group {one.name} = {one.number}"
        case _:
            head = f"{one.kind} {one.name}"
    body = "".join("\n" + "".join(map(_indented, part)) for part in _sections(one) if part)
    return f"{head} {{{body}}}\n"


def _sections(one: ProtoElement) -> list[list[str]]:
    """The texts inside of a block; a blank line comes before each section."""
    reserved = [_ranges("reserved", ranges) for ranges in one.reserved]
    options = _statements(one.options)
    if one.kind == "enum":
        return [[*reserved, *options, *_texts(one, "constant")]]
    return [
        reserved,
        options,
        _texts(one, "field"),
        _texts(one, "oneof"),
        _texts(one, "group"),
        [_ranges("extensions", ranges) for ranges in one.extensions],
        _texts(one, "extend"),
        _texts(one, "message", "enum"),
        _texts(one, "rpc"),
    ]


def _bracketed(options: Sequence[ProtoOption]) -> str:
    return f" {_list(options)}" if options else ""


def _statements(options: Iterable[ProtoOption]) -> list[str]:
    return [f"option {_option(one)};\n" for one in options]


def _ranges(keyword: str, ranges: Iterable[Range]) -> str:
    return f"{keyword} {', '.join(map(_range, ranges))};\n"


def _range(range: Range) -> str:
    if isinstance(range, str):
        return f'"{range}"'
    if isinstance(range, int):
        return str(range)
    first, last = range
    return f"{first} to {last if last < MAX_NUMBER else 'max'}"


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
