"""The published editions of the document format, and how to recognise an edition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EDITIONS = ("0.4", "0.5", "rc1", "rc2", "rc3", "rc4")
NEWEST_EDITION = "rc4"
DOCUMENT_SCHEMA = "https://cloudevents.io/schemas/registry"

SPECVERSIONS = {
    "0.4": "0.4-wip",
    "0.5": "0.5-wip",
    "rc1": "1.0-rc1",
    "rc2": "1.0-rc2",
    "rc3": "1.0-rc3",
    "rc4": "1.0-rc4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedEdition:
    """The edition of a document, and the reason to assume the edition."""

    edition: str
    reason: str


def stated_edition(document: Mapping[str, Any]) -> str | None:
    """The edition that a document states; published documents often state a wrong edition."""
    stated = document.get("specversion", document.get("specVersion"))
    if not isinstance(stated, str):
        return None
    spellings = (stated.lower(), f"{stated.lower()}-wip")
    return next((name for name, known in SPECVERSIONS.items() if known in spellings), None)


def is_certainly_newest(document: Mapping[str, Any]) -> bool:
    """Whether a catalog of the newest edition wrote the document, so that no older names occur.

    A catalog writes the newest specversion and an `xid` at the root; hand-written documents have
    no `xid`.
    """
    return document.get("xid") == "/" and stated_edition(document) == NEWEST_EDITION
