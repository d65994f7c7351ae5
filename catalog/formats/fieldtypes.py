"""The fields of a schema with their types, as people read and compare them. Pure.

Avro, JSON Schema, JSON Structure and Protobuf are read. A document tells by itself which language
it is in. No check depends on the fields: a document that cannot be read has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

MOST_FIELDS = 2000
_DEEPEST = 32
# A type is told with every type around it: the bound keeps the time near the size of the document.
_DEEPEST_TYPE = 8
_LONGEST_DOC = 500
# Keywords that the fields below a type repeat, or that no comparison needs.
_APART = frozenset(
    {"properties", "items", "values", "required", "description", "title", "examples", "$comment"}
    | {"$defs", "definitions", "type", "format", "anyOf", "oneOf", "allOf"}
)
_ALTERNATIVES = {"anyOf": " | ", "oneOf": " | ", "allOf": " & "}
# One of these makes an object in the definitions of JSON Structure a type, and no namespace.
_OF_TYPES = frozenset({"type", "properties", "items", "$ref", "$extends", "not", *_ALTERNATIVES})
# The quantifiers give nothing back, and what is not closed ends with the text, so that the time is
# linear in the length of the text, whatever it contains.
_PROTOBUF = re.compile(
    r"//(?P<line>[^\n]*+)|/\*(?P<block>(?:[^*]|\*(?!/))*+)(?:\*/|\Z)"
    r"|\b(?P<kind>message|enum|oneof|service)\s++(?P<named>\w++)\s*+{"
    r"|(?<![\w.])(?P<type>(?:(?:repeated|optional|required)\s++)?"
    r"(?:map\s*+<[\w\s.,]{1,300}+>|[\w.]++))\s++(?P<field>\w++)\s*+=\s*+(?P<number>\d++)"
    r"|\b(?P<value>[A-Za-z_]\w*+)\s*+=\s*+(?P<at>-?\d++)\s*+[;\[]"
    r"|(?P<brace>[{}])|\"(?:[^\"\\\n]|\\.)*+(?:\"|(?=\n)|\Z)"
)


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field or a definition of a schema.

    Args:
        path: the names from the root, such as `("lines[]", "sku")`; of the fields of a definition,
            the first name is that of the definition, such as `#Line`.
        type: the type of the values in words; the fields below state the types of members.
        doc: the description of the field for people.
    """

    path: tuple[str, ...]
    type: str
    doc: str = ""
    is_required: bool = False

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def depth(self) -> int:
        """The number of fields around the field."""
        return len(self.path) - 1


def fields_of(document: bytes) -> list[SchemaField]:
    """The first 2,000 fields of a schema, parents before their members."""
    try:
        found = _in_json(orjson.loads(document), (), 0)
    except orjson.JSONDecodeError:
        found = _in_protobuf(document.decode(errors="replace"))
    return list(islice(found, MOST_FIELDS))


def _in_json(schema: Any, path: tuple[str, ...], depth: int) -> Iterator[SchemaField]:
    if depth > _DEEPEST:
        return
    if isinstance(schema, list):
        for one in schema:
            yield from _in_json(one, path, depth + 1)
    if not isinstance(schema, dict):
        return
    fields = schema.get("fields")
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict) and isinstance(field.get("name"), str):
            below = (*path, field["name"])
            default = f" = {_json(field['default'])}" if "default" in field else ""
            yield SchemaField(below, f"{_avro_type(field.get('type'))}{default}", _doc(field))
            yield from _in_json(field.get("type"), below, depth + 1)
    required = schema.get("required")
    for name, one in _members(schema, "properties"):
        is_required = isinstance(required, list) and name in required
        yield SchemaField((*path, name), _json_type(one), _doc(one), is_required)
        yield from _in_json(one, (*path, name), depth + 1)
    item = (*path[:-1], f"{path[-1]}[]") if path else path
    for name in ("items", "values"):
        yield from _in_json(schema.get(name), item, depth + 1)
    if isinstance(schema.get("type"), dict | list):
        yield from _in_json(schema["type"], path, depth + 1)
    for name in _ALTERNATIVES:
        yield from _in_json(schema.get(name), path, depth + 1)
    for name in ("$defs", "definitions"):
        for key, one in _members(schema, name):
            yield from _definition(one, (*path, f"#{key}"), depth + 1)


