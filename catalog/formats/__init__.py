"""Checks of documents against their formats, and of their versions against each other."""

from __future__ import annotations

from catalog.formats.checker import Checker
from catalog.formats.families import COMPATIBILITIES, FORMATS, is_supported, rules_for
from catalog.formats.process import UnusableSchema

__all__ = ["COMPATIBILITIES", "FORMATS", "Checker", "UnusableSchema", "is_supported", "rules_for"]
