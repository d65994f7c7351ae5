"""The elements of a Protobuf file, in the order and the spelling of the file.

They are the elements of the parser Wire, by which Confluent prints and compares files: a descriptor
would lose the spelling of types and options.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

SCALARS = {
    *("bool", "bytes", "double", "float", "string"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64"),
    *("int32", "int64", "sint32", "sint64", "uint32", "uint64"),
}
MAX_NUMBER = 0x1FFFFFFF
Label = Literal["optional", "repeated", "required"]
Range = int | str | tuple[int, int]
"""A number, a reserved name, or the first and the last number."""


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
class ProtoField:
    label: Label | None = None
    type: str
    name: str
    number: int
    default: str | None = None
    json_name: str | None = None
    options: Sequence[ProtoOption] = ()

    @property
    def special_options(self) -> list[ProtoOption]:
        """The default and the name in JSON as options, as far as the field has them."""
        options: list[ProtoOption] = []
        if self.default is not None:
            is_text = self.type == "string"
            options.append(
                ProtoOption("default", self.default if is_text else ProtoWord(self.default))
            )
        if self.json_name is not None:
            options.append(ProtoOption("json_name", self.json_name))
        return options


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoGroup:
    label: Label | None = None
    name: str
    number: int
    fields: Sequence[ProtoField] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoOneof:
    name: str
    fields: Sequence[ProtoField] = ()
    groups: Sequence[ProtoGroup] = ()
    options: Sequence[ProtoOption] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoExtend:
    name: str
    fields: Sequence[ProtoField] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoConstant:
    name: str
    number: int
    options: Sequence[ProtoOption] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoEnum:
    name: str
    constants: Sequence[ProtoConstant] = ()
    reserved: Sequence[Sequence[Range]] = ()
    options: Sequence[ProtoOption] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoMessage:
    name: str
    fields: list[ProtoField] = field(default_factory=list)
    oneofs: list[ProtoOneof] = field(default_factory=list)
    groups: list[ProtoGroup] = field(default_factory=list)
    messages: list[ProtoMessage] = field(default_factory=list)
    enums: list[ProtoEnum] = field(default_factory=list)
    extends: list[ProtoExtend] = field(default_factory=list)
    extensions: list[Sequence[Range]] = field(default_factory=list)
    reserved: list[Sequence[Range]] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)

    @property
    def types(self) -> list[ProtoMessage | ProtoEnum]:
        return [*self.messages, *self.enums]

    @property
    def map_type(self) -> str | None:
        """The type of the map of which the message is an entry."""
        entry = {option.name: option.value for option in self.options}.get("map_entry")
        if entry != ProtoWord("true"):
            return None
        types = {one.name: one.type for one in self.fields}
        return f"map<{types.get('key')}, {types.get('value')}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoMethod:
    name: str
    request: str
    response: str
    streams_requests: bool = False
    streams_responses: bool = False
    options: Sequence[ProtoOption] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoService:
    name: str
    methods: list[ProtoMethod] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ProtoFile:
    """A file; the syntax and the package are None if the file does not state them."""

    syntax: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)
    messages: list[ProtoMessage] = field(default_factory=list)
    enums: list[ProtoEnum] = field(default_factory=list)
    extends: list[ProtoExtend] = field(default_factory=list)
    services: list[ProtoService] = field(default_factory=list)

    @property
    def types(self) -> list[ProtoMessage | ProtoEnum]:
        return [*self.messages, *self.enums]

    def importing(self, paths: Container[str]) -> ProtoFile:
        """The file without imports of other paths."""
        return replace(
            self,
            imports=[path for path in self.imports if path in paths],
            public_imports=[path for path in self.public_imports if path in paths],
        )


def map_types(type: str) -> tuple[str, str] | None:
    """The types of the keys and the values of a map, or None for other types."""
    if not type.startswith("map<"):
        return None
    key, _, value = type[4:-1].partition(",")
    return key.strip(), value.strip()
