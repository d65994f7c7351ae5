"""The errors of CloudEvents SQL (cesql/spec.md 3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ErrorKind = Literal["cast", "functionEvaluation", "math", "missingAttribute", "missingFunction"]


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
