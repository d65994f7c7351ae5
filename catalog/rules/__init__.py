"""Rules of the endpoint, message and schema domains that the model language cannot express."""

from __future__ import annotations

from catalog.rules.examine import Rules
from catalog.rules.fault import Fault, Rule, Subject, Surroundings
from catalog.rules.references import Reference, references_of

__all__ = [
    "Fault",
    "Reference",
    "Rule",
    "Rules",
    "Subject",
    "Surroundings",
    "references_of",
]
