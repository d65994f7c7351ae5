"""Rules of the endpoint, message and schema domains that the model language cannot express."""

from __future__ import annotations

from catalog.rules.examine import Rules
from catalog.rules.fault import Fault, Rule, Subject, Surroundings
from catalog.rules.referencerules import DomainReference, references_of

__all__ = [
    "DomainReference",
    "Fault",
    "Rule",
    "Rules",
    "Subject",
    "Surroundings",
    "references_of",
]
