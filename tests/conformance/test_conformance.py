"""A node does what each case of the suite says, and the suite is usable without Concord."""

from __future__ import annotations

from xregistry_conformance.test_cases import test_conformance

__all__ = ["test_conformance"]
