"""Reads Avro schemas by the rules of Apache Avro's Java library, version 1.12.1.

Confluent's registry uses this library, and the libraries for Python differ from it: it admits types
that are defined after their use, and a second definition of a type that equals the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeVar

from catalog.formats.confluent import avroschema
from catalog.formats.confluent.jackson import excerpt, read
from catalog.formats.confluent.questions import bounded
from catalog.formats.documenttext import MalformedDocument

_TYPE_RESERVED = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_ENUM_RESERVED = _TYPE_RESERVED | {"default"}
_FIELD_RESERVED = frozenset(("default", "doc", "name", "order", "type", "aliases"))
_ORDERS = ("ascending", "descending", "ignore")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_FIXED_SIZE = 2**31 - 9
_JAVA_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)", re.A)


_Named = TypeVar("_Named", bound=avroschema.AvroNamed)


class AvroParser:
    """Parses schemas; a later one can use the named types of the earlier ones.

    New schemas must keep rules that older ones did not have to: their namespaces and the names of
    aliases are checked, and their default values have the types of their fields.
    """

    def __init__(self, *, is_new: bool) -> None:
        self._is_new = is_new
        self._types: dict[str, avroschema.AvroNamed] = {}
        self._added: dict[str, avroschema.AvroNamed] = {}

    def parse(self, text: str) -> avroschema.AvroType:
        """Return the type that a text describes.

        Raises:
            MalformedDocument: it is no valid schema, or is nested too deep.
        """
        with bounded():
            root = self._type(read(text), "")
            self._types |= self._added
            self._added.clear()
            seen: dict[avroschema.AvroType, None] = {}
            for named in self._types.values():
                self._resolve(named, seen)
            if isinstance(root, avroschema.AvroNamed):
                root = self._types[root.name.full]
            root = self._resolve(root, seen)
            for each in seen if self._is_new else ():
                if isinstance(each, avroschema.AvroRecord):
                    _check_defaults(each)
            return root

    def _type(self, node: Any, space: str) -> avroschema.AvroType:
        match node:
            case str():
                return self._find(node, space)
            case dict():
                return self._described(node, space)
            case list():
                return avroschema.AvroUnion(branches=[self._type(branch, space) for branch in node])
            case _:
                raise MalformedDocument(f"it is no type: {excerpt(node)}")

    def _find(self, name: str, space: str) -> avroschema.AvroType:
        if name in avroschema.PRIMITIVES:
            return avroschema.AvroType(kind=name)
        full = f"{space}.{name}" if space and "." not in name else name
        for known in (full, name):
            if found := self._types.get(known) or self._added.get(known):
                return found
        return avroschema.AvroForward(full=full)

    def _described(self, node: dict[str, Any], space: str) -> avroschema.AvroType:
        kind = _required(node, "type", str)
        if kind in avroschema.PRIMITIVES:
            return avroschema.AvroType(kind=kind, properties=_properties(node, _TYPE_RESERVED))
        match kind:
            case "record" | "error":
                return self._define(self._record(node, space))
            case "enum":
                return self._define(_enum(node, space))
            case "fixed":
                return self._define(_fixed(node, space))
            case "array" | "map":
                element = _required(node, "items" if kind == "array" else "values")
                return avroschema.AvroCollection(
                    kind=kind,
                    element=self._type(element, space),
                    properties=_properties(node, _TYPE_RESERVED),
                )
            case _:
                return self._find(kind, space)

    def _record(self, node: dict[str, Any], space: str) -> avroschema.AvroRecord:
        name = _type_name(node, space)
        fields = [self._field(member, name.space) for member in _required(node, "fields", list)]
        _refuse_repetition((each.name for each in fields), f"field of {name.full}")
        named = _named(node, name, _TYPE_RESERVED)
        return avroschema.AvroRecord(**named, fields=fields, is_error=node["type"] == "error")

    def _field(self, node: Any, space: str) -> avroschema.AvroField:
        name = _valid_name(_required(node, "name", str))
        of = self._type(_required(node, "type"), space)
        default = [node["default"]] if "default" in node else []
        if of.kind in ("float", "double"):
            default = [_java_double(each) if isinstance(each, str) else each for each in default]
        return avroschema.AvroField(
            name=name,
            type=of,
            doc=_text(node, "doc"),
            default=default,
            order=_order(node),
            aliases=_aliases(node),
            properties=_properties(node, _FIELD_RESERVED),
        )

    def _define(self, named: _Named) -> _Named:
        full = named.name.full
        if full in avroschema.PRIMITIVES:
            raise MalformedDocument(f"a type cannot have the name of the primitive type {full}")
        if self._is_new:
            parts = named.name.space.split(".") if named.name.space else []
            for part in (*parts, *(each.name for each in named.aliases)):
                _valid_name(part)
        known = self._types.get(full) or self._added.setdefault(full, named)
        if not _is_equal(known, named, set()):
            raise MalformedDocument(f"the type {full} is defined twice")
        return named

    def _resolve(
        self, of: avroschema.AvroType, seen: dict[avroschema.AvroType, None]
    ) -> avroschema.AvroType:
        """Replace the uses of types that were defined later."""
        match of:
            case avroschema.AvroForward():
                if not (later := self._types.get(of.full)):
                    raise MalformedDocument(f"the type {of.full} is not defined")
                return self._resolve(later, seen)
            case avroschema.AvroUnion():
                of.branches = [self._resolve(branch, seen) for branch in of.branches]
                _check_union(of)
            case avroschema.AvroCollection():
                of.element = self._resolve(of.element, seen)
                _refuse_large_numbers(of.properties)
            case avroschema.AvroRecord() if of not in seen:
                seen[of] = None
                for each in of.fields:
                    each.type = self._resolve(each.type, seen)
                _refuse_large_numbers(of.properties)
        return of


def _check_defaults(of: avroschema.AvroRecord) -> None:
    for each in of.fields:
        for default in each.default:
            if not _is_value(each.type, default, of):
                reason = f"the default {excerpt(default)} of the field {each.name} has not its type"
                raise MalformedDocument(reason)


def _is_value(of: avroschema.AvroType, value: Any, within: avroschema.AvroRecord) -> bool:
    """Whether a default of a field within a record is of a type."""
    match of:
        case avroschema.AvroUnion():
            return any(_is_value(branch, value, within) for branch in of.branches)
        case avroschema.AvroCollection(kind="array"):
            return isinstance(value, list) and all(
                _is_value(of.element, each, within) for each in value
            )
        case avroschema.AvroCollection():
            return isinstance(value, dict) and all(
                _is_value(of.element, each, within) for each in value.values()
            )
        case avroschema.AvroRecord():
            if of is within:
                reason = f"a default of {of.name.full} within {of.name.full} itself is not checked"
                raise MalformedDocument(reason)
            return isinstance(value, dict) and all(
                _is_value(each.type, value[each.name], within)
                if each.name in value
                else each.default
                for each in of.fields
            )
        case _:
            return _is_simple_value(of.kind, value)


def _enum(node: dict[str, Any], space: str) -> avroschema.AvroEnum:
    name = _type_name(node, space)
    symbols = [_valid_name(symbol) for symbol in _required(node, "symbols", list)]
    _refuse_repetition(symbols, f"symbol of {name.full}")
    default = _text(node, "default")
    if default is not None and default not in symbols:
        raise MalformedDocument(f"the default {default} is no symbol of {name.full}")
    named = _named(node, name, _ENUM_RESERVED)
    return avroschema.AvroEnum(**named, symbols=symbols, default=default)


def _fixed(node: dict[str, Any], space: str) -> avroschema.AvroFixed:
    name = _type_name(node, space)
    size = node.get("size")
    if type(size) is not int or not 0 <= size <= _MAX_FIXED_SIZE:
        raise MalformedDocument(f"{name.full} has no size, or none from 0 to {_MAX_FIXED_SIZE}")
    return avroschema.AvroFixed(**_named(node, name, _TYPE_RESERVED), size=size)


def _named(
    node: dict[str, Any], name: avroschema.AvroName, reserved: frozenset[str]
) -> dict[str, Any]:
    """The attributes that every named type has."""
    aliases = dict.fromkeys(_qualified(alias, name.space) for alias in _aliases(node))
    return {
        "name": name,
        "doc": _text(node, "doc"),
        "aliases": [*aliases],
        "properties": _properties(node, reserved),
    }


def _is_simple_value(kind: str, value: Any) -> bool:
    match kind:
        case "string" | "bytes" | "enum" | "fixed":
            return isinstance(value, str)
        case "int":
            return type(value) is int and -(2**31) <= value < 2**31
        case "long":
            return type(value) is int and -(2**63) <= value < 2**63
        case "float" | "double":
            return type(value) in (int, float)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return value is None


# What tells two types or fields apart: not documentation, aliases, or defaults of enumerations.
_COMPARED: Mapping[type, tuple[str, ...]] = {
    avroschema.AvroType: ("kind", "properties"),
    avroschema.AvroUnion: ("branches", "properties"),
    avroschema.AvroCollection: ("kind", "element", "properties"),
    avroschema.AvroRecord: ("name", "fields", "properties"),
    avroschema.AvroField: ("name", "order", "default", "type", "properties"),
    avroschema.AvroEnum: ("name", "symbols", "properties"),
    avroschema.AvroFixed: ("name", "size", "properties"),
}


def _is_equal(one: Any, other: Any, compared: set[tuple[int, int]]) -> bool:
    match one:
        case avroschema.AvroType() | avroschema.AvroField():
            if one is other or (id(one), id(other)) in compared:
                return True
            compared.add((id(one), id(other)))
            # A type that is used before its definition equals no other type.
            if type(one) is not type(other) or isinstance(one, avroschema.AvroForward):
                return False
            return all(
                _is_equal(getattr(one, name), getattr(other, name), compared)
                for name in _COMPARED[type(one)]
            )
        case list():
            return len(one) == len(other) and all(
                _is_equal(*pair, compared) for pair in zip(one, other, strict=True)
            )
        case avroschema.AvroName():
            return bool(one == other)
        case _:
            return _is_same(one, other)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal in Java, where 1, 1.0 and true are not."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _check_union(of: avroschema.AvroUnion) -> None:
    if any(isinstance(branch, avroschema.AvroUnion) for branch in of.branches):
        raise MalformedDocument("a union has a union as a branch")
    _refuse_repetition(map(avroschema.full_name, of.branches), "branch of a union")


def _refuse_large_numbers(value: Any) -> None:
    """Refuse what Java's library cannot copy; it copies records, arrays and maps."""
    match value:
        case dict():
            _refuse_large_numbers(list(value.values()))
        case list():
            for each in value:
                _refuse_large_numbers(each)
        case int() if not -(2**63) <= value < 2**63:
            raise MalformedDocument(f"a property has a number of more than 64 bits: {value}")


