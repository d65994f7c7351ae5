"""The difference of two documents: by line, and by field of a schema. Pure.

Fields are read from Avro, JSON Schema, JSON Structure and Protobuf. A document tells by itself
which language it is in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, Literal

import orjson

from catalog.model.record import record

MOST_LINES = 1500
"""Of the lines between the common beginning and end of two documents."""
MOST_FIELDS = 2000
CONTEXT_LINES = 3
"""Equal lines that are shown before and after a change."""

_DEEPEST = 32
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PROTOBUF_TOKEN = re.compile(
    r"\b(?:message|enum|oneof|service)\s++(\w++)\s*+\{"
    r"|(?P<brace>[{}])"
    r"|(?<![\w.])(?P<type>(?:\w++\s++)?(?:map\s*+<[^<>;{}]{0,200}+>|[\w.]++))\s++(?P<name>\w++)\s*+=\s*+(?P<number>[0-9]++)"
    r"|\b(?P<value>[A-Za-z_]\w*+)\s*+=\s*+(?P<at>-?[0-9]++)\s*+[;\[]"
)

Sign = Literal["=", "-", "+"]


@record
class DifferenceLine:
    """A line that is equal, or in one document only, with its number there."""

    sign: Sign
    number: int
    text: str


@record
class FieldDifference:
    """A field with its type in the older and the newer document; `None` where it is missing."""

    path: str
    old: str | None
    new: str | None


def lines_between(older: bytes, newer: bytes) -> list[DifferenceLine] | None:
    """The lines that differ, with a few equal ones around; `None` if too many differ.

    JSON is compared in one layout, so that white space makes no difference.
    """
    before, after = _lines(older), _lines(newer)
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    # The time of the matcher grows with the square of the lines.
    if max(len(before), len(after)) - start - end > MOST_LINES:
        return None
    first = max(start - CONTEXT_LINES, 0)
    kept = max(end - CONTEXT_LINES, 0)
    before, after = before[first : len(before) - kept], after[first : len(after) - kept]
    matcher = SequenceMatcher(None, before, after)
    return [
        line
        for group in matcher.get_grouped_opcodes(CONTEXT_LINES)
        for operation in group
        for line in _changed(operation, before, after, first)
    ]


def _lines(document: bytes) -> list[str]:
    try:
        text = orjson.dumps(orjson.loads(document), option=orjson.OPT_INDENT_2).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        text = document.decode(errors="replace")
    return text.splitlines()


def _changed(
    operation: tuple[str, int, int, int, int],
    before: Sequence[str],
    after: Sequence[str],
    first: int,
) -> Iterator[DifferenceLine]:
    tag, i, i_end, j, j_end = operation
    if tag == "equal":
        for place in range(j, j_end):
            yield DifferenceLine(sign="=", number=first + place + 1, text=after[place])
        return
    for place in range(i, i_end):
        yield DifferenceLine(sign="-", number=first + place + 1, text=before[place])
    for place in range(j, j_end):
        yield DifferenceLine(sign="+", number=first + place + 1, text=after[place])


def fields_between(older: bytes, newer: bytes) -> list[FieldDifference] | None:
    """The fields that differ, by path; `None` if the documents have no fields."""
    before, after = _fields(older), _fields(newer)
    if not (before or after):
        return None
    return [
        FieldDifference(path=path, old=before.get(path), new=after.get(path))
        for path in dict.fromkeys([*before, *after])
        if before.get(path) != after.get(path)
    ]


def _fields(document: bytes) -> Mapping[str, str]:
    """The types of the fields of a schema, by path."""
    try:
        pairs = _in_json(orjson.loads(document), "", 0)
    except orjson.JSONDecodeError:
        pairs = _in_protobuf(document.decode(errors="replace"))
    return dict(islice(pairs, MOST_FIELDS))


def _in_json(schema: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEEPEST:
        return
    if isinstance(schema, list):
        for one in schema:
            yield from _in_json(one, path, depth + 1)
    if not isinstance(schema, dict):
        return
    fields, properties = schema.get("fields"), schema.get("properties")
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict) and isinstance(field.get("name"), str):
            below = _joined(path, field["name"])
            default = f" = {orjson.dumps(field['default']).decode()}" if "default" in field else ""
            yield below, f"{_avro_type(field.get('type'))}{default}"
            yield from _in_json(field.get("type"), below, depth + 1)
    required = schema.get("required")
    for name, one in properties.items() if isinstance(properties, dict) else ():
        below = _joined(path, name)
        is_required = isinstance(required, list) and name in required
        yield below, f"{_json_type(one)}{' (required)' if is_required else ''}"
        yield from _in_json(one, below, depth + 1)
    for name in ("items", "values"):
        yield from _in_json(schema.get(name), f"{path}[]" if path else path, depth + 1)
    if isinstance(schema.get("type"), dict | list):
        yield from _in_json(schema["type"], path, depth + 1)
    for name in ("allOf", "anyOf", "oneOf"):
        yield from _in_json(schema.get(name), path, depth + 1)
    for name in ("$defs", "definitions"):
        defined = schema.get(name)
        for key, one in defined.items() if isinstance(defined, dict) else ():
            yield from _in_json(one, _joined(path, f"#{key}"), depth + 1)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _avro_type(type: Any) -> str:
    """A type of Avro in short: `array<Order>`, `null | string`."""
    if isinstance(type, list):
        return " | ".join(map(_avro_type, type))
    if not isinstance(type, dict):
        return str(type)
    inner = type.get("items", type.get("values"))
    name, kind = type.get("name"), type.get("type")
    if inner is not None:
        return f"{kind}<{_avro_type(inner)}>"
    symbols = type.get("symbols")
    listed = f" {{{', '.join(map(str, symbols))}}}" if isinstance(symbols, list) else ""
    logical = f" ({type['logicalType']})" if "logicalType" in type else ""
    return f"{name or _avro_type(kind)}{listed}{logical}"


def _json_type(schema: Any) -> str:
    """What a JSON Schema says of a value, without what is below it."""
    if not isinstance(schema, dict):
        return orjson.dumps(schema).decode()
    below = ("properties", "items", "required", "description", "title", "examples", "$comment")
    said = {name: value for name, value in schema.items() if name not in below}
    if isinstance(said.get("type"), str) and len(said) == 1:
        return str(said["type"])
    return orjson.dumps(said, option=orjson.OPT_SORT_KEYS).decode() if said else "any"


def _in_protobuf(text: str) -> Iterator[tuple[str, str]]:
    within: list[str] = []
    for token in _PROTOBUF_TOKEN.finditer(_COMMENT.sub(" ", text)):
        if token[1]:
            within.append(token[1])
        elif token["brace"] == "{":
            within.append("")
        elif token["brace"] == "}":
            del within[-1:]
        elif token["name"] and within:
            path = ".".join([*filter(None, within), token["name"]])
            yield path, f"{' '.join(token['type'].split())} = {token['number']}"
        elif token["value"] and within:
            yield ".".join([*filter(None, within), token["value"]]), token["at"]
