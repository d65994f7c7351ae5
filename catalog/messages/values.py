"""Reads the values of properties by type, and compares values with the values of definitions.

The value of a definition may be a URI template, in which a placeholder matches every text.
Libraries expand templates, but no library matches a text against a template with placeholders that
several templates share. Sources: message/spec.md, "Property Definitions" and "value"; RFC 6570.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
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
BUDGET = 60_000
CHARACTERS_OF_A_STEP = 32
_DEEPEST = 150


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


@dataclass(frozen=True)
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

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(part.name for part in self.parts if isinstance(part, Gap) and part.name)

    @property
    def repeated(self) -> frozenset[str]:
        """The names that occur more than once in the template."""
        counts = Counter(part.name for part in self.parts if isinstance(part, Gap))
        return frozenset(name for name, count in counts.items() if name and count > 1)

    @property
    def is_constant(self) -> bool:
        return all(isinstance(part, str) for part in self.parts)

    def fits(self, text: str) -> bool:
        """Whether a text matches, without a comparison of the texts of equal placeholders."""
        return fits(self.parts, text)


def _gap(operator: str, variables: str) -> Gap | None:
    if operator in ("", "+") and _NAME.fullmatch(variables):
        return Gap(variables)
    is_expression = all(_MODIFIED.fullmatch(name) for name in variables.split(","))
    return Gap() if is_expression else None


def fits(parts: tuple[Part, ...], text: str) -> bool:
    """Whether a text matches parts, without a comparison of the texts of equal placeholders.

    A literal is matched at the first occurrence, from the left, in one pass without backtracking.
    """
    at, least, is_open = 0, 0, False
    for place, part in enumerate(parts):
        if isinstance(part, Gap):
            least, is_open = least + part.least, True
            continue
        if place == len(parts) - 1 and is_open:
            return text.endswith(part) and len(text) - len(part) >= at + least
        found = text.find(part, at + least) if is_open else at
        if found < 0 or not text.startswith(part, found):
            return False
        at, least, is_open = found + len(part), 0, False
    return len(text) - at >= least if is_open else at == len(text)


class Exhausted(Exception):
    """The search spent its budget without an answer."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A text that has to match the parts of a template, as a constraint of the search."""

    parts: tuple[Part, ...]
    text: str


class Search:
    """A search for the texts of the placeholders in templates.

    A placeholder must have the same text in every template of a message. Matching patterns with
    repeated variables is NP-complete, so the search has a budget. Templates written by people use
    little of the budget, because literals around most placeholders fix the texts of placeholders.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._left = budget

    def succeeds(self, demands: Sequence[Demand], depth: int = 0) -> bool:
        """Whether every demand can match with a single text for each placeholder.

        Raises:
            Exhausted: the budget is spent, or the search is too deep.
        """
        if not self._all_fit(demands):
            return False
        open_ = list(_relevant(demands))
        if not open_:
            return True
        if depth > _DEEPEST:
            raise Exhausted
        # The demand with the fewest gaps leaves the fewest texts to try.
        open_.sort(key=lambda demand: sum(isinstance(part, Gap) for part in demand.parts))
        chosen, others = open_[0], open_[1:]
        return any(
            self.succeeds([rest, *(_bind(other, gap, value) for other in others)], depth + 1)
            for gap, value, rest in _first_gap(chosen)
        )

    def _all_fit(self, demands: Sequence[Demand]) -> bool:
        for demand in demands:
            self._left -= len(demand.parts) + len(demand.text) // CHARACTERS_OF_A_STEP + 1
            if self._left < 0:
                raise Exhausted
            if not fits(demand.parts, demand.text):
                return False
        return True


def _relevant(demands: Iterable[Demand]) -> Iterator[Demand]:
    """The demands with a repeated placeholder; demands without one fit already."""
    demands = list(demands)
    counts = Counter(name for demand in demands for name in _names(demand))
    return (demand for demand in demands if any(counts[name] > 1 for name in _names(demand)))


def _names(demand: Demand) -> Iterator[str]:
    return (part.name for part in demand.parts if isinstance(part, Gap) and part.name)


def _first_gap(demand: Demand) -> Iterator[tuple[Gap, str, Demand]]:
    """The texts that the first gap can have, each with the rest of the demand."""
    parts, text = demand.parts, demand.text
    if isinstance(first := parts[0], str):
        parts, text = parts[1:], text[len(first) :]
    gap, *rest = parts
    assert isinstance(gap, Gap)
    for end in _ends(gap, rest, text):
        value = text[:end]
        yield gap, value, _bind(Demand(tuple(rest), text[end:]), gap, value)


def _ends(gap: Gap, rest: Sequence[Part], text: str) -> Iterator[int]:
    following = rest[0] if rest else ""
    if isinstance(following, Gap):
        yield from range(gap.least, len(text) + 1)
    elif len(rest) < 2:
        yield len(text) - len(following)
    else:
        end = text.find(following, gap.least)
        while end >= 0:
            yield end
            end = text.find(following, end + 1)


def _bind(demand: Demand, gap: Gap, value: str) -> Demand:
    """Replace a placeholder by a text, and join adjacent literals."""
    if not gap.name or gap not in demand.parts:
        return demand
    parts: list[Part] = []
    for part in demand.parts:
        bound = value if part == gap else part
        if isinstance(bound, str) and parts and isinstance(last := parts[-1], str):
            parts[-1] = last + bound
        else:
            parts.append(bound)
    return Demand(tuple(parts), demand.text)
