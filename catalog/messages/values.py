"""Reads the values of properties by type, and compares values with the values of definitions.

Source: message/spec.md, "Property Definitions".
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from catalog.model.scalars import SCALAR_CHECKS
from catalog.model.timestamps import parse_time

TEXTUAL = frozenset({"string", "symbol", "uri", "uritemplate"})

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_SYMBOL = re.compile(r"\w+", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,20}", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_NUMBERED = r"(?:\d{1,18}(?:[.,]\d{1,18})?)"
_DURATION = re.compile(
    rf"P(?=.)(?:{_NUMBERED}W|(?:{_NUMBERED}Y)?(?:{_NUMBERED}M)?(?:{_NUMBERED}D)?"
    rf"(?:T(?=\d)(?:{_NUMBERED}H)?(?:{_NUMBERED}M)?(?:{_NUMBERED}S)?)?)",
    re.ASCII,
)
# Placeholders of the current time: message/spec.md, "value", has the year 0, .NET the year 1, and
# the Message Catalog draft writes the year last.
_NOW = ("0000-01-01T00:00:00", "0001-01-01T00:00:00", "01-01-0000T00:00:00")
_BOOLEANS = {"true": True, "false": False}


def read(type: str, value: Any, *, is_text: bool) -> Any:
    """Read the value of a property by the type.

    Args:
        type: the type; an unknown type admits every value.
        value: the value in the message.
        is_text: whether the message carries values of every type as text.

    Raises:
        ValueError: the value is not of the type; the text names the requirement.
    """
    reader = _READERS.get(_ALIASES.get(type, type))
    if reader is None:
        return value
    if is_text and type not in TEXTUAL and isinstance(value, str):
        value = _from_text(type, value)
    return reader(value)


def is_known(type: str) -> bool:
    """Whether values of a type are checked."""
    return _ALIASES.get(type, type) in _READERS


def is_same(type: str, wanted: Any, found: Any) -> bool:
    """Whether a value from `read` equals the value of the definition."""
    try:
        return bool(read(type, wanted, is_text=True) == found)
    except ValueError:
        return bool(wanted == found)


def is_now(type: str, value: Any) -> bool:
    """Whether a definition's value is the placeholder for the time of a message."""
    is_time = _ALIASES.get(type, type) == "timestamp"
    return is_time and isinstance(value, str) and value.startswith(_NOW)


def media_type_fits(wanted: str, found: str) -> bool:
    """Whether a media type is the wanted type, and has at least the wanted parameters.

    Source: message/spec.md, "datacontenttype": types and names of parameters are
    case-insensitive.
    """
    wanted_type, wanted_parameters = _media_type(wanted)
    found_type, found_parameters = _media_type(found)
    return wanted_type == found_type and wanted_parameters.items() <= found_parameters.items()


def _media_type(text: str) -> tuple[str, dict[str, str]]:
    type, *parameters = text.split(";")
    pairs = (parameter.partition("=") for parameter in parameters if parameter.strip())
    # The values of charset, the usual parameter, are case-insensitive, too.
    values = {name.strip().lower(): value.strip().strip('"').lower() for name, _, value in pairs}
    return type.strip().lower(), values


def _from_text(type: str, text: str) -> Any:
    """Convert text to a value of a type; return the text itself if the conversion fails."""
    match type:
        case "integer" | "ulong" | "number":
            if _INTEGER.fullmatch(text):
                return int(text)
            return _float(text) if type == "number" else text
        case "boolean":
            return _BOOLEANS.get(text, text)
        case _:
            return text


def _float(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it must be a string")
    return value


def _symbol(value: Any) -> str:
    if not _SYMBOL.fullmatch(_string(value)):
        raise ValueError("it must consist of letters, digits and underscores")
    return str(value)


def _uri(value: Any) -> str:
    text = str(SCALAR_CHECKS["uri"](value))
    if not _SCHEME.match(text):
        raise ValueError("it must be an absolute URI")
    return text


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("it must be an integer")
    return value


def _unsigned(value: Any) -> int:
    if not 0 <= _integer(value) < 2**64:
        raise ValueError("it must be an integer from 0 to 2^64-1")
    return int(value)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not _is_finite(value):
        raise ValueError("it must be a number")
    return value


def _is_finite(value: int | float) -> bool:
    return isinstance(value, int) or math.isfinite(value)


def _timestamp(value: Any) -> datetime:
    text = _string(value)
    time = parse_time(text)
    if not text.upper().endswith("Z") and text[-6] not in "+-":
        raise ValueError("it needs to end with its offset from UTC")
    return time


def _binary(value: Any) -> bytes:
    try:
        return base64.b64decode(_string(value), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("it must be base64 text") from error


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not pattern.fullmatch(_string(value)):
            raise ValueError(f"it must be {what}")
        return str(value)

    return check


_ALIASES = {"datetime": "timestamp", "uri-reference": "urireference"}
_READERS: dict[str, Callable[[Any], Any]] = {
    "binary": _binary,
    "boolean": SCALAR_CHECKS["boolean"],
    "duration": _matching(_DURATION, "a duration, such as PT1H30M"),
    "integer": _integer,
    "number": _number,
    "string": _string,
    "symbol": _symbol,
    "timestamp": _timestamp,
    "ulong": _unsigned,
    "uri": _uri,
    "urireference": SCALAR_CHECKS["uri"],
    "uritemplate": _string,
    "uuid": _matching(_UUID, "a UUID"),
}
