"""Reads and prints JSON as Jackson does, whose output Confluent stores and hashes.

Objects keep the order of their members, and integers have no bounds. A number with a fraction or an
exponent is a double of Java in Avro schemas, and a BigDecimal in JSON schemas.
"""

from __future__ import annotations

import json
import math
import re
import struct
from decimal import Decimal, InvalidOperation
from itertools import count
from typing import Any

from catalog.formats.documenttext import MalformedDocument

# A string and a comment end with the text at the latest, so that no part of it is read twice.
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*+"?+|//[^\r\n]*+|/\*.*?(?:\*/|\Z)', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_EXCERPT = 100
MAX_DIGITS = 1000
"""The longest number that Jackson reads."""
MAX_SCALE = 2**31 - 1
_ESCAPED = re.compile(r'["\\\x00-\x1f]')


class JavaFloat(float):
    """A float of 32 bits, whose digits differ from those of a double."""

    __slots__ = ()

    def __new__(cls, value: float | str) -> JavaFloat:
        number = float(value)
        try:
            (rounded,) = struct.unpack("f", struct.pack("f", number))
        except OverflowError:
            rounded = math.copysign(math.inf, number)
        return super().__new__(cls, rounded)


def read(text: str) -> Any:
    """Parse JSON that may have comments.

    Raises:
        MalformedDocument: it is empty, not JSON, or nested too deep.
    """
    try:
        return json.loads(
            _STRING_OR_COMMENT.sub(_without_comment, text), parse_constant=_refuse_constant
        )
    except ValueError as error:
        raise MalformedDocument(f"it is not JSON: {error}") from error


def read_schema(text: str) -> Any:
    """Parse a JSON schema: text after the first value is ignored.

    Half of a surrogate pair becomes a question mark, as Java encodes it.

    Raises:
        MalformedDocument: the text is empty, or not JSON.
    """
    value = _parsed(text.encode("utf-8", "replace").decode())
    return _parsed(printed(value)) if _SURROGATE.search(text) else value


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


def printed(value: Any, *, in_order: bool = False) -> str:
    """Return a value as minimal JSON; `in_order` sorts the members of objects as Java's strings."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case float():
            return java_number(value)
        case str():
            return quoted(value)
        case dict():
            names = sorted(value, key=utf16_order) if in_order else value
            members = (
                f"{quoted(name)}:{printed(value[name], in_order=in_order)}" for name in names
            )
            return f"{{{','.join(members)}}}"
        case _:
            return f"[{','.join(printed(each, in_order=in_order) for each in value)}]"


def excerpt(value: Any) -> str:
    """Return the beginning of a value as minimal JSON, for a message."""
    text = printed(value)
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"


def quoted(text: str) -> str:
    """Return a text as a JSON string; half of a surrogate pair becomes a question mark."""
    escaped = _ESCAPED.sub(lambda found: _escape(found[0]), text)
    return f'"{escaped.encode("utf-8", "replace").decode()}"'


def java_number(value: float) -> str:
    """Return the fewest digits that tell a number from its neighbours, but two at least.

    Numbers that JSON has no form for are strings.
    """
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if not value:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    kind: type[float] = JavaFloat if isinstance(value, JavaFloat) else float
    shortest = next(
        text for length in count(1) if kind(text := f"{float(value):.{length}e}") == value
    )
    mantissa, _, power = shortest.partition("e")
    exponent = int(power)
    if not -3 <= exponent < 7:
        return f"{mantissa}E{exponent}"
    sign, digits = "-" * (value < 0), mantissa.lstrip("-").replace(".", "")
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits.rstrip('0')}"
    digits = digits.ljust(exponent + 2, "0")
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :].rstrip('0') or '0'}"


def utf16_order(text: str) -> bytes:
    """Return the key by which Java sorts strings."""
    return text.encode("utf-16-be", "surrogatepass")


def _without_comment(found: re.Match[str]) -> str:
    part = found[0]
    if part.startswith("//") or (part.startswith("/*") and part.endswith("*/") and len(part) > 3):
        return " "
    return part


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _escape(character: str) -> str:
    short = json.dumps(character)[1:-1]
    return short if len(short) == 2 else f"\\u{ord(character):04X}"


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
