"""The error that ends a reconciliation without a result."""

from __future__ import annotations

import re

_IN_TRACEBACK = re.compile(r"ReconcileError: (?P<message>.+?)(?: Hint: (?P<hint>.+?))?\s*$", re.M)


class ReconcileError(Exception):
    """The catalogs could not be compared, so they may be equal or not.

    Args:
        message: the failure, with the name of the catalog.
        hint: a sentence of advice for the operator, or nothing.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} Hint: {self.hint}" if self.hint else self.message


def error_in(traceback: str) -> ReconcileError | None:
    """Read the error of a Spark worker back from the text that Spark made of it."""
    found = _IN_TRACEBACK.search(traceback)
    return ReconcileError(found["message"], found["hint"] or "") if found else None
