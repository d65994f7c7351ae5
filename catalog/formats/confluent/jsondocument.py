"""Reads and prints JSON as the Jackson of Confluent's provider of JSON Schema does."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

from catalog.formats.confluent.jacksontext import quoted, utf16_order
from catalog.formats.documenttext import MalformedDocument

MAX_DIGITS = 1000
"""The longest number that Jackson reads."""
MAX_SCALE = 2**31 - 1
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read(text: str) -> Any:
    """Parse JSON as Jackson does: text after the first value is ignored.

    Half of a surrogate pair becomes a question mark, as Java encodes it.

    Raises:
        MalformedDocument: the text is empty, or not JSON.
    """
    value = _parsed(text.encode("utf-8", "replace").decode())
    return _parsed(printed(value, in_order=False)) if _SURROGATE.search(text) else value


def _parsed(text: str) -> Any:
    text = text.lstrip(" \t\r\n")
    if not text:
        raise MalformedDocument("the document is empty")
    decoder = json.JSONDecoder(
        parse_float=_decimal, parse_int=_integer, parse_constant=lambda name: name
    )
    try:
        value, _ = decoder.raw_decode(text)
    except ValueError as error:
        raise MalformedDocument(f"it is not JSON: {error}") from error
    return value


def printed(value: Any, *, in_order: bool) -> str:
    """Return a value as minimal JSON, with the members of objects in the order of Java's strings.

    A number with a fraction or an exponent is printed as Java's BigDecimal.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case dict():
            names = sorted(value, key=utf16_order) if in_order else value
            members = (
                f"{quoted(name)}:{printed(value[name], in_order=in_order)}" for name in names
            )
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(printed(element, in_order=in_order) for element in value)}]"
        case _:
            return str(value)


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("a number has too many digits")
    return int(text)


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text[:MAX_DIGITS]} is out of range") from error
    exponent = number.as_tuple().exponent
    if len(text) > MAX_DIGITS or not isinstance(exponent, int) or abs(exponent) > MAX_SCALE:
        raise ValueError("a number is out of range")
    return number if number else number.copy_abs()
