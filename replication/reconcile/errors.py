"""The errors that end a reconciliation without a result, or exclude a catalog."""

from __future__ import annotations

import re

_IN_TRACEBACK = re.compile(
    r"(?:ReconcileError|CatalogUnread): (?P<message>.+?)(?: Hint: (?P<hint>.+?))?"
    r"(?: Catalog: (?P<catalog>\S+))?\s*$",
    re.M,
)


class ReconcileError(Exception):
    """The catalogs could not be compared, so the run does not tell whether the catalogs are equal.

    Args:
        message: the failure, with the name of the catalog.
        hint: a sentence of advice for the operator, or an empty text.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} Hint: {self.hint}" if self.hint else self.message


class CatalogUnread(ReconcileError):
    """A catalog could not be read; the comparison can go on without the catalog.

    Args:
        catalog: the name of the catalog, without white space.
    """

    def __init__(self, message: str, hint: str, catalog: str) -> None:
        super().__init__(message, hint)
        self.catalog = catalog
        # Pickle calls the class with `args`, and the base class has left out the catalog.
        self.args = (message, hint, catalog)

    def __str__(self) -> str:
        # `error_in` parses the text, because Spark passes an error of a worker on as a traceback.
        return f"{super().__str__()} Catalog: {self.catalog}"


def error_in(traceback: str) -> ReconcileError | None:
    """Parse the error of a Spark worker from the traceback in Spark's error message."""
    found = _IN_TRACEBACK.search(traceback)
    if found is None:
        return None
    message, hint, catalog = found["message"], found["hint"] or "", found["catalog"]
    return CatalogUnread(message, hint, catalog) if catalog else ReconcileError(message, hint)
