"""The errors that end a reconciliation without a result, or take a catalog out of it."""

from __future__ import annotations

import re

_IN_TRACEBACK = re.compile(
    r"(?:ReconcileError|CatalogUnread): (?P<message>.+?)(?: Hint: (?P<hint>.+?))?"
    r"(?: Catalog: (?P<catalog>\S+))?\s*$",
    re.M,
)


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


class CatalogUnread(ReconcileError):
    """One catalog could not be read; the others can be compared without it.

    Args:
        catalog: its name, which has no white space.
    """

    def __init__(self, message: str, hint: str, catalog: str) -> None:
        super().__init__(message, hint)
        self.catalog = catalog
        self.args = (message, hint, catalog)

    def __str__(self) -> str:
        return f"{super().__str__()} Catalog: {self.catalog}"


def error_in(traceback: str) -> ReconcileError | None:
    """Read the error of a Spark worker back from the text that Spark made of it."""
    found = _IN_TRACEBACK.search(traceback)
    if found is None:
        return None
    message, hint, catalog = found["message"], found["hint"] or "", found["catalog"]
    return CatalogUnread(message, hint, catalog) if catalog else ReconcileError(message, hint)
