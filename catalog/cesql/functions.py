"""The built-in functions (cesql/spec.md 3.5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.cesql.errors import EvaluationError
from catalog.cesql.types import (
    MOST_INTEGER,
    Errors,
    Value,
    to_boolean,
    to_integer,
    to_text,
)

# The white space of Unicode. `str.strip()` without an argument also removes control characters.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function for one number of arguments, or for a least number.

    Args:
        compute: takes the arguments, cast to the types of the parameters, and the list of errors.
        parameters: the types of the first arguments.
        rest: the type of further arguments; `None` if the function takes no further arguments.
        zero: the zero value of the type of the result.
    """

    compute: Callable[..., Value]
    parameters: tuple[type, ...]
    rest: type | None = None
    zero: Value = ""

    def takes(self, count: int) -> bool:
        """Whether a call may have `count` arguments."""
        fixed = len(self.parameters)
        return count == fixed or (self.rest is not None and count > fixed)

    def type_of(self, number: int) -> type:
        """The type of the argument with a number, from 0."""
        if number < len(self.parameters):
            return self.parameters[number]
        return self.rest or str


def _left(text: str, length: int, errors: Errors) -> str:
    if length < 0:
        errors.append(EvaluationError("functionEvaluation", "LEFT of less than 0 characters"))
        return text
    return text[:length]


def _right(text: str, length: int, errors: Errors) -> str:
    if length < 0:
        errors.append(EvaluationError("functionEvaluation", "RIGHT of less than 0 characters"))
        return text
    return text[max(len(text) - length, 0) :]


def _substring(text: str, position: int, *length_and_errors: Any) -> str:
    *lengths, errors = length_and_errors
    length = lengths[0] if lengths else len(text)
    if abs(position) > len(text) or length < 0:
        detail = f"SUBSTRING of {len(text)} characters at {position}"
        errors.append(EvaluationError("functionEvaluation", detail))
        return ""
    if position == 0:
        return ""
    begin = position - 1 if position > 0 else len(text) + position
    return text[begin : begin + length]


def _absolute(number: int, errors: Errors) -> int:
    if abs(number) <= MOST_INTEGER:
        return abs(number)
    errors.append(EvaluationError("math", "the absolute value needs more than 32 bits"))
    return MOST_INTEGER


FUNCTIONS: Mapping[str, tuple[Function, ...]] = {
    "ABS": (Function(compute=_absolute, parameters=(int,), zero=0),),
    "BOOL": (Function(compute=to_boolean, parameters=(object,), zero=False),),
    "CONCAT": (Function(compute=lambda *texts: "".join(texts[:-1]), parameters=(), rest=str),),
    "CONCAT_WS": (
        Function(
            compute=lambda delimiter, *texts: delimiter.join(texts[:-1]),
            parameters=(str,),
            rest=str,
        ),
    ),
    "INT": (Function(compute=to_integer, parameters=(object,), zero=0),),
    "LEFT": (Function(compute=_left, parameters=(str, int)),),
    "LENGTH": (Function(compute=lambda text, _: len(text), parameters=(str,), zero=0),),
    "LOWER": (Function(compute=lambda text, _: text.lower(), parameters=(str,)),),
    "RIGHT": (Function(compute=_right, parameters=(str, int)),),
    "STRING": (Function(compute=to_text, parameters=(object,)),),
    "SUBSTRING": (
        Function(compute=_substring, parameters=(str, int)),
        Function(compute=_substring, parameters=(str, int, int)),
    ),
    "TRIM": (Function(compute=lambda text, _: text.strip(_SPACE), parameters=(str,)),),
    "UPPER": (Function(compute=lambda text, _: text.upper(), parameters=(str,)),),
}
"""The functions by name; `object` is the type of parameters that are not cast."""


def find_function(name: str, count: int) -> Function | None:
    """The function with a name that takes `count` arguments; `None` if it does not exist."""
    return next((each for each in FUNCTIONS.get(name, ()) if each.takes(count)), None)
