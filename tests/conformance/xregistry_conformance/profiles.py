"""The profiles: which cases apply to a server that is not meant to do everything."""

from __future__ import annotations

from xregistry_conformance.cases import Case

PROFILES = {
    "all": "every case of xRegistry, and of what else the server offers beside it",
    "core": "the cases of the core specification, without endpoints, messages and schemas",
    "fixed-model": "the cases that hold under the model that the server has",
    "read-only": "the cases that only read, whatever the registry holds; needs no --wipe",
    "subscriptions": "CloudEvents subscriptions to changes, and their deliveries",
    "replication": "the replication protocol of Concord",
    "message-catalog": "the draft Message and Event Catalog API; needs no --wipe",
    "discovery": "the draft CloudEvents Discovery API; needs no --wipe",
    "registry-0.4": "the draft CloudEvents Registry 0.4; needs no --wipe",
}
READ_ONLY = "read-only"
_READS = {"GET", "HEAD", "OPTIONS"}
_SECTIONS = {
    "core": ("core/", "pagination/"),
    "subscriptions": ("cloudevents/", "core/events.md"),
    "replication": ("replication/",),
    "message-catalog": ("drafts/message-catalog",),
    "discovery": ("drafts/discovery",),
    "registry-0.4": ("drafts/registry-0.4",),
}
_ENTRIES = {"message-catalog": "/messagecatalog", "discovery": "/services"}


def belongs(case: Case, profile: str) -> bool:
    """Whether a case belongs to a profile."""
    if profile in _SECTIONS:
        return case.section.startswith(_SECTIONS[profile])
    if case.is_draft:
        return False
    if profile == "fixed-model":
        return case.model is None
    is_read = {step.get("method") for step in case.steps} <= _READS
    return profile != READ_ONLY or (case.model is None and is_read)


def wipes(profile: str) -> bool:
    """Whether the cases of a profile empty the registry."""
    drafts = {name for name, sections in _SECTIONS.items() if sections[0].startswith("drafts/")}
    return profile not in {READ_ONLY, *drafts}


def entry_of(profile: str) -> str:
    """The path that a server of a profile shows."""
    return _ENTRIES.get(profile, "/")
