"""The types of Avro schemas, and the text by which Confluent's registry stores the types.

The text has the form of Apache Avro for Java.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from catalog.formats.confluent.jackson import JavaFloat, excerpt, printed, utf16_order
from catalog.formats.documenttext import MalformedDocument

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


_KINDS = PRIMITIVES | {"record", "enum", "array", "map", "union", "fixed"}
_LONG_LOGICAL_TYPES = (
    *("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos"),
    *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
)
_BASES_OF_LOGICAL_TYPES = {
    "big-decimal": ("bytes",),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
    "date": ("int",),
    "time-millis": ("int",),
} | dict.fromkeys(_LONG_LOGICAL_TYPES, ("long",))
_SIZES_OF_LOGICAL_TYPES = {"uuid": 16, "duration": 12}
_PROPERTIES_OF_JAVA = ("avro.java.string", "java-class", "java-key-class", "java-element-class")
_MAX_INT = 2**31 - 1
_NOTHING: Any = object()


def written(of: AvroType, known: set[str]) -> str:
    """Return the text of a type, which names the known types instead of defining them."""
    return printed(_tree(of, "", set(known)))


def _tree(of: AvroType, space: str, known: set[str]) -> Any:
    match of:
        case AvroUnion():
            return [_tree(branch, space, known) for branch in of.branches]
        case AvroCollection():
            element = "items" if of.kind == "array" else "values"
            return {"type": of.kind, element: _tree(of.element, space, known)} | of.properties
        case AvroNamed():
            return _named_tree(of, space, known)
        case _:
            return {"type": of.kind} | of.properties if of.properties else of.kind


def _named_tree(of: AvroNamed, space: str, known: set[str]) -> Any:
    if of.name.full in known:
        return _relative(of.name, space)
    known.add(of.name.full)
    is_error = isinstance(of, AvroRecord) and of.is_error
    tree: dict[str, Any] = {"type": "error" if is_error else of.kind, "name": of.name.name}
    if of.name.space != space:
        tree["namespace"] = of.name.space
    if of.doc is not None:
        tree["doc"] = of.doc
    match of:
        case AvroRecord():
            tree["fields"] = [_field_tree(each, of.name.space, known) for each in of.fields]
        case AvroEnum():
            tree["symbols"] = of.symbols
            if of.default is not None:
                tree["default"] = of.default
        case AvroFixed():
            tree["size"] = of.size
    tree |= of.properties
    if of.aliases:
        tree["aliases"] = [_relative(alias, of.name.space) for alias in of.aliases]
    return tree


def _field_tree(of: AvroField, space: str, known: set[str]) -> dict[str, Any]:
    tree: dict[str, Any] = {"name": of.name, "type": _tree(of.type, space, known)}
    if of.doc is not None:
        tree["doc"] = of.doc
    for default in of.default:
        tree["default"] = default
    if of.order != "ascending":
        tree["order"] = of.order
    if of.aliases:
        tree["aliases"] = of.aliases
    return tree | of.properties


def _relative(name: AvroName, space: str) -> str:
    """Return the name as it can be used in a namespace."""
    is_near = name.space == space and bool(space) and name.name not in _KINDS
    return name.name if is_near else name.full


def to_normal_form(of: AvroType, known: set[str]) -> None:
    """Bring a type into the normal form of Confluent's registry.

    The form has sorted properties and aliases, and defaults as the type of the field holds them. A
    type without a namespace moves into the namespace around its definition.

    Args:
        known: the names of types that the text only names.

    Raises:
        MalformedDocument: a property or default has no normal form.
    """
    _normalize(of, "", known, set())


def _normalize(of: AvroType, space: str, known: set[str], seen: set[AvroType]) -> None:
    if of in seen or (isinstance(of, AvroNamed) and of.name.full in known):
        return
    seen.add(of)
    match of:
        case AvroUnion():
            for branch in of.branches:
                _normalize(branch, space, known, seen)
        case AvroCollection():
            _normalize(of.element, space, known, seen)
        case AvroNamed():
            of.doc = of.doc or None
            of.aliases.sort(key=lambda alias: utf16_order(of.alias_text(alias)))
            if not of.name.space:
                of.name = AvroName(of.name.name, space)
                of.aliases = [AvroName(each.name, each.space or space) for each in of.aliases]
    if isinstance(of, AvroRecord):
        of.is_error = False
        for each in of.fields:
            _normalize(each.type, of.name.space, known, seen)
            each.aliases.sort(key=utf16_order)
            held = [_held(default, each.type) for default in each.default]
            each.default = [default for default in held if default is not _NOTHING]
            each.properties = _held(each.properties, None)
    of.properties = _logical(of) | _held(of.properties, None)


def _logical(of: AvroType) -> dict[str, Any]:
    """Return the properties of a valid logical type, which come before the others."""
    if not _is_logical(of):
        return {}
    members = {"logicalType": of.properties["logicalType"]}
    if members["logicalType"] == "decimal":
        members["precision"] = of.properties["precision"]
        if of.properties.get("scale"):
            members["scale"] = of.properties["scale"]
    return members


def _is_logical(of: AvroType) -> bool:
    name = of.properties.get("logicalType")
    if not isinstance(name, str) or any(
        isinstance(of.properties.get(each), str) for each in _PROPERTIES_OF_JAVA
    ):
        return False
    size = of.size if isinstance(of, AvroFixed) else None
    if name == "decimal":
        return _is_decimal(of, size)
    is_sized = size is None or size == _SIZES_OF_LOGICAL_TYPES.get(name)
    return is_sized and of.kind in _BASES_OF_LOGICAL_TYPES.get(name, ())


def _is_decimal(of: AvroType, size: int | None) -> bool:
    precision, scale = of.properties.get("precision"), of.properties.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or of.kind not in ("bytes", "fixed"):
        return False
    most = _MAX_INT if size is None else math.floor(math.log10(2) * (8 * size - 1))
    return 0 < precision <= most and 0 <= scale <= precision


def _held(value: Any, of: AvroType | None) -> Any:
    """Return a value as a field of a type holds it, or nothing if the library loses it.

    The library takes a default for one of the first branch of a union. Without a type, the value
    stays what it is. The members of objects get sorted.
    """
    while isinstance(of, AvroUnion):
        if not of.branches:
            raise MalformedDocument("a default is one of a union without branches")
        of = of.branches[0]
    kind = of.kind if of else None
    match value:
        case bool() | None:
            return value
        case int():
            return _held_integer(value, kind)
        case float():
            if kind == "float":
                return JavaFloat(value)
            return value if kind in (None, "double") else _NOTHING
        case str():
            if kind in ("bytes", "fixed"):
                return value.encode("latin-1", "replace").decode("latin-1")
            return value if kind in (None, "string", "enum") else _NOTHING
        case list():
            return [_held_member(each, _element_type(of)) for each in value]
        case _:
            return {
                name: _held_member(value[name], _member_type(of, name))
                for name in sorted(value, key=utf16_order)
            }


def _held_integer(value: int, kind: str | None) -> Any:
    if not -(2**63) <= value < 2**63:
        return _NOTHING
    match kind:
        case "float":
            return JavaFloat(value)
        case "double":
            return float(value)
        case None | "int" | "long":
            return value
        case _:
            return _NOTHING


def _held_member(value: Any, of: AvroType | None) -> Any:
    if (held := _held(value, of)) is _NOTHING:
        raise MalformedDocument(f"a property or default cannot hold {excerpt(value)}")
    return held


def _element_type(of: AvroType | None) -> AvroType | None:
    match of:
        case None:
            return None
        case AvroCollection(kind="array"):
            return of.element
        case _:
            raise MalformedDocument(f"a default is a list, and its first type is {of.kind}")


def _member_type(of: AvroType | None, name: str) -> AvroType | None:
    match of:
        case AvroCollection(kind="map"):
            return of.element
        case AvroRecord():
            for each in of.fields:
                if each.name == name:
                    return each.type
            raise MalformedDocument(f"a default has a member {name} that {of.name.full} has not")
        case _:
            return None
