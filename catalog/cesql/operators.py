"""The operators, as functions that combine evaluations into one evaluation (cesql/spec.md 3.4).

An operator whose operands have an error returns the zero value of the type of the operator. The
conformance tests demand the zero value, and an evaluation does little work after an error
(cesql/spec.md 4.1).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from catalog.cesql.errors import EvaluationError
from catalog.cesql.functions import find_function
from catalog.cesql.types import (
    CASTS,
    Errors,
    Evaluate,
    Value,
    in_range,
    to_boolean,
    to_integer,
    to_text,
    value_of,
)

_PARTS = re.compile(r"\\[%_]|[%_]|[^\\%_]+|\\")


class _Segment:
    """The part of a pattern between two `%`: literal characters and wildcards for one character."""

    def __init__(self) -> None:
        self.length = 0
        self._expression = ""

    def add(self, literal: str) -> None:
        self.length += len(literal)
        self._expression += re.escape(literal)

    def add_any(self) -> None:
        self.length += 1
        self._expression += "."

    def compiled(self) -> re.Pattern[str]:
        return re.compile(self._expression, re.DOTALL)


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A predicate for texts that match a pattern of LIKE as a whole.

    The time of a match grows no faster than the product of both lengths: the search for segments
    goes from left to right, and searches for each segment once. A single regular expression would
    try every division of the text, of which there can be exponentially many.
    """
    segments = [_Segment()]
    for part in _PARTS.findall(pattern):
        if part == "%":
            segments.append(_Segment())
        elif part == "_":
            segments[-1].add_any()
        else:
            segments[-1].add(part[1] if len(part) == 2 and part[0] == "\\" else part)
    first, last = segments[0].compiled(), segments[-1].compiled()
    if len(segments) == 1:
        return lambda text: first.fullmatch(text) is not None
    middle = [each.compiled() for each in segments[1:-1] if each.length]
    length_of_last = segments[-1].length

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
