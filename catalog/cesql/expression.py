"""Expressions: parsed once, and evaluated for many events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, v_args

from catalog.cesql import operators
from catalog.cesql.operators import (
    LEAST_INTEGER,
    MOST_INTEGER,
    Errors,
    Evaluate,
    EvaluationError,
    ParseError,
    Value,
    find_function,
)

MOST_CHARACTERS: Final = 4096
MOST_DEPTH: Final = 200
"""Bounds the recursion of an evaluation."""

_ATTRIBUTE = re.compile(r"[a-z0-9]+")
_FUNCTION = re.compile(r"[A-Z][A-Z_]*")


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of an expression, the depth of its nested parts, and its unknown functions."""

    evaluate: Evaluate
    depth: int
    unknown_functions: tuple[str, ...]


class Expression:
    """An expression of CloudEvents SQL 1.0.

    Args:
        evaluate: evaluates the parsed expression for an event.
        unknown_functions: the names of called functions that do not exist, or do not take as many
            arguments as the call has. Each such call adds an error to those of the evaluation.
    """

    def __init__(self, evaluate: Evaluate, unknown_functions: tuple[str, ...]) -> None:
        self._evaluate = evaluate
        self.unknown_functions = unknown_functions

    def evaluate(self, event: Mapping[str, Any]) -> tuple[Value, Sequence[EvaluationError]]:
        """The value for an event, and the errors of the evaluation; raises no exception.

        Args:
            event: the context attributes by name: text, integers, booleans and times.
        """
        errors: Errors = []
        return self._evaluate(event, errors), errors

    def matches(self, event: Mapping[str, Any]) -> bool:
        """Whether the value is `true` and no error occurred (cesql/spec.md 1.2)."""
        errors: Errors = []
        return self._evaluate(event, errors) is True and not errors


def parse(text: str) -> Expression:
    """Parse an expression (cesql/spec.md 2).

    Raises:
        ParseError: the expression is malformed, too long or nested too deeply.
    """
    if len(text) > MOST_CHARACTERS:
        raise ParseError(
            f"An expression has at most {MOST_CHARACTERS} characters", line=1, column=1
        )
    try:
        node: Any = _parser().parse(text)
    except UnexpectedInput as error:
        raise _parse_error(text, error) from None
    return Expression(node.evaluate, node.unknown_functions)


@cache
def _parser() -> Lark:
    grammar = files("catalog.cesql").joinpath("grammar.lark").read_text()
    return Lark(grammar, parser="lalr", transformer=_Compiler())


def _parse_error(text: str, error: UnexpectedInput) -> ParseError:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        lines = text.split("\n")
        end = len(lines[-1]) + 1
        return ParseError("The expression ends too early", line=len(lines), column=end)
    context = text[max(error.pos_in_stream or 0, 0) :][:16]
    return ParseError(f"{context!r} is not expected here", line=error.line, column=error.column)


def _fault(reason: str, token: Token) -> ParseError:
    return ParseError(reason, line=token.line or 1, column=token.column or 1)


@v_args(inline=True)
class _Compiler(Transformer[Token, _Node]):
    """Makes a node of each rule during the parse, without a tree and without recursion."""

    def true(self, _: Token) -> _Node:
        return _node(operators.constant(True))

    def false(self, _: Token) -> _Node:
        return _node(operators.constant(False))

    def integer(self, token: Token) -> _Node:
        # Of longer texts, `int` would take long or raise its own error.
        if len(token) > 32 or not LEAST_INTEGER <= int(token) <= MOST_INTEGER:
            raise _fault("An integer has at most 32 bits", token)
        return _node(operators.constant(int(token)))

    def text(self, token: Token) -> _Node:
        return _node(operators.constant(_unquoted(token)))

    def attribute(self, token: Token) -> _Node:
        return _node(operators.attribute(_name_of(token)))

    def exists(self, _: Token, token: Token) -> _Node:
        return _node(operators.exists(_name_of(token)))

    def negative(self, _: Token, operand: _Node) -> _Node:
        return _node(operators.negative(operand.evaluate), operand)

    def not_(self, _: Token, operand: _Node) -> _Node:
        return _node(operators.not_(operand.evaluate), operand)

    def binary(self, left: _Node, symbol: Token, right: _Node) -> _Node:
        evaluate = operators.binary(symbol.upper(), left.evaluate, right.evaluate)
        return _node(evaluate, left, right)

    def like(self, operand: _Node, not_: Token | None, _: Token, pattern: Token) -> _Node:
        evaluate = operators.like(operand.evaluate, _unquoted(pattern), wanted=not_ is None)
        return _node(evaluate, operand)

    def in_(self, operand: _Node, not_: Token | None, _: Token, elements: list[_Node]) -> _Node:
        values = [element.evaluate for element in elements]
        evaluate = operators.in_(operand.evaluate, values, wanted=not_ is None)
        return _node(evaluate, operand, *elements)

    def arguments(self, *arguments: _Node) -> list[_Node]:
        return [*arguments]

    def call(self, token: Token, arguments: list[_Node] | None) -> _Node:
        name = token.upper()
        if not _FUNCTION.fullmatch(name):
            raise _fault("The name of a function consists of letters and underscores", token)
        found = arguments or []
        evaluate = operators.call(name, [each.evaluate for each in found])
        unknown = () if find_function(name, len(found)) else (name[:64],)
        return _node(evaluate, *found, unknown=unknown)


def _node(evaluate: Evaluate, *parts: _Node, unknown: tuple[str, ...] = ()) -> _Node:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > MOST_DEPTH:
        raise ParseError(f"An expression has at most {MOST_DEPTH} levels", line=1, column=1)
    for part in parts:
        unknown += part.unknown_functions
    return _Node(evaluate, depth, unknown)


def _name_of(token: Token) -> str:
    name = token.lower()
    if not _ATTRIBUTE.fullmatch(name):
        raise _fault("The name of an attribute consists of letters and digits", token)
    return name


def _unquoted(token: Token) -> str:
    """The text of a literal; a backslash stays unless the quote of the literal follows."""
    quote = token[0]
    return token[1:-1].replace(f"\\{quote}", quote)
