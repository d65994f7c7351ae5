"""What is found in documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a document: an error is what a catalog refuses, or what breaks readers.

    Args:
        file: the document's name.
        subject: the xid of the entity that it is about, empty for the document itself.
        pointer: a JSON pointer into the document; what it leads to may be missing there.
        rule: its name.
        source: the text that the rule is from, if it is not the engine's.
        line: where it is in the file, counted from 1; 0 if that is not known.
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
        members = {
            "file": self.file,
            "line": self.line,
            "pointer": self.pointer,
            "subject": self.subject,
            "severity": self.severity,
            "rule": self.rule,
            "message": self.message,
            "source": self.source,
        }
        return {name: value for name, value in members.items() if value}
