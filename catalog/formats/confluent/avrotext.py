"""Writes Avro schemas as Confluent's registry stores them: in the form of Apache Avro for Java."""

from __future__ import annotations

import math
from typing import Any

from catalog.formats.confluent.avrotypes import (
    PRIMITIVES,
    AvroCollection,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroName,
    AvroNamed,
    AvroRecord,
    AvroType,
    AvroUnion,
)
from catalog.formats.confluent.jacksontext import JavaFloat, excerpt, printed, utf16_order
from catalog.formats.documenttext import MalformedDocument

_KINDS = PRIMITIVES | {"record", "enum", "array", "map", "union", "fixed"}
_BASES_OF_LOGICAL_TYPES = {
    "big-decimal": ("bytes",),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
    "date": ("int",),
    "time-millis": ("int",),
} | dict.fromkeys(
    (
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
    ),
    ("long",),
)
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


def normal(of: AvroType, known: set[str]) -> str:
    """Return the text of the normal form of a type, which `written` still has to write.

    The form has sorted members and aliases, and defaults as the type of the field holds them.

    Raises:
        MalformedDocument: a property or default has no normal form.
    """
    return printed(_normal_tree(of, set(known)))


def _normal_tree(of: AvroType, known: set[str]) -> Any:
    match of:
        case AvroUnion():
            return [_normal_tree(branch, known) for branch in of.branches]
        case AvroCollection():
            element = "items" if of.kind == "array" else "values"
            return {"type": of.kind, element: _normal_tree(of.element, known)} | _sorted(of)
        case AvroNamed():
            return _normal_named(of, known)
        case _ if of.properties:
            return {"type": of.kind} | _logical(of) | _sorted(of)
        case _:
            return of.kind


def _normal_named(of: AvroNamed, known: set[str]) -> Any:
    full = of.name.full
    if full in known:
        return full
    known.add(full)
    tree: dict[str, Any] = {"name": full, "type": of.kind}
    match of:
        case AvroRecord():
            tree["fields"] = [_normal_field(each, known) for each in of.fields]
        case AvroEnum():
            tree["symbols"] = of.symbols
            if of.default is not None:
                tree["default"] = of.default
        case AvroFixed():
            tree |= {"size": of.size} | _logical(of)
    if of.doc:
        tree["doc"] = of.doc
    if of.aliases:
        tree["aliases"] = sorted(map(of.alias_text, of.aliases), key=utf16_order)
    return tree | _sorted(of)


def _normal_field(of: AvroField, known: set[str]) -> dict[str, Any]:
    tree: dict[str, Any] = {"name": of.name, "type": _normal_tree(of.type, known)}
    tree["order"] = of.order
    if of.doc is not None:
        tree["doc"] = of.doc
    if of.aliases:
        tree["aliases"] = sorted(of.aliases, key=utf16_order)
    for default in of.default:
        if (held := _held(default, of.type)) is not _NOTHING:
            tree["default"] = held
    return tree | _sorted(of)


def _sorted(of: AvroType | AvroField) -> dict[str, Any]:
    return dict(_held(of.properties, None))


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
