"""The values, casts and errors of CloudEvents SQL (cesql/spec.md 3.1, 3.7 and 3.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

ErrorKind = Literal["cast", "functionEvaluation", "math", "missingAttribute", "missingFunction"]
Value = bool | int | str

LEAST_INTEGER: Final = -(2**31)
MOST_INTEGER: Final = 2**31 - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")


class ParseError(ValueError):
    """A text is no expression, or an expression that is too large.

    Args:
        reason: a sentence for the author of the text.
        line: the line of the fault, from 1.
        column: the column of the fault, from 1.
    """

    def __init__(self, reason: str, *, line: int, column: int) -> None:
        super().__init__(f"{reason} (line {line}, column {column})")
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class EvaluationError:
    """An error of an evaluation; the evaluation has a value nevertheless."""

    kind: ErrorKind
    detail: str


Errors = list[EvaluationError]
Evaluate = Callable[[Mapping[str, Any], Errors], Value]
"""Returns the value of an expression for the attributes of an event, and adds errors to a list."""


def in_range(number: int, errors: Errors) -> int:
    """A result of arithmetic, or 0 and an error if the result needs more than 32 bits."""
    if LEAST_INTEGER <= number <= MOST_INTEGER:
        return number
    errors.append(EvaluationError("math", f"{number} needs more than 32 bits"))
    return 0


def to_integer(value: Value, errors: Errors) -> int:
    if isinstance(value, int):
        return int(value)
    if _INTEGER.fullmatch(value) and LEAST_INTEGER <= int(value) <= MOST_INTEGER:
        return int(value)
    errors.append(EvaluationError("cast", f"{value[:64]!r} is no 32-bit integer"))
    return 0


def to_boolean(value: Value, errors: Errors) -> bool:
    if isinstance(value, int):
        return bool(value)
    text = value.lower()
    if text not in ("true", "false"):
        errors.append(EvaluationError("cast", f"{value[:64]!r} is no boolean"))
    return text == "true"


def to_text(value: Value, _: Errors) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


CASTS: Mapping[type, Callable[[Value, Errors], Value]] = {
    bool: to_boolean,
    int: to_integer,
    str: to_text,
}
"""The cast to each type."""


def value_of(attribute: Any) -> Value:
    """The value of an attribute of an event, as text for remaining types (cesql/spec.md 3.2)."""
    if isinstance(attribute, bool | str):
        return attribute
    if isinstance(attribute, int) and LEAST_INTEGER <= attribute <= MOST_INTEGER:
        return attribute
    if isinstance(attribute, datetime):
        is_utc = attribute.utcoffset() == UTC.utcoffset(None)
        return attribute.isoformat().replace("+00:00", "Z") if is_utc else attribute.isoformat()
    return str(attribute)
