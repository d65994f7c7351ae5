"""Reads the values of properties by type, and compares values with the values of definitions.

The value of a definition may be a URI template, in which a placeholder matches every text.
Libraries expand templates, but no library matches a text against a template in bounded time.
Sources: message/spec.md, "Property Definitions" and "value"; RFC 6570.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
_EXPRESSION = re.compile(r"\{([+#./;?&=,!@|]?)([^{}]*)\}")
_NAME = re.compile(r"(?:\w|%[0-9A-Fa-f]{2})(?:[\w.]|%[0-9A-Fa-f]{2})*", re.ASCII)
_MODIFIED = re.compile(rf"{_NAME.pattern}(?:\*|:[1-9]\d{{0,3}})?", re.ASCII)


def read(type: str, value: Any, *, is_text: bool) -> Any:
    """Read the value of a property by the type; an unknown type admits every value.

    Args:
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

    Source: message/spec.md, "datacontenttype".
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
        case "integer" | "ulong" | "number" if _INTEGER.fullmatch(text):
            return int(text)
        case "number":
            try:
                return float(text)
            except ValueError:
                return text
        case "boolean":
            return _BOOLEANS.get(text, text)
        case _:
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
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not -math.inf < value < math.inf
    ):
        raise ValueError("it must be a number")
    return value


def _timestamp(value: Any) -> datetime:
    text = _string(value)
    time = parse_time(text)
    if not text.upper().endswith("Z") and text[-6] not in "+-":
        raise ValueError("it needs to end with its offset from UTC")
    return time


def _binary(value: Any) -> bytes:
    try:
        return base64.b64decode(_string(value), validate=True)
    except ValueError as error:
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


@dataclass(frozen=True, slots=True)
class Gap:
    """The place of an expression in a template; gaps with the same name have equal texts.

    The text of a simple expression has at least one character, because an empty text is no value.
    Gaps for expressions of the higher levels of RFC 6570 have no name, and may be empty.
    """

    name: str = ""

    @property
    def least(self) -> int:
        return 1 if self.name else 0


Part = str | Gap


@dataclass(frozen=True, slots=True)
class Template:
    """Literal texts and gaps in turn; braces without a valid expression inside are literal text."""

    text: str
    parts: tuple[Part, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        parts: list[Part] = []
        end = 0
        for found in _EXPRESSION.finditer(text):
            if (gap := _gap(found[1], found[2])) is not None:
                parts += [text[end : found.start()], gap]
                end = found.end()
        return cls(text, tuple(part for part in (*parts, text[end:]) if part != ""))

    @property
    def names(self) -> list[str]:
        """The names of the placeholders, as often as each occurs."""
        return [part.name for part in self.parts if isinstance(part, Gap) and part.name]

    @property
    def is_constant(self) -> bool:
        return all(isinstance(part, str) for part in self.parts)

    def fits(self, text: str) -> bool:
        """Whether a text matches, without a comparison of the texts of equal placeholders."""
        return _starts(self.parts, text) is not None

    def texts(self, text: str) -> dict[str, str]:
        """The texts of the placeholders for which a matching text leaves no choice, by name.

        The leftmost match gives the least place of each part, and the rightmost match the largest
        place: a gap whose places are equal in both has one possible text.
        """
        mirrored = [p[::-1] if isinstance(p, str) else p for p in reversed(self.parts)]
        least, most = _starts(self.parts, text), _starts(mirrored, text[::-1])
        if least is None or most is None:
            return {}
        bounds = [*least, len(text)], [0, *(len(text) - start for start in reversed(most))]
        return {
            part.name: text[least[place] : bounds[0][place + 1]]
            for place, part in enumerate(self.parts)
            if isinstance(part, Gap) and part.name
            if all(bounds[0][end] == bounds[1][end] for end in (place, place + 1))
        }

    def bound(self, texts: Mapping[str, str]) -> Template:
        """The template with the given texts in place of placeholders."""
        parts: list[Part] = []
        for part in self.parts:
            bound = texts.get(part.name, part) if isinstance(part, Gap) else part
            if isinstance(bound, str) and parts and isinstance(last := parts[-1], str):
                parts[-1] = last + bound
            else:
                parts.append(bound)
        return Template(self.text, tuple(parts))


def _gap(operator: str, variables: str) -> Gap | None:
    if operator in ("", "+") and _NAME.fullmatch(variables):
        return Gap(variables)
    is_expression = all(_MODIFIED.fullmatch(name) for name in variables.split(","))
    return Gap() if is_expression else None


def _starts(parts: Sequence[Part], text: str) -> list[int] | None:
    """The start of each part in the leftmost match of a text; `None` if the text does not match.

    A literal is matched at the first occurrence, from the left, in one pass without backtracking.
    """
    starts: list[int] = []
    at, is_open = 0, False
    for place, part in enumerate(parts):
        if isinstance(part, Gap):
            starts.append(at)
            at, is_open = at + part.least, True
            continue
        if not is_open:
            found = at if text.startswith(part, at) else -1
        elif place == len(parts) - 1:
            found = len(text) - len(part) if text.endswith(part) else -1
        else:
            found = text.find(part, at)
        if found < at:
            return None
        starts.append(found)
        at, is_open = found + len(part), False
    return starts if at == len(text) or (is_open and at < len(text)) else None
