"""Checks of documents against their formats, and comparisons of the versions of a document."""

from __future__ import annotations

from catalog.formats.check import Check, CheckedDocument, Direction, Key, comparison, validation
from catalog.formats.checker import Budget, BudgetSpent, Checker
from catalog.formats.families import COMPATIBILITIES, FORMATS, is_supported, rules_for
from catalog.formats.process import UnusableSchema

__all__ = [
    "COMPATIBILITIES",
    "FORMATS",
    "Budget",
    "BudgetSpent",
    "Check",
    "CheckedDocument",
    "Checker",
    "Direction",
    "Key",
    "UnusableSchema",
    "comparison",
    "is_supported",
    "rules_for",
    "validation",
]
