"""What ends a reconciliation without a result, and what the operator can do about it."""

from __future__ import annotations

import re

_IN_TRACEBACK = re.compile(r"ReconcileError: (?P<message>.+?)(?: Hint: (?P<hint>.+?))?\s*$", re.M)


class ReconcileError(Exception):
    """The catalogs could not be compared; nothing is known about their equality.

    Args:
        message: what went wrong, with the name of the catalog.
        hint: what the operator can do about it, a sentence; empty where nothing is known.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} Hint: {self.hint}" if self.hint else self.message


def error_in(traceback: str) -> ReconcileError | None:
    """The error that a Spark worker raised, read back from the text that Spark made of it."""
    found = _IN_TRACEBACK.search(traceback)
    return ReconcileError(found["message"], found["hint"] or "") if found else None
