"""Rules of the endpoint, message and schema specifications that no model can express."""

from __future__ import annotations

from catalog.rules.domainrules import DomainRules
from catalog.rules.fault import EntityLookup, Fault, Rule, Subject
from catalog.rules.referencerules import DomainReference, references_of

__all__ = [
    "DomainReference",
    "DomainRules",
    "EntityLookup",
    "Fault",
    "Rule",
    "Subject",
    "references_of",
]
