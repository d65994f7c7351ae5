"""Values, casts, operators and functions of CloudEvents SQL (cesql/spec.md 3).

An operator whose operands have an error returns the zero value of the type of the operator. The
conformance tests demand the zero value, and an evaluation does little work after an error
(cesql/spec.md 4.1).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
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


# The white space of Unicode. `str.strip()` without an argument also removes control characters.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_CHARACTERS = re.compile(r"\\[%_]|.", re.DOTALL)


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

    def type_of(self, number: int) -> type:
        """The type of the argument with a number, from 0."""
        if number < len(self.parameters):
            return self.parameters[number]
        return self.rest or str


def _part(text: str, length: int, errors: Errors, *, function: str) -> str:
    """The first or the last characters of a text, by the functions LEFT and RIGHT."""
    if length < 0:
        detail = f"{function} of less than 0 characters"
        errors.append(EvaluationError("functionEvaluation", detail))
        return text
    return text[:length] if function == "LEFT" else text[max(len(text) - length, 0) :]


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
    "LEFT": (Function(compute=partial(_part, function="LEFT"), parameters=(str, int)),),
    "LENGTH": (Function(compute=lambda text, _: len(text), parameters=(str,), zero=0),),
    "LOWER": (Function(compute=lambda text, _: text.lower(), parameters=(str,)),),
    "RIGHT": (Function(compute=partial(_part, function="RIGHT"), parameters=(str, int)),),
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
    for function in FUNCTIONS.get(name, ()):
        fixed = len(function.parameters)
        if count == fixed or (function.rest is not None and count > fixed):
            return function
    return None


def _quotient(x: int, y: int, errors: Errors) -> int:
    if y == 0:
        errors.append(EvaluationError("math", f"{x} / 0"))
        return 0
    # `//` rounds down, but the operator rounds towards zero.
    return abs(x) // abs(y) * (1 if (x < 0) is (y < 0) else -1)


def _remainder(x: int, y: int, errors: Errors) -> int:
    if y == 0:
        errors.append(EvaluationError("math", f"{x} % 0"))
        return 0
    return abs(x) % abs(y) * (-1 if x < 0 else 1)


_ARITHMETIC: Mapping[str, Callable[[int, int, Errors], int]] = {
    "*": lambda x, y, _: x * y,
    "/": _quotient,
    "%": _remainder,
    "+": lambda x, y, _: x + y,
    "-": lambda x, y, _: x - y,
}


def compile_pattern(pattern: str) -> Callable[[str], object]:
    """A predicate for texts that match a pattern of LIKE as a whole.

    The time of a match grows no faster than the product of both lengths: an atomic group takes the
    earliest match of a segment, which leaves the most text to later segments, and never another
    match. Without atomic groups, a mismatch would try every division of the text.
    """
    # The parts between two `%`.
    segments = [""]
    for character in _CHARACTERS.findall(pattern):
        if character == "%":
            segments.append("")
        else:
            segments[-1] += "." if character == "_" else re.escape(character[-1])
    first, *middle = segments
    last = f".*{middle.pop()}" if middle else ""
    atoms = "".join(f"(?>.*?{segment})" for segment in middle if segment)
    return re.compile(f"{first}{atoms}{last}", re.DOTALL).fullmatch


def constant(value: Value) -> Evaluate:
    return lambda _, __: value


def attribute(name: str) -> Evaluate:
    missing = EvaluationError("missingAttribute", f"the event has no attribute {name}")

    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        found = event.get(name)
        if found is None:
            errors.append(missing)
            return False
        return found if type(found) is str else value_of(found)

    return evaluate


def exists(name: str) -> Evaluate:
    return lambda event, _: event.get(name) is not None


def _of_all(zero: Value, compute: Callable[..., Value], *operands: Evaluate) -> Evaluate:
    """Evaluates all operands, and computes the result of their values.

    Args:
        zero: the result after an error of an operand.
        compute: takes the values of the operands, and the list of errors.
    """

    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        values = [operand(event, errors) for operand in operands]
        return zero if errors else compute(*values, errors)

    return evaluate


def negative(operand: Evaluate) -> Evaluate:
    return _of_all(0, lambda x, errors: in_range(-to_integer(x, errors), errors), operand)


def not_(operand: Evaluate) -> Evaluate:
    """The negation; an integer is no valid operand, as the conformance tests demand."""

    def compute(x: Value, errors: Errors) -> Value:
        if type(x) is int:
            errors.append(EvaluationError("cast", f"NOT of {x}, which is no boolean"))
            return True
        return not to_boolean(x, errors)

    return _of_all(False, compute, operand)


def binary(symbol: str, left: Evaluate, right: Evaluate) -> Evaluate:
    """The operator with a symbol: of logic, of comparison or of arithmetic."""
    if symbol in ("AND", "OR"):
        return _short_circuit(left, right, ends_with=symbol == "OR")
    if symbol in _ARITHMETIC:
        number = _ARITHMETIC[symbol]
        return _of_all(
            0,
            lambda x, y, errors: in_range(
                number(to_integer(x, errors), to_integer(y, errors), errors), errors
            ),
            left,
            right,
        )
    return _of_all(False, _COMPARISONS[symbol], left, right)


def _short_circuit(left: Evaluate, right: Evaluate, *, ends_with: bool) -> Evaluate:
    """`OR`, which ends with a true left operand, or `AND`, which ends with a false one."""

    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        for operand in (left, right):
            x = operand(event, errors)
            if errors:
                return False
            if to_boolean(x, errors) is ends_with:
                return ends_with
        return not ends_with

    return evaluate


def _equals(x: Value, y: Value, errors: Errors) -> bool:
    """Whether the operands are equal, the left one cast to the type of the right one."""
    # By exact type, since a boolean is also an `int` in Python.
    return (x if type(x) is type(y) else CASTS[type(y)](x, errors)) == y


def _ordered(compare: Callable[[int, int], bool]) -> Callable[[Value, Value, Errors], bool]:
    return lambda x, y, errors: compare(to_integer(x, errors), to_integer(y, errors))


_COMPARISONS: Mapping[str, Callable[[Value, Value, Errors], bool]] = {
    "XOR": lambda x, y, errors: to_boolean(x, errors) is not to_boolean(y, errors),
    "=": _equals,
    "!=": lambda x, y, errors: not _equals(x, y, errors),
    "<>": lambda x, y, errors: not _equals(x, y, errors),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
}


def like(operand: Evaluate, pattern: str, *, wanted: bool) -> Evaluate:
    """`LIKE` or, with `wanted` false, `NOT LIKE`."""
    matches = compile_pattern(pattern)
    return _of_all(
        False, lambda x, errors: (matches(to_text(x, errors)) is not None) is wanted, operand
    )


def in_(operand: Evaluate, elements: Sequence[Evaluate], *, wanted: bool) -> Evaluate:
    """`IN` or, with `wanted` false, `NOT IN`; elements are cast to the type of the left operand."""

    def compute(x: Value, *values_and_errors: Any) -> Value:
        *values, errors = values_and_errors
        cast = CASTS[type(x)]
        return (x in [cast(y, errors) for y in values]) is wanted

    return _of_all(False, compute, operand, *elements)


def call(name: str, arguments: Sequence[Evaluate]) -> Evaluate:
    """The call of a function; `False` and an error if no function takes the arguments."""
    function = find_function(name, len(arguments))
    if function is None:
        detail = f"there is no function {name} of {len(arguments)} arguments"
        missing = EvaluationError("missingFunction", detail)

        def fail(_: Mapping[str, Any], errors: Errors) -> Value:
            errors.append(missing)
            return False

        return fail
    casts = [CASTS.get(function.type_of(number)) for number in range(len(arguments))]

    def compute(*values_and_errors: Any) -> Value:
        *values, errors = values_and_errors
        cast_values = [
            value if cast is None else cast(value, errors)
            for value, cast in zip(values, casts, strict=True)
        ]
        return function.compute(*cast_values, errors)

    return _of_all(function.zero, compute, *arguments)