def _refuse_repetition(names: Iterable[str], what: str) -> None:
    for one, other in pairwise(sorted(names)):
        if one == other:
            raise MalformedDocument(f"{one} is more than once a {what}")


def _type_name(node: dict[str, Any], space: str) -> avroschema.AvroName:
    own = _text(node, "namespace")
    name = _qualified(_required(node, "name", str), space if own is None else own)
    _valid_name(name.name)
    return name


def _qualified(name: str, space: str) -> avroschema.AvroName:
    if "." in name:
        space, _, name = name.rpartition(".")
    return avroschema.AvroName(name, space)


def _valid_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MalformedDocument(f"a name consists of letters, digits and _, unlike {excerpt(name)}")
    return name


def _aliases(node: dict[str, Any]) -> list[str]:
    aliases = node.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise MalformedDocument(f"aliases are no list of texts: {excerpt(aliases)}")
    return list(dict.fromkeys(aliases))


def _order(node: dict[str, Any]) -> str:
    order = node.get("order", "ascending")
    # Java's library compares in upper case, in which a dotless i is an I.
    for known in _ORDERS:
        if isinstance(order, str) and order.upper() == known.upper():
            return known
    raise MalformedDocument(f"the order of a field is {excerpt(order)}")


def _java_double(text: str) -> float:
    if not _JAVA_DOUBLE.fullmatch(number := text.strip()):
        raise MalformedDocument(f"the default of a number is {excerpt(text)}")
    return float(number.rstrip("fFdD"))


def _properties(node: dict[str, Any], reserved: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name not in reserved}


def _text(node: dict[str, Any], member: str) -> str | None:
    value = node.get(member)
    return value if isinstance(value, str) else None


def _required(node: Any, member: str, kind: type = object) -> Any:
    if not isinstance(node, dict) or member not in node:
        raise MalformedDocument(f"{excerpt(node)} has no member {member}")
    if not isinstance(value := node[member], kind):
        needed = "list" if kind is list else "text"
        raise MalformedDocument(f"the member {member} is no {needed}: {excerpt(value)}")
    return value
