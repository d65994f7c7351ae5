"""The names of fields and types in schema documents.

Avro, JSON Schema, JSON Structure, XSD and Protobuf are read. A document tells by itself which
language it is in, so that its names depend on nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import orjson

MOST_BYTES = 256 * 1024
"""The names of a larger document are not read."""
MOST_NAMES = 1000

_MOST_VALUES = 20_000
_NAMING = ("properties", "patternProperties", "$defs", "definitions", "choices")
# Possessive quantifiers never backtrack, so that the time grows with the length of the text only.
_PROTOBUF_NAME = re.compile(
    r"\b(?:message|enum|service|rpc|oneof)\s++(\w++)|\b([A-Za-z_]\w*+)\s*+=\s*+-?[0-9]"
)
_XML_NAME = re.compile(r"""\bname\s*+=\s*+["']([\w.:-]++)["']""")


def field_names(document: bytes) -> list[str]:
    """The names of the fields and types that a schema defines, each once, in their order."""
    if len(document) > MOST_BYTES:
        return []
    begin = document[:64].lstrip()[:1]
    if begin in (b"{", b"["):
        try:
            return names_in_json(orjson.loads(document))
        except orjson.JSONDecodeError:
            return []
    text = document.decode(errors="replace")
    if begin == b"<":
        return _first(match[1] for match in _XML_NAME.finditer(text))
    if b"message" in document or b"enum" in document:
        return _first(match[1] or match[2] for match in _PROTOBUF_NAME.finditer(text))
    return []


def names_in_json(schema: Any) -> list[str]:
    """The names in an Avro schema, a JSON Schema or a JSON Structure that has been parsed."""
    return _first(_names_in(schema))


def _names_in(schema: Any) -> Iterator[str]:
    waiting, values = [schema], 0
    while waiting and values < _MOST_VALUES:
        values += 1
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(reversed(value))
        elif isinstance(value, dict):
            for key in _NAMING:
                if isinstance(defined := value.get(key), dict):
                    yield from defined
            for key in ("name", "symbols"):
                named = value.get(key)
                yield from (one for one in _listed(named) if isinstance(one, str))
            waiting.extend(
                below for below in reversed(value.values()) if isinstance(below, dict | list)
            )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _first(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(islice(names, MOST_NAMES)))
