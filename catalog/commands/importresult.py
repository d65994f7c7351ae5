"""The result of importing one document, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from catalog.client import Violation
from catalog.commands.documentfile import DocumentFile
from catalog.commands.documentgroups import SetAside
from catalog.documents.rewrites import Rewrite


class State(StrEnum):
    """Where a document is after a command."""

    IMPORTED = "imported"
    REFUSED = "refused"
    DOUBTFUL = "in doubt"
    """It was sent, and nobody answered."""
    UNSENT = "not sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The result of importing one document: `counts` is what the node has of it now, by plural.

    `written` is how many entities, versions too, were created or changed for it. `left_alone` is
    what the document shows as read-only, and is so in the node, too. `left_out` broke a rule, and
    `set_aside` is what could be kept as an extension instead. `notes` are of rules of the domains
    that refuse nothing. Whatever went wrong with a document that `is_interrupted` was no fault of
    what is in it.
    """

    file: str
    state: State
    document: DocumentFile
    counts: Mapping[str, int] = field(default_factory=dict)
    written: int = 0
    violations: tuple[Violation, ...] = ()
    left_out: tuple[str, ...] = ()
    left_alone: tuple[str, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    notes: tuple[Mapping[str, str], ...] = ()
    is_interrupted: bool = False

    @property
    def is_imported(self) -> bool:
        return self.state is State.IMPORTED

    @property
    def is_wrong(self) -> bool:
        """Whether there is something that whoever imports it has to look at."""
        return bool(self.violations) or not self.is_imported

    @property
    def subjects(self) -> set[str]:
        return {violation.subject for violation in self.violations} - {"", "/"}

    def as_json(self) -> dict[str, Any]:
        document = self.document
        migrated, is_strict = document.migrated, document.is_strict
        return {
            "file": self.file,
            "imported": self.is_imported,
            "state": self.state,
            "edition": migrated.found.edition,
            "reason": migrated.found.reason,
            "counts": dict(self.counts),
            "written": self.written,
            "losses": [
                {"pointer": loss.pointer, "value": loss.value, "reason": loss.reason}
                for loss in document.losses
            ],
            "older": [_rewrite_as_json(rewrite) for rewrite in document.older],
            "rewrites": [
                _rewrite_as_json(rewrite) for rewrite in ([] if is_strict else migrated.rewrites)
            ],
            "notrewritten": [
                {"pointer": left.pointer, "reason": left.reason, "kept": left.is_kept}
                for left in ([] if is_strict else migrated.left_out)
            ],
            "setaside": [
                {"pointer": each.pointer, "reason": each.reason} for each in self.set_aside
            ],
            "violations": [
                {"subject": v.subject, "type": v.type, "title": v.title, "detail": v.detail}
                for v in self.violations
            ],
            "leftout": list(self.left_out),
            "leftalone": list(self.left_alone),
            "notes": list(self.notes),
        }


def _rewrite_as_json(rewrite: Rewrite) -> dict[str, Any]:
    rule = rewrite.rule.text
    return {"pointer": rewrite.pointer, "old": rewrite.old, "new": rewrite.new, "rule": rule}
