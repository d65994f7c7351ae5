"""The profiles: which cases apply to a server that is not meant to do everything."""

from __future__ import annotations

from xregistry_conformance.cases import Case

PROFILES = {
    "all": "every case",
    "core": "the cases of the core specification, without endpoints, messages and schemas",
    "fixed-model": "the cases that hold under the model that the server has",
    "read-only": "the cases that only read, whatever the registry holds; needs no --wipe",
}
READ_ONLY = "read-only"
_READS = {"GET", "HEAD", "OPTIONS"}
_CORE = ("core/", "pagination/")


def belongs(case: Case, profile: str) -> bool:
    """Whether a case belongs to a profile."""
    if profile == "core":
        return case.section.startswith(_CORE)
    if profile == "fixed-model":
        return case.model is None
    is_read = {step["method"] for step in case.steps} <= _READS
    return profile != READ_ONLY or (case.model is None and is_read)
