"""The types of Avro schemas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = frozenset(("string", "bytes", "int", "long", "float", "double", "boolean", "null"))


@dataclass(frozen=True, slots=True)
class AvroName:
    """A name with its namespace, which is empty if there is none."""

    name: str
    space: str

    @property
    def full(self) -> str:
        """The name as other schemas can use it."""
        return f"{self.space}.{self.name}" if self.space else self.name


# Types compare by identity, because a record can contain itself.
@dataclass(eq=False, slots=True, kw_only=True)
class AvroType:
    """A type, which is a primitive one if it is of no subclass; the kind is the name in Avro."""

    kind: str
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True, kw_only=True)
class AvroForward(AvroType):
    """The use of a type that is not defined yet."""

    kind: str = "record"
    full: str


@dataclass(eq=False, slots=True, kw_only=True)
class AvroCollection(AvroType):
    """An array or a map."""

    element: AvroType


@dataclass(eq=False, slots=True, kw_only=True)
class AvroUnion(AvroType):
    """A union of types with different names."""

    kind: str = "union"
    branches: list[AvroType]


@dataclass(eq=False, slots=True, kw_only=True)
class AvroNamed(AvroType):
    """A type that a schema defines once and uses by its name."""

    name: AvroName
    doc: str | None
    aliases: list[AvroName]

    def alias_text(self, alias: AvroName) -> str:
        """Return an alias as Java's library tells it; a dot marks one that has no namespace."""
        return f".{alias.name}" if self.name.space and not alias.space else alias.full


@dataclass(eq=False, slots=True, kw_only=True)
class AvroField:
    """A field of a record; the list of defaults is empty or has the only one."""

    name: str
    type: AvroType
    doc: str | None
    default: list[Any]
    order: str
    aliases: list[str]
    properties: dict[str, Any]


@dataclass(eq=False, slots=True, kw_only=True)
class AvroRecord(AvroNamed):
    """A record or an error, which differ in their text only."""

    kind: str = "record"
    fields: list[AvroField]
    is_error: bool


@dataclass(eq=False, slots=True, kw_only=True)
class AvroEnum(AvroNamed):
    """An enumeration."""

    kind: str = "enum"
    symbols: list[str]
    default: str | None


@dataclass(eq=False, slots=True, kw_only=True)
class AvroFixed(AvroNamed):
    """A fixed number of bytes."""

    kind: str = "fixed"
    size: int


def full_name(of: AvroType) -> str:
    """Return the name that tells a type from the others of a union."""
    return of.name.full if isinstance(of, AvroNamed) else of.kind
