"""The operators and functions, which combine evaluations into one (cesql/spec.md 3.4 and 3.5).

An operator whose operands have an error returns the zero value of the type of the operator. The
conformance tests demand the zero value, and an evaluation does little work after an error
(cesql/spec.md 4.1).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.cesql.types import (
    CASTS,
    MOST_INTEGER,
    Errors,
    Evaluate,
    EvaluationError,
    Value,
    in_range,
    to_boolean,
    to_integer,
    to_text,
    value_of,
)

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


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A predicate for texts that match a pattern of LIKE as a whole.

    The time of a match grows no faster than the product of both lengths: the search for segments
    goes from left to right, and searches for each segment once. A single regular expression would
    try every division of the text, of which there can be exponentially many.
    """
    # The parts between two `%`, each a list of expressions for one character.
    segments: list[list[str]] = [[]]
    for character in _CHARACTERS.findall(pattern):
        if character == "%":
            segments.append([])
        else:
            segments[-1].append("." if character == "_" else re.escape(character[-1]))
    expressions = [re.compile("".join(each), re.DOTALL) for each in segments]
    first, last, length_of_last = expressions[0], expressions[-1], len(segments[-1])
    if len(segments) == 1:
        return lambda text: first.fullmatch(text) is not None
    middle = [each for each in expressions[1:-1] if each.pattern]

    def matches(text: str) -> bool:
        found = first.match(text)
        # The earliest match of a segment suffices: it leaves the most text to later segments.
        for segment in middle:
            if found is None:
                return False
            found = segment.search(text, found.end())
        begin_of_last = len(text) - length_of_last
        if found is None or begin_of_last < found.end():
            return False
        return last.match(text, begin_of_last) is not None

    return matches


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


def negative(operand: Evaluate) -> Evaluate:
    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        x = operand(event, errors)
        return 0 if errors else in_range(-to_integer(x, errors), errors)

    return evaluate


def not_(operand: Evaluate) -> Evaluate:
    """The negation; an integer is no valid operand, as the conformance tests demand."""

    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        x = operand(event, errors)
        if errors:
            return False
        if type(x) is int:
            errors.append(EvaluationError("cast", f"NOT of {x}, which is no boolean"))
            return True
        return not to_boolean(x, errors)

    return evaluate


def and_(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        x = left(event, errors)
        if errors or not to_boolean(x, errors):
            return False
        y = right(event, errors)
        return not errors and to_boolean(y, errors)

    return evaluate


def or_(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        x = left(event, errors)
        if errors or to_boolean(x, errors):
            return not errors
        y = right(event, errors)
        return not errors and to_boolean(y, errors)

    return evaluate


def xor(left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        x, y = left(event, errors), right(event, errors)
        if errors:
            return False
        return to_boolean(x, errors) is not to_boolean(y, errors)

    return evaluate


def equality(left: Evaluate, right: Evaluate, *, wanted: bool) -> Evaluate:
    """`=` or, with `wanted` false, `!=`; the left operand is cast to the type of the right."""

    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        x, y = left(event, errors), right(event, errors)
        if errors:
            return False
        # By exact type, since a boolean is also an `int` in Python.
        if type(x) is not type(y):
            x = CASTS[type(y)](x, errors)
        return (x == y) is wanted

    return evaluate


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
_ORDER: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def arithmetic(symbol: str, left: Evaluate, right: Evaluate) -> Evaluate:
    compute = _ARITHMETIC[symbol]

    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        x, y = left(event, errors), right(event, errors)
        if errors:
            return 0
        return in_range(compute(to_integer(x, errors), to_integer(y, errors), errors), errors)

    return evaluate


def comparison(symbol: str, left: Evaluate, right: Evaluate) -> Evaluate:
    if symbol in ("=", "!=", "<>"):
        return equality(left, right, wanted=symbol == "=")
    compare = _ORDER[symbol]

    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        x, y = left(event, errors), right(event, errors)
        if errors:
            return False
        return compare(to_integer(x, errors), to_integer(y, errors))

    return evaluate


def like(operand: Evaluate, pattern: str, *, wanted: bool) -> Evaluate:
    """`LIKE` or, with `wanted` false, `NOT LIKE`."""
    matches = compile_pattern(pattern)

    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        x = operand(event, errors)
        if errors:
            return False
        return matches(to_text(x, errors)) is wanted

    return evaluate


def in_(operand: Evaluate, elements: Sequence[Evaluate], *, wanted: bool) -> Evaluate:
    """`IN` or, with `wanted` false, `NOT IN`; elements are cast to the type of the left operand."""

    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        x = operand(event, errors)
        values = [element(event, errors) for element in elements]
        if errors:
            return False
        cast = CASTS[type(x)]
        return (x in [cast(y, errors) for y in values]) is wanted

    return evaluate


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

    def evaluate(event: Mapping[str, Any], errors: Errors) -> Value:
        values = [argument(event, errors) for argument in arguments]
        if errors:
            return function.zero
        cast_values = [
            value if cast is None else cast(value, errors)
            for value, cast in zip(values, casts, strict=True)
        ]
        return function.compute(*cast_values, errors)

    return evaluate
