"""Rules of the endpoint, message and schema specifications that a model cannot express."""

from __future__ import annotations

from catalog.rules.domainrules import DomainRules, check_provenance
from catalog.rules.fault import Fault, Subject
from catalog.rules.referencerules import references_of

__all__ = ["DomainRules", "Fault", "Subject", "check_provenance", "references_of"]
