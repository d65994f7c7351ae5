"""The findings of lint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
# The members in the order of the JSON form.
_MEMBERS = ("file", "line", "pointer", "subject", "severity", "rule", "message", "source")


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a document; an error would be refused by a catalog, or break readers.

    Args:
        severity: the severity.
        message: the text of the finding.
        file: the name of the document.
        subject: the xid of the entity; empty for the document itself.
        pointer: a JSON pointer into the document, where the member may be missing.
        rule: the name of the rule.
        source: the section of the specification, if the rule is not the engine's.
        line: the line in the file, counted from 1; 0 if the line is unknown.
    """

    severity: Severity
    rule: str
    message: str
    file: str = ""
    subject: str = ""
    pointer: str = ""
    source: str = ""
    line: int = 0

    def as_json(self) -> dict[str, Any]:
        return {name: value for name in _MEMBERS if (value := getattr(self, name))}