def _definition(found: Any, path: tuple[str, ...], depth: int) -> Iterator[SchemaField]:
    """A definition with its fields, or the definitions of a namespace of JSON Structure."""
    is_namespace = isinstance(found, dict) and not found.keys() & _OF_TYPES
    if is_namespace and all(isinstance(each, dict) for each in found.values()):
        for name, one in found.items() if depth <= _DEEPEST else ():
            yield from _definition(one, (*path, name), depth + 1)
        return
    yield SchemaField(path, _json_type(found), _doc(found))
    yield from _in_json(found, path, depth)


def _members(schema: Mapping[str, Any], name: str) -> Iterator[tuple[str, Any]]:
    found = schema.get(name)
    yield from found.items() if isinstance(found, dict) else ()


def _doc(schema: Any) -> str:
    about = schema if isinstance(schema, dict) else {}
    found = about.get("doc", about.get("description"))
    return found[:_LONGEST_DOC] if isinstance(found, str) else ""


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError:
        return "…"  # It is nested too deeply.


def _avro_type(type: Any, depth: int = 0) -> str:
    """A type of Avro in short: `array<Order>`, `null | string`."""
    if depth > _DEEPEST_TYPE:
        return "…"
    if isinstance(type, list):
        return " | ".join(_avro_type(each, depth + 1) for each in type)
    if not isinstance(type, dict):
        return str(type)
    inner = type.get("items", type.get("values"))
    name, kind = type.get("name"), type.get("type")
    if inner is not None:
        return f"{kind}<{_avro_type(inner, depth + 1)}>"
    symbols = type.get("symbols")
    listed = f" {{{', '.join(map(str, symbols))}}}" if isinstance(symbols, list) else ""
    logical = f" ({type['logicalType']})" if "logicalType" in type else ""
    return f"{name or _avro_type(kind, depth + 1)}{listed}{logical}"


def _json_type(schema: Any, depth: int = 0) -> str:
    """What a JSON Schema says of a value: `string (uuid)`, `array<#Line>`, `integer, minimum: 0`.

    The names of definitions are those of their fields: `#Line` is `#/$defs/Line`.
    """
    if depth > _DEEPEST_TYPE:
        return "…"
    if not isinstance(schema, dict):
        return schema if depth and isinstance(schema, str) else _json(schema)
    parts = [_kind(schema, depth)]
    for name, sign in _ALTERNATIVES.items():
        if isinstance(listed := schema.get(name), list):
            parts.append(sign.join(_json_type(each, depth + 1) for each in listed))
    reference = schema.get("$ref")
    if isinstance(reference, str):
        parts.append(re.sub(r"^#/(\$defs|definitions)/", "#", reference))
    shown = " & ".join(filter(None, parts)) or "any"
    inner = schema.get("items", schema.get("values"))
    if isinstance(inner, dict):
        shown += f"<{_json_type(inner, depth + 1)}>"
    if "format" in schema:
        shown += f" ({schema['format']})"
    further = sorted(schema.keys() - _APART - {"$ref"})
    return ", ".join([shown, *(f"{name}: {_json(schema[name])}" for name in further)])


def _kind(schema: Mapping[str, Any], depth: int) -> str:
    match schema.get("type"):
        case None:
            return ""
        case list() as kinds:
            return " | ".join(_json_type(each, depth + 1) for each in kinds)
        case kind:
            return _json_type(kind, depth + 1)


def _in_protobuf(text: str) -> Iterator[SchemaField]:
    """The messages and enumerations of a file with their fields and values.

    A comment belongs to the name after the comment.
    """
    # A brace that opens no named block, as of options, has an empty name.
    within: list[str] = []
    doc = ""
    for token in _PROTOBUF.finditer(text):
        if (comment := token["line"] or token["block"]) is not None:
            doc = re.sub(r"\s*\n\s*\*?\s*", " ", comment).strip()[:_LONGEST_DOC]
            continue
        around = tuple(filter(None, within))
        if token["named"]:
            yield SchemaField((*around, token["named"]), token["kind"], doc)
            within.append(token["named"])
        elif token["brace"] == "{":
            within.append("")
        elif token["brace"] == "}":
            del within[-1:]
        elif token["field"] and within:
            type = " ".join(token["type"].split())
            yield SchemaField((*around, token["field"]), f"{type} = {token['number']}", doc)
        elif token["value"] and within:
            yield SchemaField((*around, token["value"]), token["at"], doc)
        doc = ""
